"""Batches of one task for R ≥ 1 runs: examples on the device, and what networks say of them."""
