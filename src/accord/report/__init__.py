"""Pages and plots."""

from accord.report.page import write_comparison_plot, write_comparison_report, write_run_report

__all__ = ["write_comparison_plot", "write_comparison_report", "write_run_report"]
