"""Plots as SVG, by one small set of means: their colours follow the page, light, dark or print."""

from accord.report.plots.bars import bar_panel, grouped_bars
from accord.report.plots.canvas import Drawing, beside
from accord.report.plots.differences import differences
from accord.report.plots.heat import heat_map
from accord.report.plots.histogram import histogram
from accord.report.plots.lines import lines
from accord.report.plots.palette import COLOURS, assigned, style, variables

__all__ = [
    "COLOURS",
    "Drawing",
    "assigned",
    "bar_panel",
    "beside",
    "differences",
    "grouped_bars",
    "heat_map",
    "histogram",
    "lines",
    "style",
    "variables",
]
