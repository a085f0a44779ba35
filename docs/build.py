"""Writes the pages that are made from the code and from results: docs/settings.md and docs/results/overview.md.

Tests hold the pages to what they are made from.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from accord.estimators import RecommenderSettings
from accord.estimators.classifier_settings import ClassifierSettings
from accord.reproduction.overview import write_overview

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


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called for each page of the site: the cells of studies are in the repository, not in the site."""
    if not page.file.src_uri.startswith("results/"):
        return markdown
    return re.sub(r"\[([^\]]+)\]\((?:[^)]*/cells|cells\.parquet)\)", r"\1", markdown)


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
    write_overview(PAGE.with_name("results"))
