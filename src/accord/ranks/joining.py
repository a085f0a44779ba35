"""How a process that `torchrun` started joins the others."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from accord.errors import DataError, SettingError, first_line
from accord.ranks.group import ALONE, Group, Ranks, as_group
from accord.ranks.started import is_one_of_many, is_restarted, together

MET = "accord/met"
"""What is in a store once ranks have met there."""
WORDS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables of the environment by which torchrun tells a process who it is and where it meets the others."""
PATIENCE = 300.0
"""Seconds to wait for the others at the beginning."""
LOOK = 0.02
"""Seconds between two looks at who has come."""
SILENCE = 1800.0
"""Seconds without a word from another rank, after which it counts as lost."""


def _meeting(store: Any, rank: int, size: int, patience: float) -> str:
    """A name for this meeting of the ranks, which no earlier one had.

    Where torchrun starts all ranks again, what the dead ones left in its store is still there. So each rank says a
    word that is new, and the first rank answers each of them with the name, until all have heard it.
    """
    end, word = time.monotonic() + patience, uuid.uuid4().hex
    if rank:
        store.set(f"accord/word/{rank}", word)
        name = store.get(f"accord/answer/{word}").decode()
        store.set(f"accord/heard/{name}/{rank}", "1")
        return name
    while any(not store.check([f"accord/heard/{word}/{other}"]) for other in range(1, size)):
        for other in range(1, size):
            if store.check([f"accord/word/{other}"]):
                store.set("accord/answer/" + store.get(f"accord/word/{other}").decode(), word)
        if time.monotonic() > end:
            raise TimeoutError(f"some did not come within {patience:g} seconds")
        time.sleep(LOOK)
    return word


@contextmanager
def joined(patience: float = PATIENCE) -> Iterator[Ranks]:
    """The group that this process was started for; alone where it was started alone."""
    if not is_one_of_many():
        yield ALONE
        return
    rank, size, address = _told()
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    if dist.is_initialized():  # by whoever started the process, such as Ray Train
        with as_group(Group(dist.get_rank(), dist.get_world_size())) as group:
            yield group
        return
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    try:
        store, *_ = next(rendezvous("env://", rank, size, timeout=timedelta(seconds=patience)))
        again = is_restarted() or store.check([MET])
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if gpus else "gloo",
            store=PrefixStore(_meeting(store, rank, size, patience), store),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=SILENCE),
        )
    except (RuntimeError, ValueError, OSError) as error:
        together(False)  # each of them says for itself that it is alone
        raise DataError(
            f"Rank {rank} of {size} could not meet the others at {address} ({first_line(error)}); check that all "
            "were started, with the same address and port."
        ) from error
    try:
        with as_group(Group(rank, size)) as group:
            group.restarted = any(group.numbers(int(again)))
            store.set(MET, "1")
            yield group
    finally:
        dist.destroy_process_group()


def _told() -> tuple[int, int, str]:
    """Rank, size and address, as the environment says."""
    missing = [name for name in WORDS if not os.environ.get(name)]
    if missing:
        raise SettingError(
            f"WORLD_SIZE says that this is one of several processes, but {missing[0]} is not set; start them with "
            "torchrun, or unset WORLD_SIZE."
        )
    numbers = [os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")]
    if not all(one.isdecimal() for one in numbers) or not int(numbers[0]) < int(numbers[1]):
        raise SettingError(
            f"The environment says RANK={numbers[0]}, WORLD_SIZE={numbers[1]} and MASTER_PORT={numbers[2]}, which "
            "is no rank of a group; start the processes with torchrun."
        )
    return int(numbers[0]), int(numbers[1]), f"{os.environ['MASTER_ADDR']}:{numbers[2]}"
