"""Pages and plots."""

from accord.report.page import standalone_svg, write_comparison_report, write_run_report

__all__ = ["standalone_svg", "write_comparison_report", "write_run_report"]
