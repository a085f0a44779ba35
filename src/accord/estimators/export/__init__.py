"""A trained recommender as files that other programs read: vectors, an index, and a program of torch."""
