"""One rank: fits what its first argument lists and prints what was learnt, a line of JSON for each."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from accord import Recommender
from accord.errors import AccordError
from accord.ranks.joining import joined


def learnt(log: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What one training comes to; of a rank that is not the first, nothing but that it ended.

    In double precision: single precision rounds sums of other orders to other numbers, and Adam makes much of them.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        eval_set = settings.pop("eval_set", None)
        rec = Recommender(**settings).fit(log, eval_set=eval_set, verbose=False)
    except AccordError as error:
        return {"error": str(error)}
    finally:
        torch.set_default_dtype(before)
    if not hasattr(rec, "networks_"):
        return {}
    history = [
        [one["phase"], one["loss"], *one["valid"].values(), *one.get("eval_set", {}).values()]
        for one in rec.history_
    ]
    weights = {
        f"{role}.{name}": tensor.double().flatten().tolist()
        for role, network in rec.networks_.items()
        for name, tensor in network.state_dict().items()
    }
    quality, threshold = rec.quality_.tolist(), rec.threshold_
    return {"history": history, "weights": weights, "quality": quality, "threshold": threshold, "notes": rec.notes_}


def main(log: str, jobs: list[dict[str, Any]], met: bool = False) -> None:
    """``met``: the processes have met before, as Ray Train lets them."""
    if met:
        torch.distributed.init_process_group("gloo")
    with joined():
        for job in jobs:
            print(json.dumps(learnt(log, job)), flush=True)
    if met:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), met="met" in sys.argv[3:])
