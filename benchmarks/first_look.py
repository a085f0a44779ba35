"""A first look at click logs with a known truth: can a model of all clicks learn from them what is liked?

    python benchmarks/first_look.py OUT [--data DIR] [--only epinions …] [--device cpu] [--minutes 9]

For every set, under the fair protocol: users, items, clicks, the share of clean ones among those of training, and
NDCG@20 on the clean test of five rows, as the mean over users: a random ranking (by calculation), popularity, EASE,
and popularity and EASE that count or learn from the clean training clicks alone. These two know what no method
knows. EASE's λ is chosen by noisy validation: from its default it climbs the model's grid while validation rises.

What is fitted is kept in OUT/first-look.json at once, and not fitted again; OUT/README.md is written of all that is
there. A set counts if a model of all clicks is beyond chance: above twice what a random ranking has.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from accord.data.datasets.benchmarks import Benchmark, load_benchmark
from accord.data.datasets.catalogue import find_data_set
from accord.data.ids import pc
from accord.estimators import Recommender, fit_together
from accord.files import write_whole
from accord.models import space_of
from accord.tasks.base import ORACLE
from accord.tasks.clicks import ClickTask

SETS = ("movielens-100k", "modcloth", "epinions", "amazon-music", "kuairand", "adressa", "kuairec")
METRIC, K = "ndcg@20", 20
LAMBDAS = tuple(space_of("ease")["ease_l2"])
START = 300.0
ROWS = {
    "random": "random ranking",
    "popularity": "popularity",
    "ease": "EASE",
    "clean popularity": "popularity, clean clicks †",
    "clean ease": "EASE, clean clicks †",
}
CHANCE = 2.0
"""Times a random ranking: what is not above it does not count as learnt."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ACCORD_DATA", "data")))
    parser.add_argument("--only", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=1e9, help="nothing is begun after so many")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    kept, ends = Kept(asked.out / "first-look.json"), time.monotonic() + 60 * asked.minutes
    for name in asked.only:
        look = Look(name, load_benchmark(find_data_set(name), "fair", asked.data.resolve()), kept, asked.device)
        if not look.complete(lambda: time.monotonic() < ends):
            break
    write_whole(asked.out / "README.md", page(kept.found))
    print((asked.out / "README.md").read_text())


class Kept:
    """What was found, by set and row; written at every change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}

    def put(self, name: str, row: str, value: Any) -> Any:
        self.found.setdefault(name, {})[row] = value
        write_whole(self.path, json.dumps(self.found, indent=1) + "\n")
        print(f"{name}, {row}: {value}", flush=True)
        return value

    def get(self, name: str, row: str) -> Any:
        return self.found.get(name, {}).get(row)


class Look:
    """The rows of one set."""

    def __init__(self, name: str, data: Benchmark, kept: Kept, device: str) -> None:
        self.name, self.data, self.kept, self.device = name, data, kept, device
        self.task = ClickTask.of_benchmark(data)

    def complete(self, has_time: Callable[[], bool]) -> bool:
        """Fit what is not there; whether all of it could be."""
        if self.kept.get(self.name, "facts") is None:
            self.kept.put(self.name, "facts", facts(self.data))
        if self.kept.get(self.name, "random") is None:
            self.kept.put(self.name, "random", {METRIC: at_random(self.data)})
        for kind in ("", "clean "):
            if kind and self.data.clean_train is None:
                continue
            if self.kept.get(self.name, f"{kind}popularity") is None:
                self.kept.put(self.name, f"{kind}popularity", self.fit(kind, method="popularity"))
            if not self.climb(kind, has_time):
                return False
        return True

    def climb(self, kind: str, has_time: Callable[[], bool]) -> bool:
        """EASE with every λ that is tried, and the best of them by noisy validation; whether there was time."""
        best = LAMBDAS.index(START)
        while True:
            for k in (best, best + 1, best - 1):
                row = f"{kind}ease {LAMBDAS[k]:g}" if 0 <= k < len(LAMBDAS) else ""
                if not row or self.kept.get(self.name, row) is not None:
                    continue
                if not has_time():
                    return False
                self.kept.put(self.name, row, self.fit(kind, model="ease", method="normal", ease_l2=LAMBDAS[k]))
            near = [k for k in (best - 1, best, best + 1) if 0 <= k < len(LAMBDAS)]
            tried = {k: self.kept.get(self.name, f"{kind}ease {LAMBDAS[k]:g}") for k in near}
            highest = max(near, key=lambda k: (tried[k]["valid"], k == best))
            if highest == best:
                if self.kept.get(self.name, f"{kind}ease") != tried[best]:
                    self.kept.put(self.name, f"{kind}ease", tried[best])
                return True
            best = highest

    def fit(self, kind: str, **settings: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"cold_users": self.data.cold_users, "device": self.device, **settings}
        rec = Recommender(seed=0, **given)
        source = self.task.cell_data(ORACLE if kind else "normal", 0, rec.settings, {}).sources[0]
        started = time.process_time()
        fit_together([rec], source, judge=False)
        seconds = time.process_time() - started
        tested = float(rec.evaluate_users(self.data.test, k=(K,)).metrics[METRIC].mean())
        valid = float(list(rec.validation_.values())[-1][METRIC])
        own = {"ease_l2": settings["ease_l2"]} if "ease_l2" in settings else {}
        return {METRIC: tested, "valid": valid, **own, "cpu_seconds": round(seconds, 1)}


def facts(data: Benchmark) -> dict[str, Any]:
    """Distinct users, items and clicks of all three parts, the clean share of training, and the test."""
    users, items = (len(pc.unique(data.known[name])) for name in ("user", "item"))
    clicks = data.known.group_by(["user", "item"]).aggregate([]).num_rows
    share = None if data.clean_train is None else data.clean_train.num_rows / data.train.num_rows
    tested = len(pc.unique(data.test["user"]))
    return {"users": users, "items": items, "clicks": clicks, "clean": share, **data.sizes, "test_users": tested}


def at_random(data: Benchmark) -> float:
    """What a ranking of a user's unclicked items has on average, were it drawn by dice."""
    taken = dict.fromkeys(data.test["user"].to_pylist(), 0)
    tested = dict(taken)
    for table, counts in ((data.train, taken), (data.valid, taken), (data.test, tested)):
        for row in table.group_by(["user"]).aggregate([([], "count_all")]).to_pylist():
            if row["user"] in counts:
                counts[row["user"]] += row["count_all"]
    items = len(pc.unique(data.known["item"]))
    gains = np.cumsum(1 / np.log2(np.arange(2, K + 2)))
    each = [n * gains[K - 1] / (items - taken[user]) / gains[min(K, n) - 1] for user, n in tested.items()]
    return float(np.mean(each))


def counts(found: dict[str, Any]) -> bool:
    """Whether what learns from all clicks is beyond chance."""
    return max(found[row][METRIC] for row in ("popularity", "ease")) > CHANCE * found["random"][METRIC]


def page(found: dict[str, dict[str, Any]]) -> str:
    """The page of all sets that are there."""
    head = ["set", "users", "items", "clicks", "clean", "test users", *ROWS.values(), "counted"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 2)} --- |"]
    whole = {name: found[name] for name in SETS if "facts" in found.get(name, {})}
    for name, own in whole.items():
        of = own["facts"]
        share = "not known" if of["clean"] is None else f"{of['clean']:.1%}"
        sizes = [f"{of[n]:,}" for n in ("users", "items", "clicks")]
        absent = {row: "" if of["clean"] is None and row.startswith("clean") else "not run" for row in ROWS}
        values = [number(own[row][METRIC]) if row in own else absent[row] for row in ROWS]
        counted = "" if "ease" not in own else "yes" if counts(own) else "no"
        cells = [name, *sizes, share, f"{of['test_users']:,}", *values, counted]
        lines.append(f"| {' | '.join(cells)} |")
    chosen = "; ".join(
        f"{name} {own['ease']['ease_l2']:g}"
        + (f" ({own['clean ease']['ease_l2']:g})" if "clean ease" in own else "")
        for name, own in whole.items()
        if "ease" in own
    )
    return PAGE.format(table="\n".join(lines), chosen=chosen, times=f"{CHANCE:g}")


def number(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


PAGE = """# A first look at seven click logs

Before any network learns: what do popularity and one linear model make of all clicks, and what would they
make of the clean clicks alone? `benchmarks/first_look.py` measured it under the
[fair protocol](../../research/studies.md#how-rows-are-tuned): training and noisy validation hold every click, the
test the clean ones alone. NDCG@20, the mean over test users.

{table}

† Knows which training clicks are clean, as no method does. The column "clean" is their share of the
training clicks; on Adressa nobody published it.

- **random ranking** is calculated: what a user's unclicked items have on average in an order drawn by dice.
- **EASE** is one matrix in closed form. Noisy validation chose its λ, also where it learns from clean
  clicks (in brackets): {chosen}.
- A set is **counted** where popularity or EASE of all clicks is above {times} times a random ranking. Where
  they are not, no method that starts from all clicks has anything to start from.
- Clean clicks do not always teach more than all of them: on Amazon-Music and KuaiRand EASE of all clicks is
  ahead. A likely reason: a noisy click still says something of a user, more than its absence. A method that
  leaves noisy clicks out can lose by it.

## What is clean, and who divided it

- **MovieLens-100K** (rating 5), each user's rows by time 8:1:1; **Modcloth** (rating 5) and **Adressa**
  (dwell time over 10 s) as the authors of DeCA and of DenoisingRec divided them. What learns from clean
  clicks sees ratings of 4 and 5 on the first two.
- **Epinions** and **Amazon-Music** (rating 4 or 5), **KuaiRand** and **KuaiRec** (positive feedback) as the
  authors of SIGformer (S. Chen et al., SIGIR 2024) divided them, 7:1:2 at random, clean and noisy rows
  alike.
- A pair counts in the first part that holds it: training, then validation, then the test. KuaiRand's file
  has 8,302 rows that repeat a pair, 3,698 pairs in more than one part, and 448 pairs with both kinds of
  feedback. Where the rows of a pair in its first part differ, it is not clean; that leaves 18 pairs out of
  the test. The other three files of SIGformer have no repeats.

## Why KuaiRec is not counted

On KuaiRec what is clicked most is liked least. Of the 68,215 training clicks on the 100 most clicked items
24 are positive, and over items the numbers of positive and of other training clicks have a rank correlation
of −.67. Whoever learns from all clicks ranks first what nobody likes, and ends below a random ranking.
Noisy validation agrees with the training clicks, not with the test, and cannot warn of it. The clean clicks
alone say much: their popularity is far above chance. So the set is not hard to rank; its clicks are no sign
of liking. It is shown in every table and counted in none.
"""

if __name__ == "__main__":
    main()
