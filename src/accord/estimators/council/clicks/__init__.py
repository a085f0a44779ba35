"""A council of recommenders: who its members are, how they answer together, and what they say of every click."""
