"""Comparisons of methods and searches for settings, cell by cell."""
