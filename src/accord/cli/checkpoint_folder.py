"""The folder of a run that is not finished, next to the run's: what was asked for, its checkpoint, and a lock."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from accord.cli.paths import quoted
from accord.errors import DataError
from accord.estimators.run_folder import read_json, write_json
from accord.files import clear_dead, whole_folder
from accord.locks import locked, owner_of
from accord.training.ranks_checkpoint import FOLDER

SUFFIX, ARGUMENTS, STATE, LOCK = ".checkpoint", "fit.json", "checkpoint.safetensors", "lock"
EARLIER = "earlier"
"""What a run that is overwritten had left, until the new one has a checkpoint of its own."""
MEMBERS, RANKS = f"{STATE}.members", f"{STATE}{FOLDER}"
RUN = (STATE, MEMBERS, RANKS, ARGUMENTS)
"""What belongs to a run; the file that says that there is one comes last."""
WAIT = 0.5
"""Seconds to wait for a process that only looks."""
TRIES = 5
"""How often another process may come first."""


def folder_of(out: Path) -> Path:
    if not out.name:
        raise DataError(f"'{out}' cannot be a run's folder; name one of its own.")
    return out.with_name(out.name + SUFFIX)


def arguments_of(out: Path) -> dict[str, Any]:
    """What was asked for when a run began."""
    place = CheckpointFolder(out)
    place.refuse_strange()
    if not place.begun:
        raise DataError(
            f"There is no checkpoint of a run at '{place.folder}'; "
            f"begin one with `accord fit … --out {quoted(out)}`."
        )
    arguments = read_json(place.folder / ARGUMENTS)
    if not isinstance(arguments, dict):
        raise DataError(
            f"'{place.folder / ARGUMENTS}' does not say what was asked for; remove '{place.folder}' to begin anew."
        )
    return arguments


class CheckpointFolder:
    """The folder for a run that will be at ``out``."""

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, folder_of(out)

    @property
    def begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.folder / ARGUMENTS).is_file()

    @property
    def came_far(self) -> bool:
        """Whether there is a checkpoint, of one process or of several, or members of a council that are ready."""
        folders = [self.folder / MEMBERS, self.folder / RANKS]
        return (self.folder / STATE).is_file() or any(one.is_dir() and any(one.iterdir()) for one in folders)

    def take(self, locks: ExitStack, arguments: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Lock the folder, made anew where it is not there, for as long as ``locks`` are open."""
        for _ in range(TRIES):
            self.refuse_taken(resume=resume, overwrite=overwrite)
            if not self.folder.is_dir() or not any(self.folder.iterdir()):
                if resume:
                    break  # another process has just brought it to its end
                if self._made(locks, arguments):
                    return
                continue
            if not locks.enter_context(locked(self.folder / LOCK, wait=WAIT)):
                self._refuse_owner()
            self.refuse_strange()
            if not resume:
                self._replaced(arguments, overwrite)
            elif not self.begun:
                break
            return
        raise DataError(f"Another run came first at '{self.folder}'; give the command again.")

    def refuse_taken(self, *, resume: bool, overwrite: bool) -> None:
        """Where another run is at work, or was interrupted and is not to be overwritten."""
        self.refuse_strange()
        if (self.folder / LOCK).exists():
            with locked(self.folder / LOCK, wait=WAIT) as ours:
                if not ours:
                    self._refuse_owner()
        if self.begun and not resume and not overwrite:
            self._refuse_begun()

    def refuse_strange(self) -> None:
        """What is not ours is neither resumed nor removed."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise DataError(f"'{self.folder}' is no folder of a checkpoint; move it away or choose another path.")
        own = {*RUN, LOCK, EARLIER}
        found = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        strange = sorted(name for name in found if name not in own and not _is_draft(name))
        if strange:
            raise DataError(
                f"'{self.folder}' holds '{strange[0]}', which is not of a checkpoint, so it is left alone; "
                "move it away or choose another path."
            )

    def give_back(self) -> None:
        """This run did not come far: what was here before comes back."""
        self._discard(self.folder)
        self._restore()
        if not self.begun:
            self.remove()
        else:  # whoever waits for the lock makes a new one
            with suppress(OSError):
                (self.folder / LOCK).unlink(missing_ok=True)

    def remove(self) -> None:
        """The run is done. The lock's file goes last."""
        for path in (self.folder / EARLIER, self.folder):
            self._discard(path)
        (self.folder / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # another process may just have locked it
            self.folder.rmdir()

    def _made(self, locks: ExitStack, arguments: dict[str, Any]) -> bool:
        """Whether the folder was made, whole and locked, before another process made it."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        clear_dead(self.folder)
        with ExitStack() as own:
            try:
                with whole_folder(self.folder, replace=False) as draft:
                    own.enter_context(locked(draft / LOCK))
                    write_json(draft / ARGUMENTS, arguments)
            except OSError:
                if self.folder.is_dir() and any(self.folder.iterdir()):
                    return False
                raise
            locks.push(own.pop_all())
        return True

    def _replaced(self, arguments: dict[str, Any], overwrite: bool) -> None:
        """A new run takes the place of an earlier one, which can come back."""
        self._restore()
        if self.begun and not overwrite:
            self._refuse_begun()
        if self.begun:
            self._set_apart()
        self._discard(self.folder)
        write_json(self.folder / ARGUMENTS, arguments)

    def _set_apart(self) -> None:
        (self.folder / EARLIER).mkdir(exist_ok=True)
        for name in RUN:
            _move(self.folder / name, self.folder / EARLIER / name)

    def _restore(self) -> None:
        """An earlier run comes back, unless the one that took its place has a checkpoint."""
        earlier = self.folder / EARLIER
        if not any((earlier / name).exists() for name in (ARGUMENTS, STATE, RANKS)):
            return
        if not (self.folder / STATE).is_file() and not (self.folder / RANKS).is_dir():
            for name in RUN:
                _move(earlier / name, self.folder / name)
        self._discard(earlier)

    def _discard(self, folder: Path) -> None:
        """Remove what belongs to a run, and drafts that dead processes left of it."""
        if folder.is_symlink() or not folder.is_dir():
            return
        for path in sorted(folder.iterdir()):
            if path.name in RUN or _is_draft(path.name):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        if folder.name == EARLIER:
            shutil.rmtree(folder, ignore_errors=True)

    def _refuse_begun(self) -> None:
        raise DataError(
            f"A run that was interrupted is at '{self.folder}': "
            f"resume it with `accord fit --resume {quoted(self.out)}`, or pass --overwrite."
        )

    def _refuse_owner(self) -> None:
        owner = owner_of(self.folder / LOCK) or "another process"
        raise DataError(
            f"A run that will be saved at '{self.out}' is being trained by {owner}; wait for its end, or choose "
            "another path."
        )


def _is_draft(name: str) -> bool:
    return name.startswith(tuple(f".{one}." for one in RUN)) and name.endswith(".tmp")


def _move(source: Path, target: Path) -> None:
    if source.is_symlink() or source.exists():
        source.replace(target)
