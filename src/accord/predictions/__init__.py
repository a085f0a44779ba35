"""What is wrong in labels or clicks, from predictions alone: no model of ours, and nothing is trained."""
