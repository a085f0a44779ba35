"""Clicks and labels: how each task's data are read, trained on, measured and shown."""
