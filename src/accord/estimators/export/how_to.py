"""The program that is written beside exported files: how they are used without accord."""

from __future__ import annotations

HEAD = '''"""How to use these files. They need numpy and pyarrow; accord is not needed.

    python how_to.py USER [USER ...]

prints the ten best items of each user that the user has not clicked.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

HERE = Path(__file__).resolve().parent
ABOUT = json.loads((HERE / "config.json").read_text(encoding="utf-8"))


def array(name):
    return np.load(HERE / name, mmap_mode="r", allow_pickle=False)


USERS, ITEMS = (parquet.read_table(HERE / f"{side}.parquet")["id"].to_pylist() for side in ("users", "items"))
ROW_OF = {str(user): row for row, user in enumerate(USERS)}


def clicked(row, what="seen"):
    """Rows of items that a user has clicked: all of them, or ("history") those that the model was trained on."""
    starts, items = array(f"{what}_starts.npy"), array(f"{what}_items.npy")
    return np.asarray(items[starts[row] : starts[row + 1]])

'''
VECTORS = '''
def scores(row):
    """The log-odds of every item for the user of a row: the product of two vectors."""
    return array("item_vectors.npy") @ array("user_vectors.npy")[row]
'''
ITEMS = '''
def scores(row):
    """The log-odds of every item for the user of a row: sums of weights of the items that the user clicked."""
    return scores_of(clicked(row, "history"))


def scores_of(history):
    """The same for anybody, known or new, by the rows of the items that were clicked."""
    if not len(history):
        return np.asarray(array("popularity.npy"))
    weights = array("item_weights.npy")
    if ABOUT["neighbours"]:
        total = np.zeros(len(ITEMS), np.float32)
        np.add.at(total, array("item_neighbours.npy")[history].ravel(), weights[history].ravel())
    else:
        total = weights[history].sum(0)
    return total * (ABOUT["scale"] / len(history) ** 0.5) + ABOUT["offset"]
'''
TORCH = '''
def scores(row):
    """The log-odds of every item for the user of a row. This model is a program of torch, model.pt2."""
    import torch

    global MODEL
    if MODEL is None:
        MODEL = torch.export.load(HERE / "model.pt2").module()
    history = clicked(row, "history")
    history = torch.from_numpy(np.concatenate([history, [-1]]).astype(np.int64))[None]
    with torch.no_grad():
        return MODEL(torch.tensor([row]), history)[0].numpy()


MODEL = None
'''
INDEX = '''

def nearest(row, k):
    """Rows of the items that the index finds: nearly the best ones, clicked ones among them. It needs usearch."""
    from usearch.index import Index

    index = Index.restore(str(HERE / "items.usearch"))
    return index.search(np.asarray(array("user_vectors.npy")[row]), k).keys
'''
TAIL = '''

def recommend(user, k=10):
    """Items and their scores, best first, without those that the user has clicked."""
    row = ROW_OF[str(user)]
    found = np.array(scores(row))
    found[clicked(row)] = -np.inf
    best = np.argsort(-found, kind="stable")[:k]
    return [(ITEMS[item], float(found[item])) for item in best if found[item] > -np.inf]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name not in ROW_OF:
            sys.exit(f"Unknown user: {name}")
        for item, score in recommend(name):
            print(f"{name}\\t{item}\\t{score:.4f}")
'''


def how_to(form: str, index: bool) -> str:
    """The program for a form: vectors, items or torch."""
    body = {"vectors": VECTORS, "items": ITEMS, "torch": TORCH}[form]
    return HEAD + body + (INDEX if index else "") + TAIL
