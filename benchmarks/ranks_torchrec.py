"""One step on an item table that two ranks divide: by hand, as accord does it, and by TorchRec.

    torchrun --nproc-per-node 2 benchmarks/ranks_torchrec.py {ours,torchrec} [--rows 100000] [--steps 300]

A step fetches the rows of 2,048 random items of each rank, sends the gradients back and updates the rows: by Adam
by rows here, by row-wise Adagrad there. TorchRec needs an environment of its own, with torch 2.13 and, all of them
by `pip install --no-deps`: torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0 tensordict iopath torchmetrics lightning-utilities
portalocker pyre-extensions typing-inspect mypy-extensions orjson cloudpickle importlib_metadata zipp pyvers
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

DIMS, ITEMS, WARM_UP = 32, 2048, 10


def drawn(rows: int, step: int) -> torch.Tensor:
    seed = 1000 * step + dist.get_rank()
    return torch.randint(rows, (ITEMS,), generator=torch.Generator().manual_seed(seed))


def ours(rows: int) -> Callable[[int], None]:
    from accord.optim import Adam
    from accord.ranks.group import dividing, here
    from accord.ranks.tables import fetched, fresh_table

    with dividing(here()):
        table = fresh_table(rows, DIMS, 0.1)
    optimiser = Adam([table], [], [1e-3], [0.0], by_rows=[table])

    def step(k: int) -> None:
        optimiser.clear()
        own, at = fetched(table, drawn(rows, k))
        own[at].square().sum().backward()
        optimiser.step()

    return step


def torchrec(rows: int) -> Callable[[int], None]:
    from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embedding import EmbeddingCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.distributed.types import ShardingEnv, ShardingType
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            table = EmbeddingConfig(name="t", embedding_dim=DIMS, num_embeddings=rows, feature_names=["item"])
            self.table = EmbeddingCollection(device=torch.device("meta"), tables=[table])

        def forward(self, items: Any) -> Any:
            return self.table(items)

    model, world, sharder = Model(), dist.GroupMember.WORLD, EmbeddingCollectionSharder()
    apply_optimizer_in_backward(RowWiseAdagrad, model.parameters(), {"lr": 1e-3})
    by_rows = {"t": ParameterConstraints(sharding_types=[ShardingType.ROW_WISE.value])}
    machines = Topology(world_size=dist.get_world_size(), compute_device="cpu")
    plan = EmbeddingShardingPlanner(topology=machines, constraints=by_rows).collective_plan(model, [sharder], world)
    divided = DistributedModelParallel(
        model,
        env=ShardingEnv.from_process_group(world),
        device=torch.device("cpu"),
        plan=plan,
        sharders=[sharder],
        init_data_parallel=False,
    )

    def step(k: int) -> None:
        lengths = torch.ones(ITEMS, dtype=torch.int32)
        items = KeyedJaggedTensor.from_lengths_sync(["item"], drawn(rows, k), lengths)
        divided(items)["item"].values().square().sum().backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("by", choices=["ours", "torchrec"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    from accord.ranks.joining import joined

    with joined():
        step = ours(asked.rows) if asked.by == "ours" else torchrec(asked.rows)
        for k in range(WARM_UP):
            step(k)
        started = time.perf_counter()
        for k in range(asked.steps):
            step(k)
        took = (time.perf_counter() - started) / asked.steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{asked.by}: rank {dist.get_rank()}, {1e3 * took:.1f} ms a step, {peak} MB at most", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
