"""Batches of one task for R ≥ 1 runs: examples on the device, and the networks' logits for them."""
