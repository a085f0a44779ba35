"""Pages and plots."""

from accord.report.page import (
    write_classifier_report,
    write_comparison_plot,
    write_comparison_report,
    write_report,
    write_run_report,
    write_search_report,
)

__all__ = [
    "write_classifier_report",
    "write_comparison_plot",
    "write_comparison_report",
    "write_report",
    "write_run_report",
    "write_search_report",
]
