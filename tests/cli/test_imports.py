"""What a click log needs: training, recommending and auditing load nothing but the packages named here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from accord.data.simulator import Simulation

OURS = "accord torch numpy pyarrow pydantic rich typer safetensors jinja2"
THEIRS = """
markupsafe click shellingham pygments markdown_it mdurl typing_extensions typing_inspection annotated_types
annotated_doc pydantic_core filelock sympy mpmath networkx fsspec torchgen functorch
"""
"""What those import themselves."""
HOOK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in allowed and not package.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"refused: {name}", name=name)

"""
RUN = """
from accord.cli.main import main
try:
    main()
finally:
    print("loaded", *sys.modules)
"""


def loaded(program: str, *words: object) -> set[str]:
    """The modules that a command loads in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="module")
def log(made: Simulation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    parquet.write_table(made.log(), path)
    return path


FAST = ["--epochs", 1, "--set", "dims=4", "--set", "batch_size=512"]


@pytest.mark.parametrize("model", ["gmf", "lightgcn"])
def test_a_click_log_needs_few_packages(model: str, log: Path, tmp_path: Path) -> None:
    allowed = {*OURS.split(), *THEIRS.split()}
    program = f"{HOOK}\nallowed = {allowed} | sys.stdlib_module_names\nsys.meta_path.insert(0, Refuse())\n{RUN}"
    run = tmp_path / "run"
    loaded(program, "fit", log, "--model", model, "--out", run, *FAST)
    assert (run / "report.html").is_file()
    loaded(program, "recommend", run, "--user", "u1", "--out", tmp_path / "top.csv")
    loaded(program, "audit", run, "--out", tmp_path / "issues.parquet", "--write-clean", tmp_path / "clean.csv")
    loaded(program, "report", run)
    with pytest.raises(AssertionError, match="refused: sklearn"):  # the hook does refuse
        loaded(program, "fit", "digits", "--out", tmp_path / "digits", "--epochs", 1)


def test_a_fit_of_clicks_loads_nothing_heavy_that_it_does_not_need(log: Path, tmp_path: Path) -> None:
    """Where all is installed."""
    found = loaded(f"import sys\n{RUN}", "fit", log, "--out", tmp_path / "run", *FAST)
    assert {"torch", "pyarrow", "jinja2"} <= found
    heavy = {"sklearn", "scipy", "optuna", "pandas", "PIL", "torch._dynamo", "usearch"}
    assert not found & heavy
    run, lists = tmp_path / "run", tmp_path / "lists.parquet"
    for asked in (("recommend", run, "--history", log), ("recommend", run, "--all"), ("audit", run, "--log", log)):
        assert not loaded(f"import sys\n{RUN}", *asked, "--out", lists) & heavy, asked[2]
