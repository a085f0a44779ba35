"""Data sets by name: where they come from, their terms, how they are fetched, verified and read."""
