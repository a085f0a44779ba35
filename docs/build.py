"""Writes the pages that are made from the code and from results: docs/settings.md and docs/results/overview.md.

Tests hold the pages to what they are made from.
"""

from __future__ import annotations

from pathlib import Path

from accord.estimators import RecommenderSettings
from accord.estimators.classifier_settings import ClassifierSettings
from accord.report.overview import write_overview

PAGE = Path(__file__).with_name("settings.md")


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Keywords of `Recommender(...)` and `Classifier(...)`, and names that `--set` takes. In a comparison also",
        "`method.name`, for a setting of one method alone.",
    ]
    for title, settings in (("The recommender", RecommenderSettings), ("The classifier", ClassifierSettings)):
        lines += ["", f"## {title}", "", "| setting | default | meaning |", "|---|---|---|"]
        for name, field in settings.model_fields.items():
            default = "by model or method" if field.default is None else f"`{field.default}`"
            lines.append(f"| `{name}` | {default} | {' '.join((field.description or '').split())} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
    write_overview(PAGE.with_name("results"))
