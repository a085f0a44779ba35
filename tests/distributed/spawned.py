"""Several processes that meet on this machine, as torchrun would start them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    words = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return os.environ | {name: str(value) for name, value in words.items()} | {"OMP_NUM_THREADS": "1"}


def start(
    size: int, words: Sequence[object], *, each: Sequence[Sequence[object]] | None = None
) -> list[subprocess.Popen[str]]:
    """Start ``python words…`` on so many ranks; ``each`` are other words of single ranks."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *map(str, words if each is None else each[rank])],
            env=environment(rank, size, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ended(processes: Sequence[subprocess.Popen[str]], seconds: float = 90) -> list[tuple[int, str, str]]:
    """The exit code and what was written on standard output and standard error, of each."""
    try:
        return [(one.returncode, *said) for one in processes for said in [one.communicate(timeout=seconds)]]
    finally:
        for one in processes:
            one.kill()


WORKER = Path(__file__).with_name("worker.py")
