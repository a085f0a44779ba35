"""People look at labels and decide; what they decide is kept, counted, applied and learnt from."""
