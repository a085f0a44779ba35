"""Colours that all eyes tell apart, in light, dark and print."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from accord.report.plots import palette

SIGHT = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What remains of linear RGB with a kind of colour blindness (Machado, Oliveira and Fernandes 2009)."""


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(to_lab) @ np.cbrt(np.array(to_cones) @ np.clip(rgb, 0, 1))


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted(float(rgb @ [0.2126, 0.7152, 0.0722]) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK, palette.PRINT])
def test_series_are_told_apart_by_all_eyes(theme: palette.Theme) -> None:
    assert len(set(theme.series)) == palette.COLOURS == 10
    for sight in SIGHT.values():
        seen = [oklab(np.array(sight) @ linear(colour)) for colour in theme.series]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 0.1
    assert min(contrast(linear(colour), linear(theme.card)) for colour in theme.series) > 2.8


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK, palette.PRINT])
def test_numbers_on_heat_are_readable(theme: palette.Theme) -> None:
    def bytes_of(colour: str) -> np.ndarray:
        return np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])

    for share in np.linspace(0, 1, 101):
        deep = 0.05 + 0.95 * share
        mixed = (1 - deep) * bytes_of(theme.card) + deep * bytes_of(theme.heat)
        ground = linear("#" + "".join(f"{round(c):02x}" for c in mixed))
        assert contrast(ground, linear(theme.card if share > palette.ON_HEAT else theme.ink)) > 3.3
