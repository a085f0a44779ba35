"""Plots show what they are given: every series, every mark, nothing twice, and no text that is markup."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from accord.report import figures, plots
from accord.report.plots import palette
from accord.report.plots.axes import Scale, around, log_ticks, shown, ticks
from accord.report.plots.canvas import clipped, width_of

HOSTILE = "</text><script>alert('1')</script> \"&amp;\x00\x0b\ud800]]>"
NAMES = [f"method {k}" for k in range(palette.COLOURS)]


def parsed(drawing: plots.Drawing) -> ElementTree.Element:
    """The file of a drawing, without the namespace."""
    return ElementTree.fromstring(drawing.alone().replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def marks(drawing: plots.Drawing, tag: str, kind: str) -> list[ElementTree.Element]:
    """Elements of a tag that have all these classes."""
    return [e for e in parsed(drawing).iter(tag) if set(kind.split()) <= set(e.get("class", "").split())]


def words(drawing: plots.Drawing) -> list[str]:
    return [e.text or "" for e in parsed(drawing).iter("text")]


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for name in names]


def every_kind(name: str = "a") -> dict[str, plots.Drawing]:
    label = (name, name)
    return {
        "lines": plots.lines({name: [(1, 0.1, 0.1), (2, 0.3, 0.0)], "b": [(1, 0.2)]}, label, name, heading=True),
        "histogram": plots.histogram(
            [2, 3], [0.0, 0.5, 1.0], label, name, flagged=[1, 0], cut=0.5, names=(name, "b")
        ),
        "bar panel": plots.bar_panel(name, {name: (0.5, 0.1)}),
        "grouped bars": plots.grouped_bars({name: {name: (0.5, 0.1)}}, label, name, heading=True),
        "heat map": plots.heat_map([[0.5]], [name], [name], label, name, heading=True),
        "differences": plots.differences(
            {name: {name: (1.0, True)}}, name, name, widest=5.0, size=(600.0, 200.0), heading=True
        ),
    }


@pytest.mark.parametrize("kind", every_kind())
def test_text_stays_text(kind: str) -> None:
    drawing = every_kind(HOSTILE)[kind]
    root = parsed(drawing)
    assert root.get("role") == "img"
    label = root.get("aria-label") or ""
    assert label.startswith(re.sub("[\x00\x0b\ud800]", "\ufffd", HOSTILE))
    assert not list(root.iter("script"))
    assert "<script" not in drawing.__html__()
    assert any("alert('1')" in (title.text or "") for title in root.iter("title"))  # cut names are whole in tips


@pytest.mark.parametrize("kind", every_kind())
def test_a_file_stands_alone_and_is_the_same_bytes_twice(kind: str) -> None:
    drawing = every_kind()[kind]
    text = drawing.alone()
    assert text == every_kind()[kind].alone()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert not re.search(r"url\(|@import|href|var\(", text)
    ground = next(parsed(drawing).iter("rect"))
    assert ground.get("class") == "paper"
    assert numbers(ground, "width", "height") == [float(parsed(drawing).get(n, "0")) for n in ("width", "height")]
    assert "<style" not in drawing.__html__()  # the page has it once


@pytest.mark.parametrize("kind", every_kind())
def test_every_class_has_a_rule(kind: str) -> None:
    ruled = set(re.findall(r"\.([a-z]\w*)", plots.style()))
    used = {name for e in parsed(every_kind()[kind]).iter() for name in e.get("class", "").split()}
    assert used - {"area"} <= ruled


def test_all_text_has_one_size() -> None:
    assert re.findall(r"\b(\d+)px", plots.style()) == [str(palette.TEXT)]
    for drawing in every_kind().values():
        assert "font" not in drawing.__html__()


# -- colours --------------------------------------------------------------------------------------------


def test_a_name_has_its_colour_whoever_stands_beside_it() -> None:
    order = ("normal", "deca", "deca-p")
    assert plots.assigned(["deca-p", "new", "normal"], order) == {"deca-p": 2, "new": 3, "normal": 0}
    assert plots.assigned(["newer", "new", "deca"], order) == {"newer": 3, "new": 4, "deca": 1}
    drawing = plots.lines({"deca": [(1, 1), (2, 2)]}, ("x", "y"), "t", colours={"normal": 0, "deca": 7})
    assert marks(drawing, "polyline", "line s7")
    assert marks(drawing, "line", "line s7")  # the legend
    assert not marks(drawing, "polyline", "s0")


def test_the_eleventh_series_is_no_twin_of_the_first() -> None:
    series = {f"m{k}": [(1.0, float(k)), (2.0, float(k))] for k in range(12)}
    kinds = [e.get("class") for e in marks(plots.lines(series, ("x", "y"), "t"), "polyline", "line")]
    assert len(set(kinds)) == 12


# -- lines ----------------------------------------------------------------------------------------------


def places(polyline: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (p.split(",") for p in polyline.get("points", "").split())]


@pytest.mark.parametrize("legend_at", ["right", "below"])
def test_legends_name_every_series_beside_the_lines(legend_at: str) -> None:
    series = {name: [(x, k + x / 9) for x in range(20)] for k, name in enumerate(NAMES)}
    drawing = plots.lines(series, ("x", "y"), "t", legend_at=legend_at)  # pyright: ignore[reportArgumentType]
    assert set(NAMES) <= set(words(drawing))
    drawn = [p for line in marks(drawing, "polyline", "line") for p in places(line)]
    right, low = max(x for x, _ in drawn), max(y for _, y in drawn)
    for sample in marks(drawing, "line", "line"):
        x, y = numbers(sample, "x1", "y1")
        assert x > right if legend_at == "right" else y > low
        assert 0 <= x <= drawing.width
        assert 0 <= y <= drawing.height
    assert [e.get("class") for e in marks(drawing, "line", "line")] == [
        e.get("class") for e in marks(drawing, "polyline", "line")
    ]


def test_a_missing_number_breaks_the_line() -> None:
    points = [(1, 1.0), (2, 2.0), (3, math.nan), (4, 3.0), (5, 2.0), (6, math.inf), (7, 1.0)]
    drawing = plots.lines({"a": points}, ("x", "y"), "t", dots=False)
    assert [len(places(line)) for line in marks(drawing, "polyline", "line")] == [2, 2]
    assert len(marks(drawing, "circle", "dot")) == 1  # the point that stands alone
    assert "nan" not in drawing.alone()
    parsed(plots.lines({"a": [(1, math.nan)]}, ("x", "y"), "t"))
    parsed(plots.lines({}, ("x", "y"), "t"))


def test_shades_reach_one_standard_deviation() -> None:
    points = [(1, 1.0, 0.5), (2, 2.0, 0.0)]
    drawing = plots.lines({"a": points}, ("x", "y"), "t")
    (band,), (line,) = marks(drawing, "polygon", "band f0"), marks(drawing, "polyline", "line")
    over, middle, under = (y for x, y in [places(band)[0], places(line)[0], places(band)[-1]])
    assert over < middle < under
    assert middle - over == pytest.approx(under - middle, abs=0.02)
    assert not marks(plots.lines({"a": [(1, 1.0), (2, 2.0)]}, ("x", "y"), "t"), "polygon", "band")


def test_scales_of_lines() -> None:
    drawing = plots.lines({"a": [(0.01, 1), (1, 2), (100, 3)]}, ("x", "y"), "t", log=True)
    (line,) = marks(drawing, "polyline", "line")
    (a, _), (b, _), (c, _) = places(line)
    assert b - a == pytest.approx(c - b, abs=0.02)
    steps = {0.1: "few", 0.2: "more", 0.4: "most"}
    named = plots.lines({"a": [(0.1, 1.0), (0.2, 2.0)]}, ("x", "y"), "t", ticks=steps)
    assert {"few", "more", "most"} <= set(words(named))
    (most,) = [e for e in parsed(named).iter("text") if e.text == "most"]
    assert places(marks(named, "polyline", "line")[0])[-1][0] < float(most.get("x", "")) <= named.width
    negative = plots.lines({"a": [(1, -3.0), (2, -1.0)]}, ("x", "y"), "t")
    (low, high) = (y for _, y in places(marks(negative, "polyline", "line")[0]))
    assert 0 < high < low < negative.height


def test_rings_lie_on_their_points() -> None:
    drawing = plots.lines({"a": [(1, 1.0), (2, 3.0), (3, 2.0)]}, ("x", "y"), "t", rings=[(2, 3.0)])
    (ring,) = marks(drawing, "circle", "ring")
    assert tuple(numbers(ring, "cx", "cy")) == places(marks(drawing, "polyline", "line")[0])[1]


# -- scales ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.02, 0.0201), (-5, 1e6), (3, 3)])
def test_ticks_lie_within(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found
    assert all(low - 1e-9 <= mark <= high + 1e-9 for mark in found)
    assert len(found) <= 12
    assert len(set(shown(found))) == len(found)


def test_scales() -> None:
    assert log_ticks(0.3, 0.9) == [0.5]
    assert log_ticks(1, 10) == [1, 2, 5, 10]
    assert Scale(1, 100, log=True).share(10) == pytest.approx(0.5)
    assert around([0.2, 0.3]).low > 0
    assert around([0.001, 0.3]).low == 0
    assert around([-0.2, 0.3], zero=True).low < -0.2
    assert around([0.2, 0.3], zero=True).low == 0
    assert around([math.nan]).low < around([]).high


def test_names_are_cut_to_their_room() -> None:
    assert clipped("short", 500) == "short"
    assert width_of(clipped("w" * 100, 80)) <= 80
    assert width_of("日本") > width_of("ab")


def test_names_below_an_axis_turn_where_they_would_touch() -> None:
    def turned(count: int) -> int:
        groups = {f"a name of group {k}": {"x": (1.0, 0.0)} for k in range(count)}
        return plots.grouped_bars(groups, ("", ""), "t").alone().count("rotate(")

    assert turned(3) == 0
    assert turned(9) == 9


# -- histograms and bars --------------------------------------------------------------------------------


def test_the_flagged_part_of_each_bar_is_at_its_foot() -> None:
    drawing = plots.histogram(
        [4, 4, 0], [0.0, 0.3, 0.6, 1.0], ("q", "n"), "t", flagged=[4, 1, 0], names=("bad", "good"), cut=0.5
    )
    # The first of each kind is the legend's.
    (_, *warn), (_, *calm) = (
        [numbers(e, "x", "y", "height") for e in marks(drawing, "rect", kind)] for kind in ("warn", "calm")
    )
    assert len(warn) == 2
    assert len(calm) == 1
    assert warn[0][2] == pytest.approx(4 * warn[1][2], abs=0.05)
    assert calm[0][2] == pytest.approx(3 * warn[1][2], abs=0.05)
    assert calm[0][1] + calm[0][2] == pytest.approx(warn[1][1], abs=0.02)
    assert {"bad: 5 (62.5 %)", "good: 3 (37.5 %)"} <= set(words(drawing))
    assert len(marks(drawing, "line", "cut")) == 1
    parsed(plots.histogram([0, 0], [0, 1, 2], ("q", "n"), "t", flagged=[0, 0]))


def test_bars_are_as_long_as_their_means() -> None:
    drawing = plots.bar_panel("m", {"one": (0.5, 0.1), "two": (0.25, 0.0), "none": (math.nan, 0.0)})
    one, two = (numbers(bar, "width")[0] for bar in marks(drawing, "rect", "area"))
    assert one == pytest.approx(2 * two, rel=1e-3)
    assert len(marks(drawing, "line", "ink")) == 1  # the error of the first
    assert {"one", "two", "none", "0.5000", "0.2500"} <= set(words(drawing))
    (below,) = marks(plots.bar_panel("m", {"loss": (-1.0, 0.0)}), "rect", "area")
    assert numbers(below, "width")[0] > 50


def test_bars_of_groups_stand_apart_and_on_zero() -> None:
    groups = {"g": {"a": (1.0, 0.1), "b": (2.0, 0.0)}, "h": {"b": (-1.0, 0.1), "a": (math.nan, 0.0)}}
    drawing = plots.grouped_bars(groups, ("x", "y"), "t")
    bars = [(e.get("class"), *numbers(e, "x", "y", "width", "height")) for e in marks(drawing, "rect", "area")][2:]
    assert [bar[0] for bar in bars] == ["area f0", "area f1", "area f1"]
    (_, x1, y1, w1, h1), (_, x2, y2, _, h2), (_, x3, y3, _, h3) = bars
    assert x1 + w1 < x2 < x3
    assert y1 + h1 == pytest.approx(y2 + h2, abs=0.02) == pytest.approx(y3, abs=0.02)
    assert h2 == pytest.approx(2 * h1, abs=0.05) == pytest.approx(2 * h3, abs=0.05)
    assert {"a", "b", "g", "h"} <= set(words(drawing))


# -- heat maps and differences --------------------------------------------------------------------------


def test_the_heat_map_shows_every_share() -> None:
    drawing = plots.heat_map(
        [[0.9, 0.1], [0.25, 0.75]],
        ["a", "b"],
        ["a", "b"],
        ("true", "given"),
        "t",
        limits=(0, 1),
        words="{:.2f}".format,
        square=True,
    )
    cells = marks(drawing, "rect", "heat")
    depths = [numbers(e, "fill-opacity")[0] for e in cells]
    assert depths == pytest.approx([0.905, 0.145, 0.2875, 0.7625], abs=0.006)
    assert all(len(set(numbers(e, "width", "height"))) == 1 for e in cells)
    assert {"0.90", "0.10", "0.25", "0.75"} <= set(words(drawing))
    assert "true a, given b: 0.1" in {e.text for e in parsed(drawing).iter("title")}
    assert [e.text for e in marks(drawing, "text", "onheat")] == ["0.90", "0.75"]


def test_fields_of_a_heat_map_that_are_not_known_stay_empty() -> None:
    values = [[0.1, math.nan], [math.inf, 0.3]]
    drawing = plots.heat_map(values, ["1", "2"], ["x", "y"], ("d", "a"), "t")
    cells = marks(drawing, "rect", "heat")
    assert [numbers(e, "fill-opacity")[0] for e in cells] == [0.05, 1.0]
    (x1, y1), (x2, y2) = (numbers(e, "x", "y") for e in cells)
    assert x1 < x2
    assert y1 < y2
    assert not {"nan", "inf"} & {word for one in words(drawing) for word in one.split()}
    parsed(plots.heat_map([[math.nan]], ["1"], ["x"], ("d", "a"), "t"))


def test_many_classes_keep_their_names() -> None:
    names = [f"class {k}" for k in range(40)]
    drawing = plots.heat_map(np.eye(40).tolist(), names, names, ("true", "given"), "t", square=True)
    assert all(words(drawing).count(name) == 2 for name in names)
    assert numbers(marks(drawing, "rect", "heat")[0], "height")[0] >= palette.TEXT


def test_differences_within_chance_are_hollow_and_far_ones_arrows() -> None:
    rows = {
        "first": {"a": (2.0, True), "b": (-2.0, False), "c": (math.nan, True)},
        "second": {"a": (-90.0, True), "b": (70.0, False)},
    }
    drawing = plots.differences(rows, "difference", "t", widest=40.0, size=(700.0, 180.0))
    legend = len({"a", "b", "c"})
    filled = marks(drawing, "circle", "dot s0 f0")
    (hollow,) = marks(drawing, "circle", "dot s1 hollow")
    assert len(filled) == 1
    assert "f1" not in hollow.get("class", "")
    assert len(marks(drawing, "circle", "dot")) == 2 + legend
    (zero,) = marks(drawing, "line", "ink")
    assert numbers(hollow, "cx") < numbers(zero, "x1") < numbers(filled[0], "cx")
    left, right = marks(drawing, "polygon", "dot")
    assert left.get("class") == "dot s0 f0"
    assert right.get("class") == "dot s1 hollow"
    (tip, *foot), (other, *rear) = places(left), places(right)
    assert tip[0] < foot[0][0] < rear[0][0] < other[0] <= drawing.width


# -- figures of studies ---------------------------------------------------------------------------------


def test_a_figure_is_one_file_with_a_plot_in_each_column(tmp_path: Path) -> None:
    def drawn() -> bytes:
        with figures.figure(tmp_path / "levels-0.5", (4.0, 3.0), 2) as axes:
            for one in axes:
                figures.draw_heat(one, np.array([[0.1, np.nan]]), ["1"], ["x", "y"], ("d", "a", "title"))
        assert [path.name for path in tmp_path.iterdir()] == ["levels-0.5.svg"]
        return (tmp_path / "levels-0.5.svg").read_bytes()

    assert drawn() == drawn()
    root = ElementTree.fromstring(drawn())
    assert len(list(root.iter("{http://www.w3.org/2000/svg}g"))) == 2
    assert root.get("aria-label") == "title"


def test_nothing_is_written_of_a_figure_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), figures.figure(tmp_path / "a"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_pages_wait_for_what_they_show() -> None:
    heavy = ("torch", "sklearn", "PIL", "accord.experiments", "accord.estimators")
    program = f"import sys, accord.report; sys.exit(str([name for name in {heavy} if name in sys.modules] or ''))"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert not done.stderr.strip()
