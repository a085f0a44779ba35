"""Small faults put into the source one at a time: which of them does no test see?

    python benchmarks/mutants.py [--per-file 16] [--seed 0] [--root PATH] [--only splits,tables] [--list]
    python benchmarks/mutants.py --source src/accord/data/splits.py --tests tests/data/test_splits.py

A fault (mutant) is a swapped comparison or operator, a number one higher or lower, a slice one longer or shorter,
True for False, min for max, a `not` or a statement left out. Each is tried on a copy of the tree in a temporary
folder, by the tests nearest to its file, in a process forked from one that has imported the heavy libraries.
The same seed draws the same faults from the same source, so that the scores before and after a change of the tests
can be compared.
Faults in which no test can see a difference (equivalent mutants) are told apart by a person.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TUNING, REPRODUCE = "tests/studies/test_tuning.py", "tests/reproduction/test_reproduce.py"
NEAREST: dict[str, tuple[str, ...]] = {
    "src/accord/evaluation/ranking.py": ("tests/evaluation/test_ranking.py",),
    "src/accord/evaluation/detection.py": ("tests/evaluation/test_detection.py",),
    "src/accord/studies/significance.py": ("tests/studies/test_significance.py",),
    "src/accord/data/splits.py": ("tests/data/test_splits.py",),
    "src/accord/data/benchmarks.py": ("tests/data/test_benchmarks.py", "tests/data/test_catalogue.py"),
    "src/accord/reproduction/overview.py": (
        "tests/reproduction/test_pages.py",
        "tests/reproduction/test_overview.py",
    ),
    "src/accord/studies/budget.py": (
        "tests/studies/test_budget.py",
        f"{TUNING}::test_every_row_of_a_comparison_gets_the_same_budget",
        f"{TUNING}::test_a_row_of_few_settings_spends_its_budget_on_seeds",
        f"{TUNING}::test_a_cell_found_by_another_search_says_so",
    ),
    "src/accord/studies/spaces.py": ("tests/studies/test_spaces.py", f"{TUNING}::test_plans"),
    "src/accord/studies/tables.py": (
        "tests/studies/test_tables.py",
        "tests/studies/test_compare.py::test_tables",
        "tests/reproduction/test_overview.py",
    ),
    "src/accord/studies/compare.py": ("tests/studies/test_tables.py", "tests/studies/test_compare.py"),
    "src/accord/studies/study.py": ("tests/studies/test_study.py", "tests/studies/test_compare.py"),
    "src/accord/studies/tuning.py": (
        "tests/studies/test_budget.py",
        f"{TUNING}::test_the_winner_has_the_best_noisy_validation[grid]",
        f"{TUNING}::test_the_truth_is_never_read",
        f"{TUNING}::test_a_row_of_few_settings_spends_its_budget_on_seeds",
        f"{TUNING}::test_a_variant_waits_for_a_search_of_its_own",
        f"{TUNING}::test_finished_cells_tell_what_their_search_found",
        f"{TUNING}::test_rounds_go_on_with_more_trials_and_are_read_when_time_is_up",
    ),
    "src/accord/reproduction/tables.py": (
        "tests/reproduction/test_pages.py",
        f"{REPRODUCE}::test_electronics_by_a_file_of_the_same_format",
    ),
    "src/accord/reproduction/figures.py": (
        "tests/reproduction/test_pages.py",
        f"{REPRODUCE}::test_every_kind_of_view",
    ),
    "src/accord/reproduction/page.py": (
        "tests/reproduction/test_pages.py",
        f"{REPRODUCE}::test_a_study_that_is_stopped_says_what_was_not_run",
    ),
    "src/accord/reproduction/cells.py": ("tests/reproduction/test_cells.py",),
}
"""Source files and the tests that should see a fault in them, the quickest first. Tests that take long are left
out, and so is what is not there."""
QUIET = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
HEAVY = (
    *("torch", "numpy", "scipy.stats", "pyarrow.parquet", "pyarrow.csv", "pyarrow.compute", "pydantic", "pytest"),
    *("sklearn.metrics", "sklearn.linear_model", "optuna", "pandas", "hypothesis.strategies", "safetensors.torch"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "jinja2", "typer"),
)


# -- faults --------------------------------------------------------------------------------------------

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    **{"min": "max", "max": "min", "any": "all", "all": "any", "amin": "amax", "amax": "amin"},
    **{"floor": "ceil", "ceil": "floor"},
}


@dataclass(frozen=True)
class Mutant:
    line: int
    change: str
    source: str


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[first, *rest]):
            for other in COMPARISONS.get(type(first), ()):
                yield ast.Compare(node.left, [other(), *rest], node.comparators)
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=float() as value):
            yield ast.Constant(value * 0.8 if value else 1.0)
        case ast.Name(id=name) if name in NAMES:
            yield ast.Name(NAMES[name], ast.Load())
        case ast.Attribute(attr=name) if name in NAMES:
            yield ast.Attribute(node.value, NAMES[name], ast.Load())
        case ast.Slice(lower=lower, upper=upper) if not _is_number(lower) and not _is_number(upper):
            if upper is not None:
                yield ast.Slice(lower, ast.BinOp(upper, ast.Sub(), ast.Constant(1)), node.step)
            elif lower is not None:
                yield ast.Slice(ast.BinOp(lower, ast.Add(), ast.Constant(1)), upper, node.step)
        case ast.Assign() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.IfExp():
            yield node.body
            yield node.orelse


def _is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Every node that may be changed, and how to put another in its place.

    Words, annotations, decorators and what an error says are left alone.
    """
    for parent in _reached(tree):
        for name, value in ast.iter_fields(parent):
            if name in LEFT_ALONE:
                continue
            if isinstance(value, ast.expr | ast.stmt):
                yield value, lambda new, parent=parent, name=name: setattr(parent, name, new)
            elif isinstance(value, list):
                for k, one in enumerate(value):
                    if isinstance(one, ast.expr | ast.stmt):
                        yield one, lambda new, value=value, k=k: value.__setitem__(k, new)


LEFT_ALONE = ("annotation", "returns", "decorator_list", "bases")


def _reached(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in LEFT_ALONE:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _reached(child)


def mutants(source: str) -> list[Mutant]:
    """All faults of a file in the order of its lines, each once."""
    whole = ast.parse(source)
    count = sum(1 for _ in _places(whole))
    found: dict[str, Mutant] = {}
    top = {id(node) for node in whole.body}
    for k in range(count):
        node = next(one for n, (one, _) in enumerate(_places(whole)) if n == k)
        if id(node) in top and isinstance(node, ast.Assign | ast.Expr):
            continue  # a name that is missing fails at once
        for which, new in enumerate(_variants(node)):
            tree = copy.deepcopy(whole)
            target, put = next(pair for n, pair in enumerate(_places(tree)) if n == k)
            put(ast.copy_location(list(_variants(target))[which], target))
            text = ast.unparse(ast.fix_missing_locations(tree))
            if text not in found:
                ast.fix_missing_locations(new)
                before, after = (" ".join(ast.unparse(one).split()) for one in (node, new))
                found[text] = Mutant(getattr(node, "lineno", 0), f"{before[:70]}  →  {after[:70]}", text)
    return sorted(found.values(), key=lambda one: one.line)


def drawn(source: str, per_file: int, seed: int) -> list[Mutant]:
    """So many faults of a file, spread over its lines."""
    every = mutants(source)
    if len(every) <= per_file:
        return every
    chosen = random.Random(seed).sample(range(len(every)), per_file)
    return [every[k] for k in sorted(chosen)]


# -- trials --------------------------------------------------------------------------------------------


def _in_a_fork(tree: Path, words: list[str], limit: float, log: Path) -> int | None:
    """The exit status of pytest with these words, or None where it ran past its limit."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.chdir(tree)
            sys.path.insert(0, str(tree / "src"))
            sys.dont_write_bytecode = True
            import pytest

            status = int(pytest.main([*QUIET, *words]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@dataclass
class Score:
    file: str
    tried: int = 0
    killed: int = 0
    survived: list[Mutant] = field(default_factory=list)
    seconds: float = 0.0


def score(tree: Path, file: str, tests: list[str], chosen: list[Mutant]) -> Score:
    """Try the faults of one file. The tests must pass on the file as it is."""
    path, log = tree / file, tree / "pytest.log"
    source, stat = path.read_bytes(), path.stat()
    found = Score(file)
    started = time.monotonic()
    if _in_a_fork(tree, tests, 600, log) != 0:
        raise SystemExit(f"The tests of {file} do not pass as it is:\n{log.read_text()[-3000:]}")
    limit = 20 + 4 * (time.monotonic() - started)
    try:
        for k, mutant in enumerate(chosen):
            path.write_text(mutant.source, encoding="utf-8")
            os.utime(path, (k + 1, k + 1))  # no compiled file is of this moment
            found.tried += 1
            if _in_a_fork(tree, tests, limit, log) == 0:
                found.survived.append(mutant)
            else:
                found.killed += 1
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    found.seconds = time.monotonic() - started
    return found


def show(scores: list[Score]) -> None:
    print("\n| file | mutants | killed | survived | seconds |\n|---|---|---|---|---|")
    for one in scores:
        print(f"| {one.file} | {one.tried} | {one.killed} | {len(one.survived)} | {one.seconds:.0f} |")
    tried, killed = (sum(getattr(one, name) for one in scores) for name in ("tried", "killed"))
    print(f"| all | {tried} | {killed} | {tried - killed} | {sum(one.seconds for one in scores):.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the tree to be tried")
    parser.add_argument("--per-file", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of files, such as splits,tables")
    parser.add_argument("--source", help="another file, with --tests")
    parser.add_argument("--tests", nargs="*", default=[])
    parser.add_argument("--list", action="store_true", help="print the faults and try none")
    given = parser.parse_args()
    nearest = {given.source: tuple(given.tests)} if given.source else NEAREST
    only = set(filter(None, given.only.split(",")))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in () if given.list else HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    scores = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        for name in ("src", "tests", "docs"):
            shutil.copytree(given.root / name, tree / name, ignore=shutil.ignore_patterns("results", "__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy2(given.root / name, tree / name)
        os.environ["PYTHONPATH"] = str(tree / "src")  # of processes that tests start
        importlib.import_module("compileall").compile_dir(tree / "src", quiet=1)
        for file, tests in nearest.items():
            there = [test for test in tests if (tree / test.split("::")[0]).is_file()]
            if not (tree / file).is_file() or not there or (only and Path(file).stem not in only):
                continue
            chosen = drawn((tree / file).read_text(encoding="utf-8"), given.per_file, given.seed)
            if given.list:
                print(file, *(f"  {one.line}: {one.change}" for one in chosen), sep="\n")
                continue
            scores.append(score(tree, file, there, chosen))
            print(f"{file}: {scores[-1].killed} of {scores[-1].tried} killed", flush=True)
            for one in scores[-1].survived:
                print(f"  {one.line}: {one.change}", flush=True)
    if scores:
        show(scores)


if __name__ == "__main__":
    main()
