"""What the command line shows: messages, progress bars with time left, and tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from accord.training import Hook, Progress

err = Console(stderr=True, highlight=False)
out = Console(highlight=False)
LINE_SECONDS = 30.0
"""Between two lines of progress where there is no terminal to draw bars on, such as in a log file."""


def say(message: str) -> None:
    """A line for the person, apart from the results on standard output."""
    err.print(message, markup=False)


class Bars(Bar):
    """Progress bars; where they cannot be drawn, a line now and then says the same."""

    _last = 0.0

    def start(self) -> None:
        self._last = time.monotonic()
        super().start()

    def update(self, task_id: Any, **changes: Any) -> None:
        super().update(task_id, **changes)
        self.tell()

    def tell(self) -> None:
        """Say where it all stands, if it is time to."""
        if self.console.is_terminal or time.monotonic() - self._last < LINE_SECONDS:
            return
        going = [f"{t.description}  {t.fields['note']}".strip() for t in self.tasks if t.visible and not t.finished]
        if going:
            self._last = time.monotonic()
            self.console.print(f"{time.strftime('%H:%M:%S')}  {'; '.join(going)}", markup=False, soft_wrap=True)


@contextmanager
def bar() -> Iterator[Bars]:
    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=err,
        transient=True,
    ) as progress:
        yield progress


@contextmanager
def busy(words: str) -> Iterator[None]:
    """A sign of life while something without steps goes on."""
    with err.status(words):
        yield


def training_hook(progress: Bars, label: str = "", first: str = "reading the log") -> Hook:
    """A hook that shows a bar for each phase: epochs done, the metric, its best, and the time left."""
    tasks: dict[str, object] = {"reading": progress.add_task(f"{label}{first}", total=None, note="")}

    def hook(now: Progress) -> None:
        if not progress.task_ids or any(task not in progress.task_ids for task in tasks.values()):
            return progress.tell()  # the bars were taken away: others have begun
        if now.phase not in tasks:
            for task in tasks.values():
                progress.update(task, visible=False)  # pyright: ignore[reportArgumentType]
            words = (
                f"{label}{now.phase} ({now.phase_number}/{now.phases})" if now.phases > 1 else f"{label}{now.phase}"
            )
            tasks[now.phase] = progress.add_task(words, total=now.epochs, note="")
        note = f"epoch {now.epoch}/{now.epochs}"
        if now.value is not None and now.best is not None:
            note += f"  {now.metric} {now.value:.4f} best {now.best:.4f}"
        done = now.epoch - 1 + now.fraction
        progress.update(tasks[now.phase], completed=done, note=note)  # pyright: ignore[reportArgumentType]

    return hook


def table(rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """The first row is the header; the first column is text and the rest are numbers.

    Where the screen is too narrow, means and deviations stand one below the other.
    """
    if sum(max(len(cell) + 2 for cell in column) for column in zip(*rows, strict=True)) > out.width:
        rows = [[cell.replace("±", "\n±") for cell in row] for row in rows]
    shown = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for k, name in enumerate(rows[0]):
        shown.add_column(name, justify="left" if k == 0 else "right", overflow="fold")
    for row in rows[1:]:
        shown.add_row(*(Text(cell) for cell in row))  # ids are shown as they are, never read as markup
    out.print(shown)
