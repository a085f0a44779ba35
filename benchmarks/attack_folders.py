"""Hostile folders for `attack.py`: real ones mutated, read by every command, each in a process of its own."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SECONDS, MEMORY = 20.0, 1_500_000_000
"""What reading a small folder may take at most; the libraries alone take a third of the memory."""
SECRET = "a file of the person's own\n"


def tree(folder: Path) -> str:
    """Changes when anything in a folder does; links and pipes are not opened."""
    found = []
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found.append(f"{path.relative_to(folder)} {about.st_mode} {hashlib.sha256(content).hexdigest()}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


MOST = 1 << 26
"""Bytes of a file that is spoiled: one that was made huge already stays as it is."""


def mutate(folder: Path, rng: random.Random, outside: Path) -> str:
    """Spoil one to three things in a folder; says how."""
    said = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
        files = [path for path in files if path.stat().st_size < MOST]
        if not files:
            break
        path = rng.choice(files)
        way = rng.choice([_flip, _flip, _cut, _grow, _link, _link_out, _pipe, _folder, _swap, _remove, _nest, _add])
        way(path, rng, outside, files)
        said.append(f"{way.__name__[1:]} {path.relative_to(folder)}")
    return ", ".join(said)


def _flip(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 8) if content else 0):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content)


def _cut(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) + 1)])


def _grow(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    os.truncate(path, rng.choice([1 << 20, 1 << 32, 1 << 36]))


def _link(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.unlink()
    path.symlink_to(rng.choice(["/etc/passwd", "/dev/zero", path.name, "/proc/self/environ", "nowhere"]))


def _link_out(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.unlink()
    path.symlink_to(outside / "mine")


def _pipe(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def _swap(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    other = rng.choice(files)
    if other == path or not other.is_file() or other.is_symlink():
        return
    aside = path.with_name(f"{path.name}.swapped")  # not by their bytes: one may have been made huge before
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def _remove(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.unlink()


def _nest(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    path.write_text(rng.choice(["[", '{"a":']) * rng.choice([500, 100_000]))


def _add(path: Path, rng: random.Random, outside: Path, files: list[Path]) -> None:
    added = path.parent / rng.choice(["report.html", "lock", ".lock", "study.db-journal"])
    added.unlink(missing_ok=True)
    added.symlink_to(outside / "mine")


def hostile(
    rng: random.Random, place: Path, originals: Path, commands: dict[str, list[list[str]]]
) -> Iterator[str]:
    """One mutated folder, read by every command for its kind; says what went wrong."""
    kind = rng.choice(sorted(commands))
    outside = place / "outside"
    outside.mkdir()
    (outside / "mine").write_text(SECRET)
    before = tree(outside)
    folder = place / "in" / kind
    shutil.copytree(originals / kind, folder)
    how = mutate(folder, rng, outside)
    for words in commands[kind]:
        asked = [word.replace("FOLDER", str(place / "in")).replace("PLACE", str(originals)) for word in words]
        wrong = read_by(asked, place / "said")
        if wrong:
            yield f"{kind}: {how}: accord {' '.join(words)}: {wrong}"
        if tree(outside) != before:
            yield f"{kind}: {how}: accord {' '.join(words)}: changed what lies outside"
            return


def read_by(words: list[str], said: Path) -> str | None:
    """What is wrong with how a command ends, in a child of this process, which has everything imported."""
    child = os.fork()
    if child == 0:
        _run(words, said)
    until, status, usage = time.monotonic() + SECONDS, 0, None
    while usage is None:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            usage = used
        elif time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.wait4(child, 0)
            return f"alive after {SECONDS:g} s"
        else:
            time.sleep(0.01)
    code, shown = os.waitstatus_to_exitcode(status), said.read_text(errors="replace")
    if code not in (0, 2) or "Traceback" in shown:
        return f"exit {code}: {shown.strip()[-300:]}"
    if SECRET.strip() in shown:
        return "shows a file that lies outside"
    if usage.ru_maxrss * 1024 > MEMORY:
        return f"took {usage.ru_maxrss / 1e6:.1f} GB"
    return None


def _run(words: list[str], said: Path) -> None:
    import traceback

    from accord.cli import main

    code = 1
    try:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = ["accord", *words]
        main.run()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
