"""`accord demo`: the main job on data the project makes itself, and one page that shows what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.cli.comparing import compare_and_show
from accord.cli.fit import run_fit
from accord.cli.given import given_data
from accord.cli.simulating import SIMULATION, save_simulation
from accord.data.simulator import SimulatorSettings, simulate
from accord.errors import DataError
from accord.estimators import Classifier, Recommender
from accord.estimators.run_folder import CONFIG, kind_of
from accord.experiments.study import Study

METHODS = ("normal", "deca", "deca-p")
DIGITS_METHODS, DIGITS_NOISE = ("normal", "deca-p"), 0.4
PAGE = "index.html"
SETTINGS: dict[str, Any] = {}
"""Of every training: the demo shows the defaults."""


def run_demo(out: Path) -> dict[str, Any]:
    settings, sim = SimulatorSettings(), out / "sim"
    others = out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir())
    if others and kind_of(sim) != SIMULATION:
        raise DataError(f"'{out}' holds other things than an earlier demo; choose another path with --out.")
    ui.say(
        f"Simulating {settings.interactions} clicks of {settings.users} users, {settings.noise:.0%} of them noise, "
        f"then training {', '.join(METHODS)} over 3 seeds."
    )
    if not (sim / CONFIG).is_file():
        save_simulation(simulate(settings), sim, overwrite=True)
    log = given_data(sim / "log.parquet")
    task, asked = log.read([sim / "truth.parquet", sim / "clicks.parquet"], [], "fair", 0.0)
    answer: dict[str, Any] = {
        "clicks": compare_and_show(Study(task, METHODS, ["gmf"], settings=asked | SETTINGS), out / "compare")
    }
    answer["run"] = run_fit(log, out / "run", {"model": "gmf", "method": "deca-p"} | SETTINGS, overwrite=True)
    ui.say(f"Digits, {DIGITS_NOISE:.0%} of the labels redrawn, {', '.join(DIGITS_METHODS)} over 3 seeds.")
    digits = given_data(Path("digits"), noise=DIGITS_NOISE)
    task, asked = digits.read([], [], "fair", 0.0)
    study = Study(task, DIGITS_METHODS, ["auto"], settings=asked | SETTINGS)
    answer["digits"] = compare_and_show(study, out / "digits-compare")
    answer["digits_run"] = run_fit(digits, out / "digits-run", {"method": "deca-p"} | SETTINGS, overwrite=True)
    answer["page"] = _write_page(out, answer)
    ui.say(f"Open this page: {answer['page']}")
    return answer


def _write_page(out: Path, answer: dict[str, Any]) -> Path:
    """The page that shows both runs and both comparisons, and leads to their reports."""
    import numpy as np
    import pyarrow.parquet as parquet

    from accord.report.demo import write_demo_page

    truth = parquet.read_table(out / "digits-run" / "truth.parquet")
    write_demo_page(
        out / PAGE,
        {"clicks": answer["clicks"], "labels": answer["digits"]},
        Recommender.load(out / "run"),
        Classifier.load(out / "digits-run"),
        parquet.read_table(out / "sim" / "clicks.parquet"),
        np.asarray(truth["is_noise"]),
    )
    return (out / PAGE).resolve()
