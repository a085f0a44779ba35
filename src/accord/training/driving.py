"""Several trainings at once: they take turns, and on a GPU each has a stream of its own.

A small network leaves most of a GPU idle; the kernels of trainings on different streams fill it together. A result
does not depend on who else is training: each has its own networks, data order, random streams and captured steps.
(Dropout in a user's own network is the exception on a GPU: it draws from the device's one stream.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from accord.errors import AccordError
from accord.training.fork_safety import computes_here
from accord.training.stepping import own_stream


def drive(
    trainings: Sequence[Iterator[None]],
    device: torch.device,
    ended: Callable[[int, AccordError | None], None],
) -> None:
    """Run all trainings to their end, a step of each at a time.

    ``ended`` is called when one ends, with its error if it failed; the others continue.
    """
    computes_here()
    tf32 = torch.backends.cudnn.allow_tf32  # as the user has it
    # The same bytes every time.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32):
        streams = [own_stream(device) for _ in trainings]
        active = list(range(len(trainings)))
        while active:
            for k in list(active):
                error = None
                with streams[k]:
                    try:
                        if next(trainings[k], True) is None:
                            continue
                    except AccordError as stopped:
                        error = stopped
                active.remove(k)
                ended(k, error)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
