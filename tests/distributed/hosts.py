"""Two hosts on one machine: network namespaces that are joined by a cable of their own, and share the disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

CABLE = "cable"
"""The name of the network interface of each host."""


@dataclass(frozen=True)
class Host:
    """A network namespace and its address."""

    name: str
    address: str

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start ``python words…`` on it, in a process group of its own."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, *words],
            env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": CABLE},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def torchrun(self, first: Host, nodes: int, restarts: int) -> list[str]:
        """How torchrun is started on it, to meet the others at the first host."""
        words = ["-m", "torch.distributed.run", "--nnodes", str(nodes), "--nproc-per-node", "1"]
        words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first.address}:29500", "--rdzv-id", "accord"]
        words += ["--rdzv-conf", f"is_host={int(self == first)}"]  # by its name it cannot tell
        return [*words, "--local-addr", self.address, "--max-restarts", str(restarts), "--monitor-interval", "0.1"]

    def die(self) -> None:
        """End every process on it, as a host that loses its power does."""
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        for process in found.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)


def missing() -> str:
    """Why there can be no such hosts here; nothing where there can."""
    if shutil.which("ip") is None:
        return "there is no command ip (iproute2)"
    name = f"accord-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other and nobody else."""
    hosts = tuple(Host(f"accord-{os.getpid()}-{k}", f"10.213.0.{k + 1}") for k in range(2))
    try:
        for host in hosts:
            _ip("netns", "add", host.name)
        first, second = hosts
        _ip("link", "add", CABLE, "netns", first.name, "type", "veth", "peer", "name", CABLE, "netns", second.name)
        for host in hosts:
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", CABLE)
            for device in (CABLE, "lo"):
                _ip("-n", host.name, "link", "set", device, "up")
        yield first, second
    finally:
        for host in hosts:
            with suppress(subprocess.CalledProcessError):
                host.die()
                _ip("netns", "del", host.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
