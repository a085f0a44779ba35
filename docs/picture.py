"""Draws docs/images/found.svg: the digits whose labels accord trusts least, after the quickstart of the README."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits

from accord import Classifier
from accord.data.noise import add_noise

SHOWN, IN_A_ROW, CELL = 16, 8, 84
PATH = Path(__file__).with_name("images") / "found.svg"


def picture() -> str:
    digits = load_digits()
    images, truth = digits.images[:1200], digits.target[:1200]
    noisy = add_noise(truth, classes=10, rate=0.4, seed=0)
    clf = Classifier(method="deca-p", seed=0).fit(images, noisy.labels)
    found = clf.find_label_issues().slice(0, SHOWN).to_pylist()
    wrong = sum(bool(noisy.is_noise[row["index"]]) for row in found)
    width, height = IN_A_ROW * CELL, 44 + (SHOWN // IN_A_ROW) * (CELL + 22)
    title = f"The {SHOWN} least trusted of {len(images):,} labels, {noisy.realised:.0%} of which are wrong"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f"<title>{title}: {wrong} of {SHOWN} are wrong</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="24" font-size="17" font-weight="bold" fill="#1b2733">{title}</text>',
    ]
    for place, row in enumerate(found):
        x, y = place % IN_A_ROW * CELL, 40 + place // IN_A_ROW * (CELL + 22)
        lines += _digit(images[row["index"]], x + 14, y)
        given, taken = row["given_label"], row["predicted_label"]
        words = f'<tspan fill="#b3261e" text-decoration="line-through">{given}</tspan> → '
        words += f'<tspan fill="#146c2e" font-weight="bold">{taken}</tspan>'
        lines.append(f'<text x="{x + CELL / 2}" y="{y + 76}" font-size="17" text-anchor="middle">{words}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _digit(image, x: float, y: float) -> list[str]:
    size = 56 / 8
    cells = [
        f'<rect x="{x + column * size:.4g}" y="{y + line * size:.4g}" width="{size}" height="{size}" '
        f'fill="#16324a" fill-opacity="{value / 16:.2f}"/>'
        for line, values in enumerate(image)
        for column, value in enumerate(values)
        if value
    ]
    return [f'<rect x="{x}" y="{y}" width="56" height="56" fill="#eef3f7"/>', *cells]


if __name__ == "__main__":
    PATH.write_text(picture(), encoding="utf-8")
