"""Clicks judged by scores alone, on simulated logs: each recommender and all, with non-clicks and without.

    python benchmarks/click_scores.py [--seeds 2] [--users 1000] [--items 500] [--interactions 25000]

Each recommender is fitted without a fifth of the clicks and scores this fifth, five times. Ten non-clicks are
drawn for each user, of items as often as they are clicked. Shown: ROC-AUC and average precision of low quality as a
sign of noise, and precision and recall of the flag where there is one.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from accord import Recommender, find_click_issues
from accord.data.simulator import SimulatorSettings, simulate
from accord.evaluation import detection_metrics, flag_metrics

MODELS = ("ease", "ials", "rp3beta", "itemknn")
FOLDS, EACH = 5, 10


def scored(asked: argparse.Namespace, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The clicks with their truth, and non-clicks, each with a column of scores by every model."""
    sizes = {name: getattr(asked, name) for name in ("users", "items", "interactions")}
    clicks = simulate(SimulatorSettings(**sizes, noise=0.3, seed=seed)).clicks().to_pandas()
    clicks = clicks.drop_duplicates(["user", "item"]).reset_index(drop=True)
    rng = np.random.default_rng(seed)
    users = clicks["user"].unique()
    far = pd.DataFrame({"user": np.repeat(users, EACH), "item": rng.choice(clicks["item"], EACH * len(users))})
    for model in MODELS:
        clicks[model], far[model] = np.nan, 0.0
    fold = rng.integers(0, FOLDS, len(clicks))
    for k in range(FOLDS):
        kept, held = clicks[fold != k], clicks.index[fold == k]
        for model in MODELS:
            rec = Recommender(model=model, method="normal", seed=seed).fit(kept[["user", "item"]])
            known = set(rec.user_ids_.values.to_pylist()), set(rec.item_ids_.values.to_pylist())
            for table, rows in ((clicks, held), (far, far.index)):
                own = table.loc[rows]
                rows = rows[own["user"].isin(known[0]) & own["item"].isin(known[1])]
                said = rec.predict(table.loc[rows, "user"].to_numpy(), table.loc[rows, "item"].to_numpy())
                if table is clicks:
                    table.loc[rows, model] = said
                else:
                    table.loc[rows, model] += said / FOLDS
    return clicks.dropna(subset=list(MODELS)).reset_index(drop=True), far


def row(name: str, quality: np.ndarray, flagged: np.ndarray | None, wrong: np.ndarray) -> list[float]:
    found = detection_metrics(quality, wrong)
    flags = {"precision": np.nan, "recall": np.nan} if flagged is None else flag_metrics(flagged, wrong)
    return [found["roc_auc"], found["average_precision"], flags["precision"], flags["recall"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seeds", 2), ("users", 1000), ("items", 500), ("interactions", 25_000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    rows: dict[str, list[list[float]]] = {}
    for seed in range(asked.seeds):
        clicks, far = scored(asked, seed)
        log, wrong = clicks[["user", "item", *MODELS]], clicks["is_noise"].to_numpy(bool)
        ways = {f"score of {model}": ([model], None) for model in MODELS}
        ways |= {f"{model} with non-clicks": ([model], far) for model in MODELS}
        ways |= {"all, clicks alone": (list(MODELS), None), "all with non-clicks": (list(MODELS), far)}
        for name, (models, others) in ways.items():
            found = find_click_issues(log, models, non_clicks=others).to_pandas().sort_values("index")
            flagged = None if others is None else found["is_label_issue"].to_numpy()
            rows.setdefault(name, []).append(row(name, found["label_quality"].to_numpy(), flagged, wrong))
    print(f"{'':28}ROC-AUC  AP      precision  recall")
    for name, values in rows.items():
        print(f"{name:28}" + "  ".join(f"{value:.4f}" for value in np.mean(values, 0)))


if __name__ == "__main__":
    main()
