"""What is built, as somebody else gets it: `make test-install` runs this.

It builds the sdist and the wheel. Then, for each Python, it installs the wheel into a fresh environment, runs the
README's quickstarts as they stand before any extra is there, and then, with the extras, the blocks of all pages and
the tutorials (tests/docs). `--whole` also runs the tutorials at their full size.

Where pip would bring PyTorch with CUDA, several gigabytes, only what needs no PyTorch is tried with that Python:
pip finds the wheel's dependencies, and its files compile. `--cuda` installs it all the same. `--without-docs` ends
after the quickstarts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
LOCKED = re.compile(r"^(torch)==\S+", re.MULTILINE)
NEEDED = ("pytest", "hypothesis")
"""What tests/docs needs besides accord and its extras."""
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TAIL = 3000
"""Characters of what a failed step said that are shown."""
LIMIT = 1800
"""Seconds after which a step has failed."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    python: str
    what: str
    outcome: str
    seconds: float
    said: str = ""


class StepFailedError(Exception):
    """A step that later ones need has failed."""


class Trial:
    """One Python: its environment and what was tried in it."""

    def __init__(self, version: str, folder: Path, rows: list[Row]) -> None:
        self.version, self.folder, self.rows = version, folder, rows
        self.bin = folder / "env" / "bin"

    def add(self, what: str, outcome: str, seconds: float, said: str = "") -> None:
        self.rows.append(Row(self.version, what, outcome, seconds, said))
        print(f"{self.version}  {outcome:7}  {seconds:6.1f} s  {what}", flush=True)
        if outcome == "failed":
            print(said[-TAIL:], flush=True)

    def run(self, what: str, words: list[str | Path], cwd: Path = ROOT, needed: bool = False) -> bool:
        """A step that is a command; whether it went well."""
        began = time.perf_counter()
        done = self.call(words, cwd)
        self.add(what, "failed" if done.returncode else "passed", time.perf_counter() - began, done.stdout)
        if needed and done.returncode:
            raise StepFailedError
        return not done.returncode

    def call(self, words: list[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
        """A command in the environment, which sees nothing of the sources."""
        there = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        there |= {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        call = list(map(str, words))
        asked = {"cwd": cwd, "env": there, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            return subprocess.run(call, timeout=LIMIT, **asked)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(call, 1, f"It was not done after {LIMIT} seconds.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="only this one, such as 3.11; may be given many times")
    parser.add_argument("--whole", action="store_true", help="run the tutorials at their full size too")
    parser.add_argument("--without-docs", action="store_true", help="end after the README's quickstarts")
    parser.add_argument("--cuda", action="store_true", help="install PyTorch with CUDA where pip has no other")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "install", help="where the environments go")
    parser.add_argument("--keep", action="store_true", help="leave the environments there")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with timed("build", rows) as notes:
        wheel = build(asked.out / "dist")
        notes.append(wheel.name)
    for version in asked.python or PYTHONS:
        found = interpreter(version)
        if found is None:
            rows.append(Row(version, "everything", "skipped", 0.0, f"there is no Python {version} on this machine"))
            continue
        folder = asked.out / version
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            tried(Trial(version, folder, rows), found, wheel, asked)
        except StepFailedError:
            print(f"{version}: the rest needs what has failed.", flush=True)
        finally:
            if not asked.keep:
                shutil.rmtree(folder)
    print(table(rows))
    return int(any(row.outcome == "failed" for row in rows))


@contextmanager
def timed(what: str, rows: list[Row]) -> Iterator[list[str]]:
    began, notes = time.perf_counter(), list[str]()
    yield notes
    rows.append(Row("", f"{what}: {', '.join(notes)}", "passed", time.perf_counter() - began))


def build(folder: Path) -> Path:
    """The wheel; the sdist beside it makes the same one."""
    shutil.rmtree(folder, ignore_errors=True)
    check = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], **check)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(folder / "again"), str(sdist)], **check)
    (again,) = (folder / "again").glob("*.whl")
    if contents(again) != contents(wheel):
        raise SystemExit("The sdist makes another wheel than the sources do.")
    return wheel


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as files:
        return {name: hashlib.sha256(files.read(name)).hexdigest() for name in files.namelist()}


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or one of pyenv's."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    every = [shutil.which(f"python{version}"), *sorted(map(str, kept.glob(f"{version}.*/bin/python{version}")))]
    for one in every:
        if one is not None and subprocess.run([one, "-c", "import venv"], capture_output=True).returncode == 0:
            return one
    return None


def tried(trial: Trial, python: str, wheel: Path, asked: argparse.Namespace) -> None:
    """Everything with one Python."""
    env, version = trial.folder / "env", trial.version
    install = [trial.bin / "python", "-m", "pip", "install", "--quiet"]
    trial.run("a fresh environment", [python, "-m", "venv", env], needed=True)
    locked = LOCKED.search((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    torch = locked[0] if locked else "torch"
    if not asked.cuda and (large := of_cuda(trial, [*install, torch])):
        without_torch(trial, install, wheel)
        reason = f"pip brings {torch} with {len(large)} packages of CUDA, several gigabytes; --cuda installs them"
        trial.add("everything that needs PyTorch", "skipped", 0.0, reason)
        return
    trial.run("pip install torch", [*install, torch], needed=True)
    trial.run("pip install the wheel", [*install, wheel], needed=True)
    where = trial.call([trial.bin / "python", "-c", "import accord; print(accord.__file__)"], trial.folder)
    inside = Path(where.stdout.strip()).is_relative_to(env)
    trial.add("accord is the installed one", "passed" if inside else "failed", 0.0, where.stdout)
    quickstarts(trial)
    if not asked.without_docs:
        docs(trial, install, wheel, asked.whole)
    print(f"{version}: done", flush=True)


def of_cuda(trial: Trial, install: list[str | Path]) -> list[str]:
    """The packages of CUDA that this installation would bring; nothing is installed."""
    report = trial.folder / "found.json"
    if trial.call([*install, "--dry-run", "--report", report], ROOT).returncode:
        return []
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith("nvidia-")]


def without_torch(trial: Trial, install: list[str | Path], wheel: Path) -> None:
    """What can be tried of the wheel where PyTorch is not."""
    trial.run("pip finds all that the wheel needs", [*install, "--dry-run", wheel])
    trial.run("pip install the wheel, nothing else", [*install, "--no-deps", wheel], needed=True)
    (package,) = (trial.folder / "env" / "lib").glob("python*/site-packages/accord")
    trial.run("its files compile", [trial.bin / "python", "-W", "error", "-m", "compileall", "-q", "-f", package])


def docs(trial: Trial, install: list[str | Path], wheel: Path, whole: bool) -> None:
    """The pages and the tutorials, with the extras."""
    trial.run("pip install the wheel with its extras", [*install, f"{wheel}[all]", *NEEDED], needed=True)
    report = trial.folder / "docs.xml"
    words = ["-m", "pytest", "tests/docs", "-p", "no:cacheprovider", f"--junitxml={report}"]
    trial.call([trial.bin / "python", *words], ROOT)
    for what, outcome, seconds, said in of_pytest(report):
        trial.add(what, outcome, seconds, said)
    if whole:
        for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
            words = [trial.bin / "python", "tests/docs/notebooks.py", "check", path.stem]
            trial.run(f"tutorial {path.stem}, whole", words)


def quickstarts(trial: Trial) -> None:
    """The README's blocks in their order, as they stand, in one empty folder."""
    folder = trial.folder / "quickstart"
    folder.mkdir()
    for number, (kind, code) in enumerate(BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")), 1):
        if kind == "python":
            script = trial.folder / f"quickstart-{number}.py"
            script.write_text(code, encoding="utf-8")
            trial.run(f"README, block {number} (Python)", [trial.bin / "python", script], folder)
        lines = [line for line in code.replace("\\\n", " ").splitlines() if line.startswith("accord ")]
        if kind == "console" and lines:
            trial.run(f"README, block {number} (console)", ["bash", "-ec", "\n".join(lines)], folder)


def of_pytest(report: Path) -> Iterator[tuple[str, str, float, str]]:
    """What pytest found, test by test."""
    if not report.is_file():
        yield "tests/docs", "failed", 0.0, "pytest wrote no report"
        return
    for case in ElementTree.parse(report).iter("testcase"):
        bad = next((one for kind in ("failure", "error") for one in case.iter(kind)), None)
        skipped = next(case.iter("skipped"), None)
        outcome = "passed" if bad is None and skipped is None else "skipped" if bad is None else "failed"
        said = "" if bad is None else bad.text or ""
        said = said if skipped is None else skipped.get("message", "")
        what = case.get("name", "").removeprefix("test_").replace("_", " ")
        yield f"docs: {what}", outcome, float(case.get("time", "0")), said


def table(rows: list[Row]) -> str:
    """The rows, and how many of each outcome there are."""
    lines = [f"{'Python':7} {'outcome':8} {'seconds':>8}  what"]
    for row in rows:
        reason = f" ({row.said})" if row.outcome == "skipped" and row.said else ""
        lines.append(f"{row.python:7} {row.outcome:8} {row.seconds:8.1f}  {row.what}{reason}")
    counts = {one: sum(row.outcome == one for row in rows) for one in ("passed", "failed", "skipped")}
    return "\n".join(["", *lines, "", ", ".join(f"{count} {one}" for one, count in counts.items())])


if __name__ == "__main__":
    sys.exit(main())
