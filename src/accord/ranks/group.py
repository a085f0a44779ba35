"""A group of processes: what they send one another, counted, and how they agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from accord.errors import AccordError, DataError, LostRankError

T = TypeVar("T")


class Ranks:
    """The processes of a training; this one is number ``rank`` of ``size``. Alone it has nobody to ask.

    The rows of a table are dealt out: row i belongs to rank i mod N, as its row i div N. So do users, with all of
    their clicks.
    """

    def __init__(self, rank: int = 0, size: int = 1, shards: int | None = None) -> None:
        self.rank, self.size = rank, size
        self.shards = size if shards is None else shards
        """Parts of the users, each with a random stream of its own: as many as ranks, or more in one process."""
        self.restarted = False
        """Whether some of them were started again, or met before: on another host nothing else tells."""
        self.purpose = "training"
        self.bytes_sent: dict[str, int] = {}
        """What went to other ranks, by purpose."""
        self.seconds_waited: dict[str, float] = {}
        """How long this rank was busy with sending and waiting, by purpose."""

    @property
    def many(self) -> bool:
        return self.size > 1

    @property
    def leads(self) -> bool:
        """Whether it is the one that speaks and writes."""
        return self.rank == 0

    def exchange(self, values: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Rows for every rank, one rank after the other, for the rows that they have for this one."""
        return values

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Add up tensors of all ranks in place; the result has the same bytes everywhere."""

    def each(self, values: Tensor) -> Tensor:
        """A tensor of the same shape from every rank, (size, …)."""
        return values[None]

    def spread(self, values: Tensor, source: int) -> Tensor:
        """Fill a tensor with that of one rank."""
        return values

    def texts(self, text: str) -> list[str]:
        """A text from every rank."""
        return [text]

    def summed(self, values: Tensor) -> Tensor:
        """The sum over the ranks, added in their order: the same bytes everywhere."""
        return self.each(values).sum(0) if self.many else values

    def joined_rows(self, values: Tensor) -> Tensor:
        """Rows of all ranks, one rank after the other; each may have another number of them."""
        if not self.many:
            return values
        counts = self.each(torch.tensor([len(values)], device=values.device)).flatten().tolist()
        own = values.repeat(self.size, *[1] * (values.dim() - 1))
        return self.exchange(own, [len(values)] * self.size, counts)

    def at_first(self, values: Tensor) -> list[Tensor]:
        """The rows of every rank at the first one; nothing elsewhere."""
        if not self.many:
            return [values]
        counts = self.each(torch.tensor([len(values)], device=values.device)).flatten().tolist()
        send = [len(values)] + [0] * (self.size - 1)
        receive = counts if self.leads else [0] * self.size
        found = self.exchange(values, send, receive)
        return list(found.split(counts)) if self.leads else []

    def dealt(self, columns: Sequence[Tensor], to: Tensor) -> list[Tensor]:
        """Rows, each of which goes to the rank that ``to`` names for it: those that come here, rank after rank, in
        the order in which they were there."""
        send = torch.bincount(to, minlength=self.size)
        receive = self.exchange(send, [1] * self.size, [1] * self.size).tolist()
        order = torch.argsort(to, stable=True)
        return [self.exchange(one[order], send.tolist(), receive) for one in columns]

    def numbers(self, own: int) -> list[int]:
        """A whole number from every rank."""
        return self.each(torch.tensor([own])).flatten().tolist()

    def mean(self, values: Any) -> float:
        """The mean of the numbers of all ranks, in an array of each."""
        total = self.summed(torch.tensor([float(values.sum()), float(len(values))], dtype=torch.float64))
        return float(total[0] / total[1])

    def refuse_unlike(self, words: str) -> None:
        """Ranks that read another log, or were given other settings, cannot train one model."""
        each = self.texts(words) if self.many else [words]
        other = [rank for rank, one in enumerate(each) if one != each[0]]
        if other:
            raise DataError(
                f"Rank {other[0]} of {self.size} read another log than rank 0, or has other settings or another "
                "version of torch; give all the same file and the same command."
            )

    def agreed(self, work: Callable[[], T]) -> T:
        """Do something that no other rank is needed for. Where it fails on one rank, it fails on all."""
        if not self.many:
            return work()
        result: Any = None
        own: AccordError | None = None
        try:
            result = work()
        except AccordError as error:
            own = error
        except OSError as error:
            where = f"'{error.filename}': " if error.filename else ""
            own = DataError(f"{where}{error.strerror or error}; nothing more was done.")
        said = self.texts("" if own is None else str(own))
        failed = [rank for rank, words in enumerate(said) if words]
        if own is not None:
            raise own
        if failed:
            raise DataError(f"Rank {failed[0]} of {self.size} stopped, and so do all: {said[failed[0]]}")
        return result

    @contextmanager
    def sending(self, purpose: str) -> Iterator[None]:
        """What is sent in the block is counted under its purpose."""
        before, self.purpose = self.purpose, purpose
        try:
            yield
        finally:
            self.purpose = before

    def figures(self, purpose: str) -> tuple[float, float]:
        """Bytes that were sent and seconds that were waited so far: of all ranks, the largest."""
        own = [float(self.bytes_sent.get(purpose, 0)), self.seconds_waited.get(purpose, 0.0)]
        sent, waited = self.each(torch.tensor(own, dtype=torch.float64)).amax(0).tolist()
        return sent, waited


ALONE = Ranks()


class Group(Ranks):
    """Several processes, over torch.distributed."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        import torch.distributed as dist

        self._dist: Any = dist

    @contextmanager
    def _talking(self, sent: int) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        except RuntimeError as error:  # what every backend raises where another process has gone
            raise LostRankError(
                f"Rank {self.rank} of {self.size} lost its connection to another rank, which has ended or cannot "
                "be reached; the message of that rank says why."
            ) from error
        what, took = self.purpose, time.perf_counter() - started
        self.bytes_sent[what] = self.bytes_sent.get(what, 0) + sent
        self.seconds_waited[what] = self.seconds_waited.get(what, 0.0) + took

    def exchange(self, values: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        values = values.contiguous()
        out = values.new_empty(sum(receive), *values.shape[1:])
        width = values.element_size() * values.shape[1:].numel()
        with self._talking((sum(send) - send[self.rank]) * width):
            self._dist.all_to_all_single(out, values, list(receive), list(send))
        return out

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            return
        flat = torch.cat([one.reshape(-1) for one in tensors])
        with self._talking(2 * flat.numel() * flat.element_size() * (self.size - 1) // self.size):
            self._dist.all_reduce(flat)
        for one, total in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
            one.copy_(total.view_as(one))

    def each(self, values: Tensor) -> Tensor:
        values = values.contiguous()
        out = values.new_empty(self.size, *values.shape)
        with self._talking(values.numel() * values.element_size() * (self.size - 1)):
            self._dist.all_gather(list(out.unbind(0)), values)
        return out

    def spread(self, values: Tensor, source: int) -> Tensor:
        sent = values.numel() * values.element_size() * (self.size - 1) if source == self.rank else 0
        with self._talking(sent):
            self._dist.broadcast(values, source)
        return values

    def texts(self, text: str) -> list[str]:
        own = torch.frombuffer(bytearray(text.encode()) or bytearray(b" "), dtype=torch.uint8)
        lengths = self.each(torch.tensor([len(text.encode())])).flatten().tolist()
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded[: lengths[self.rank]] = own[: lengths[self.rank]]
        rows = zip(self.each(padded), lengths, strict=True)
        return [bytes(row[:length].tolist()).decode(errors="replace") for row, length in rows]


_NOW: list[Ranks] = [ALONE]
_DIVIDED: list[Ranks] = []


def here() -> Ranks:
    """The group that this process is in; itself alone where it joined none."""
    return _NOW[-1]


@contextmanager
def as_group(group: Ranks) -> Iterator[Ranks]:
    """This process is in a group."""
    _NOW.append(group)
    try:
        yield group
    finally:
        _NOW.remove(group)


@contextmanager
def drawing_as(shards: int) -> Iterator[Ranks]:
    """One process draws the batches that so many ranks would draw together."""
    with as_group(Ranks(shards=shards)) as group:
        yield group


@contextmanager
def dividing(ranks: Ranks) -> Iterator[None]:
    """Tables that are made in the block hold the rows of this rank alone."""
    _DIVIDED.append(ranks)
    try:
        yield
    finally:
        _DIVIDED.pop()


def divided_by() -> Ranks | None:
    """The ranks over which tables that are made now are divided."""
    return _DIVIDED[-1] if _DIVIDED and _DIVIDED[-1].many else None
