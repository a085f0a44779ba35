"""Pages and plots."""

from accord.report.page import (
    write_classifier_report,
    write_comparison_plot,
    write_comparison_report,
    write_report,
    write_run_report,
    write_search_report,
)
from accord.report.runs import report_runs

__all__ = [
    "report_runs",
    "write_classifier_report",
    "write_comparison_plot",
    "write_comparison_report",
    "write_report",
    "write_run_report",
    "write_search_report",
]
