"""A table with columns of every kind that people have."""

from __future__ import annotations

import numpy as np
import pandas as pd

N = 120
KIND = np.random.default_rng(0).integers(0, 3, N)
WORDS = np.array(["ash", "birch", "cedar"])


def mixed() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "plant_id": [f"p{k:03}" for k in range(N)],
            "height": np.where(rng.random(N) < 0.2, np.nan, rng.normal(KIND, 0.4)).round(3),
            "soil": pd.Categorical(
                np.array(["clay", "loam, wet", 'so-called "sand"'])[KIND],
                categories=["a", "clay", "loam, wet", 'so-called "sand"'],
            ),
            "found": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
            "note": [f"leaf {w} no. {rng.integers(50)}\nseen" for w in WORDS[KIND]],
            "seen": pd.array([None if k % 9 == 0 else bool(k % 2) for k in range(N)], "boolean"),
            "same": "x",
            "kind": WORDS[KIND],
        }
    )
