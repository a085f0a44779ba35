"""How far a training is: bars on a terminal or in a notebook, and lines now and then in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from accord.errors import harmless

if TYPE_CHECKING:
    from accord.training import Callback, Progress

LINE_SECONDS = 30.0
"""Between two lines of progress where there is no terminal to draw bars on, such as in a log file."""
NARROW = 120
"""Columns of a screen on which bars are short."""
PATIENCE = 2.0
"""Seconds of a training that need no bar."""


class Bars(Bar):
    """Progress bars; where they cannot be drawn, a line now and then says the same."""

    _last = 0.0

    def add_task(self, description: str, *args: Any, **more: Any) -> TaskID:
        return super().add_task(harmless(description), *args, **_harmless(more))

    def start(self) -> None:
        self._last = time.monotonic()
        super().start()

    def update(self, task_id: Any, **changes: Any) -> None:
        super().update(task_id, **_harmless(changes))
        self.tell()

    def tell(self) -> None:
        """Say where it all stands, if it is time to."""
        if self.console.is_terminal or time.monotonic() - self._last < LINE_SECONDS:
            return
        if line := self.line():
            self._last = time.monotonic()
            self.console.print(f"{time.strftime('%H:%M:%S')}  {line}", markup=False, soft_wrap=True)

    def line(self) -> str:
        """All that runs, in one line."""
        going = [f"{t.description}  {t.fields['note']}".strip() for t in self.tasks if t.visible and not t.finished]
        return "; ".join(going)


def _harmless(fields: dict[str, Any]) -> dict[str, Any]:
    """The words of a bar may repeat what data hold."""
    return {name: harmless(value) if isinstance(value, str) else value for name, value in fields.items()}


def bars_on(console: Console) -> Bars:
    """Bars whose words are cut on a narrow screen, so that the bar and the time left stay."""

    def words(ratio: int) -> Column:
        return Column(ratio=ratio, no_wrap=True, overflow="ellipsis")

    whole = Column(no_wrap=True, min_width=4)
    return Bars(
        TextColumn("{task.description}", markup=False, table_column=words(2)),
        BarColumn(8 if console.width < NARROW else 40),
        TextColumn("{task.fields[note]}", markup=False, table_column=words(3)),
        TimeElapsedColumn(table_column=whole),
        TextColumn("left", table_column=whole),
        TimeRemainingColumn(elapsed_when_finished=False, table_column=whole),
        expand=True,
        console=console,
        transient=True,
    )


class NotebookBars(Bars):
    """The same in a notebook: one line below the cell, written anew in place."""

    def __init__(self, display: Any) -> None:
        super().__init__(console=Console(quiet=True), disable=True)
        self._handle = display({"text/plain": ""}, raw=True, display_id=True)
        self._last = 0.0

    def tell(self) -> None:
        if time.monotonic() - self._last >= 0.2:
            self._last = time.monotonic()
            self._write(self.line())

    def stop(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self._handle.update({"text/plain": line}, raw=True)


class Trainings:
    """A bar for each phase of training, of one run or of many at once: epochs, the best metric, and the time left.

    Of many it says how many still run: runs that have ended no longer report.
    """

    def __init__(self, progress: Bars) -> None:
        self.progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._group = object()
        self._runs = self._going = 0
        self._heard: set[int] = set()
        self._best: float | None = None

    @property
    def expects_more(self) -> bool:
        """Whether runs are about to begin together: some are known, and none has reported yet."""
        return bool(self._tasks) and not self._heard and self._shown()

    def callback(self, label: str = "", first: str = "starting") -> Callback:
        """The callback of a run that is about to begin; those asked for before any reports run together."""
        if not self.expects_more:
            self._begin(f"{label}{first}")
        run, group = self._runs, self._group
        self._runs = self._going = run + 1

        def callback(now: Progress) -> None:
            if group is not self._group or not self._shown():
                return self.progress.tell()  # the bars were taken away: others have begun
            if run in self._heard:  # all that still run have reported
                self._going = len(self._heard)
                self._heard.clear()
            self._heard.add(run)
            if now.best is not None:
                self._best = now.best if self._best is None else max(self._best, now.best)
            if len(self._heard) == 1:
                self._show(label, now)

        return callback

    def _begin(self, words: str) -> None:
        for task in self._tasks.values():
            if task in self.progress.task_ids:
                self.progress.remove_task(task)
        self._tasks = {"": self.progress.add_task(words, total=None, note="")}
        self._group, self._runs, self._best = object(), 0, None
        self._heard.clear()

    def _shown(self) -> bool:
        return all(task in self.progress.task_ids for task in self._tasks.values())

    def _show(self, label: str, now: Progress) -> None:
        if now.phase not in self._tasks:
            for task in self._tasks.values():
                self.progress.update(task, visible=False)
            self._tasks[now.phase] = self.progress.add_task("", total=now.epochs, note="")
            self._best = now.best
        words = f"{label}{now.phase}" + (f" ({now.phase_number}/{now.phases})" if now.phases > 1 else "")
        note = f"epoch {now.epoch}/{now.epochs}"
        if self._runs > 1:
            note += f"  {self._going} of {self._runs} runs at work"
        if self._best is not None:
            value = "" if self._runs > 1 or now.value is None else f" {now.value:.4f}"
            note += f"  {now.metric}{value} best {self._best:.4f}"
        done = now.epoch - 1 + now.fraction
        self.progress.update(self._tasks[now.phase], description=words, completed=done, note=note)


@contextmanager
def shown(verbose: bool | None) -> Iterator[Callback | None]:
    """A callback that shows a training, from its third second on.

    None shows it where a person looks: on a terminal or in a notebook. True also writes lines into a log file.
    """
    display = _notebook_display()
    console = Console(stderr=True, highlight=False)
    if verbose is False or (verbose is None and display is None and not console.is_terminal):
        yield None
        return
    started = time.monotonic()
    bars: list[Bars] = []
    inner: list[Callback] = []

    def callback(now: Progress) -> None:
        if not inner:
            if time.monotonic() - started < PATIENCE:
                return
            bars.append(bars_on(console) if display is None else NotebookBars(display))
            bars[0].start()
            inner.append(Trainings(bars[0]).callback())
        inner[0](now)

    try:
        yield callback
    finally:
        for one in bars:
            one.stop()


def _notebook_display() -> Any:
    """The function that shows something below a notebook's cell; None where there is no notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython  # pyright: ignore[reportMissingImports, reportPrivateImportUsage]
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    shell = get_ipython()
    return display if shell is not None and hasattr(shell, "kernel") else None
