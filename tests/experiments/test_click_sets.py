"""The study of seven click sets: one budget for all, jobs in order, lanes, resuming, and what its page says."""

from __future__ import annotations

import sys
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import all_sets
import click_set_jobs as jobs
import click_set_report as report
import click_set_rows as made_rows
from accord.evaluation.significance import Difference
from click_set_jobs import MODELS, SETS, Asked, jobs_of, row_of
from job_pool import Cell, Cells, Job, run_jobs

ASKED = Asked(Path(), seeds=(0, 1, 2))
METRIC = made_rows.METRIC
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_every_method_has_the_same_budget() -> None:
    """The default settings are one trial; DeCA(p)'s first round is normal's."""
    for trials in (6, 12, 36):
        first = jobs.first_trials(trials)
        for method in ("normal", "t-ce", "deca-p", "council"):
            assert 1 + len(first) + len(jobs.second_trials(method, trials, first[0])) == trials
        for model in jobs.SOLVED:
            assert 1 + len(jobs.solved_trials(model, trials)) <= trials
        assert 1 + len(jobs.solved_trials("ials", trials)) == trials
    second = jobs.second_trials("deca-p", 12, {"learning_rate": 0.01})
    assert all(one["learning_rate"] == 0.01 and {"c0", "c1", "alpha"} <= set(one) for one in second)


@pytest.mark.parametrize("gpu", [True, False])
def test_default_settings_come_first_and_sets_in_the_order_of_proof(gpu: bool) -> None:
    made = jobs_of(Asked(Path(), gpu=gpu))
    names = [job.name for job in made]
    assert len(set(names)) == len(names)
    at = {name: k for k, name in enumerate(names)}
    assert all(at[before] < at[job.name] for job in made for before in job.after)
    assert all(one.rank <= other.rank for one, other in pairwise(made))
    assert [name for name, _ in groupby(made, lambda job: job.given["set"])] == [*SETS, *SETS]
    assert all(("search" in job.name or "tuned" in job.name) == (job.rank >= len(SETS)) for job in made)
    assert {lane for job in made for lane in job.lanes} == ({"cpu", "gpu"} if gpu else {"cpu"})
    councils = [job for job in made if job.work == "council"]
    assert len(councils) == 5 * len(SETS)
    assert all(job.leaves for job in councils)


def test_tuned_rows_alone_wait_for_no_row_that_is_not_asked_for() -> None:
    made = jobs_of(Asked(Path(), sets=("modcloth",), stages=("tuned",)))
    names = {job.name for job in made}
    assert all(set(job.after) <= names for job in made)


# -- cells and lanes --------------------------------------------------------------------------------------


def note_lane(job: Job, cells: Cells) -> Cell:
    return Cell({"lane": job.given["lane"]}, {})


def test_jobs_run_in_their_lanes_and_are_not_run_again(tmp_path: Path) -> None:
    made = [Job("one a", "w", lanes=("gpu",)), Job("two b", "w"), Job("one c", "w", after=("one a",))]
    cells = Cells(tmp_path / "first")
    assert run_jobs(made, cells, note_lane, workers={"cpu": 1, "gpu": 1}, minutes=2)
    assert {name: cells.read(name).figures["lane"] for name in cells.names()} == {
        "one a": "gpu",
        "two b": "cpu",
        "one c": "cpu",
    }
    cells.pack("one ", tmp_path / "one.zip")
    other = Cells(tmp_path / "other")
    assert other.unpack(tmp_path / "one.zip") == 2
    assert other.unpack(tmp_path / "one.zip") == 0
    assert other.names() == ["one a", "one c"]
    assert not run_jobs(made, other, note_lane, workers={"gpu": 1}, minutes=1)  # nobody is there for the other lane
    assert run_jobs([made[0], made[2]], other, note_lane, workers=1, minutes=0)  # nothing is left


# -- the page ---------------------------------------------------------------------------------------------


def put(cells: Cells, name: str, model: str, method: str, stage: str, mean: float, noise: float = 0.0) -> None:
    """A row of three seeds and forty users; users differ, and alike in all rows but for the noise."""
    rng = np.random.default_rng([len(model), len(method)])
    users = np.linspace(-0.05, 0.05, 40)
    values = mean + users + noise * rng.standard_normal((3, 40))
    figures: dict[str, Any] = {"valid": [mean] * 3, "wall": 3.0, "seeds": [0, 1, 2], "settings": {"l2": 1.0}}
    cells.write(row_of(name, model, method, stage, ASKED.seeds), Cell(figures, {METRIC: values.astype(np.float32)}))


def put_council(cells: Cells, name: str, words: str, mean: float) -> None:
    for seed in ASKED.seeds:
        values = (mean + np.linspace(-0.05, 0.05, 40))[None].astype(np.float32)
        student = {"valid": [mean], "wall": 2.0, "settings": {}}
        figures = {"valid": [mean], "wall": 60.0, "students": {"gmf": student}}
        cells.write(f"{name} {seed} {words}", Cell(figures, {METRIC: values, "student gmf": values}))


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    made = Cells(tmp_path)
    for method, mean in (("normal", 0.2), ("ensemble", 0.25), ("t-ce", 0.2), ("deca-p", 0.15), ("oracle", 0.3)):
        put(made, "modcloth", "gmf", method, "default", mean, noise=0.01)
    return made


def judged(cells: Cells, *names: str) -> dict[str, made_rows.Rows]:
    found = {name: made_rows.rows_of(cells, ASKED, name) for name in names}
    made_rows.judge(found)
    return found


def test_gains_have_signs_and_a_share_of_the_way(cells: Cells) -> None:
    rows = judged(cells, "modcloth")["modcloth"]
    signs = {method: rows["gmf", method].sign() for method in made_rows.JUDGED if ("gmf", method) in rows}
    assert signs == {"ensemble": "▲", "t-ce": "", "deca-p": "▼"}
    ensemble = rows["gmf", "ensemble"]
    assert ensemble.gain is not None
    assert ensemble.gain.over == "seeds and users"
    assert ensemble.gain.difference == pytest.approx(0.05, abs=0.005)
    assert ensemble.share == pytest.approx(0.5, abs=0.05)
    assert rows["gmf", "normal"].gain is None
    assert rows["gmf", "oracle"].share is None


def test_marks_tell_what_holds_after_the_correction_and_what_does_not(cells: Cells) -> None:
    def found(gain: float, half: float) -> Difference:
        return Difference(gain, gain - half, gain + half, 0.0, "users")

    assert [made_rows.mark(found(0.2, 0.1), p) for p in (0.01, 0.05, 0.2)] == ["▲", "△", "△"]
    assert [made_rows.mark(found(-0.2, 0.1), p) for p in (0.01, 0.05)] == ["▼", "▽"]
    assert made_rows.mark(found(0.2, 0.3), 0.2) == made_rows.mark(found(-0.2, 0.3), 0.2) == ""
    before = judged(cells, "modcloth")["modcloth"]["gmf", "ensemble"].p
    cells.path(row_of("modcloth", "gmf", "oracle", "default", ASKED.seeds)).unlink()
    assert judged(cells, "modcloth")["modcloth"]["gmf", "ensemble"].p == before  # a family of its own


def test_no_share_where_the_oracle_is_not_ahead(cells: Cells) -> None:
    put(cells, "modcloth", "gmf", "oracle", "default", 0.2, noise=0.01)
    rows = judged(cells, "modcloth")["modcloth"]
    assert all(row.share is None for row in rows.values())
    put(cells, "modcloth", "gmf", "oracle", "default", 0.3, noise=0.01)
    rows = judged(cells, "modcloth")["modcloth"]
    assert rows["gmf", "ensemble"].share is not None
    assert rows["gmf", "t-ce"].share is None  # its gain is chance
    put(cells, "modcloth", "gmf", "oracle", "default", 0.22, noise=0.01)
    rows = judged(cells, "modcloth")["modcloth"]
    page = "\n".join(report.set_page("modcloth", rows))
    assert page.count("past it") == 1
    assert page.count("away from it") == 1
    put(cells, "modcloth", "gmf", "oracle", "default", 0.2, noise=0.01)
    rows = judged(cells, "modcloth")["modcloth"]
    assert "%" not in "\n".join(report.set_page("modcloth", rows))


def test_a_set_that_is_not_counted_is_shown_and_in_no_family(cells: Cells) -> None:
    alone = judged(cells, "modcloth")["modcloth"]["gmf", "ensemble"].p
    for method, mean in (("normal", 0.2), ("ensemble", 0.4)):
        put(cells, "kuairec", "gmf", method, "default", mean, noise=0.01)
    found = judged(cells, "modcloth", "kuairec")
    assert found["modcloth"]["gmf", "ensemble"].p == alone
    row = found["kuairec"]["gmf", "ensemble"]
    assert (row.p, row.sign()) == (None, "")
    assert row.gain is not None
    assert report.counts(found)[0].startswith("- ensemble: ahead of normal in 1 of 1 counted cells")


def test_tuned_rows_are_compared_with_tuned_ones(cells: Cells) -> None:
    """As soon as all rows of a model are; a student with default settings too, until its own search is done."""
    put_council(cells, "modcloth", "council", 0.22)
    put(cells, "modcloth", "gmf", "normal", "tuned", 0.21, noise=0.01)
    put(cells, "modcloth", "gmf", "ensemble", "tuned", 0.24, noise=0.01)
    methods = ("normal", "ensemble", "t-ce", "council")
    rows = judged(cells, "modcloth")["modcloth"]
    assert {rows["gmf", method].stage for method in methods} == {"default"}  # others are not tuned yet
    for method in ("t-ce", "deca-p"):
        put(cells, "modcloth", "gmf", method, "tuned", 0.22, noise=0.01)
    rows = judged(cells, "modcloth")["modcloth"]
    stages = {method: rows["gmf", method].stage for method in methods}
    assert stages == dict.fromkeys(methods[:3], "tuned") | {"council": "default"}
    assert rows["gmf", "t-ce"].gain is not None
    assert rows["gmf", "council"].gain is not None
    assert rows["gmf", "council"].gain.difference == pytest.approx(0.01, abs=0.003)
    put_council(cells, "modcloth", "students tuned", 0.23)
    assert judged(cells, "modcloth")["modcloth"]["gmf", "council"].stage == "tuned"


def test_the_student_against_the_best_plain_model_by_noisy_validation(cells: Cells, tmp_path: Path) -> None:
    put_council(cells, "modcloth", "council", 0.22)
    for model, mean in (("ease", 0.1), ("ials", 0.3), ("rp3beta", 0.2), ("popularity", 0.05)):
        put(cells, "modcloth", model, "normal", "default", mean)
    found = judged(cells, "modcloth")
    found["modcloth"]["ease", "normal"].valid = 0.9  # it is best by validation, though not by the test
    for lead in made_rows.against_plain(found):
        assert lead[:1] + lead[2:3] == ("modcloth", "ease")
        assert lead[1] in ("council", "gmf council's student")
        assert lead[3].difference == pytest.approx(0.12, abs=1e-4)
        assert lead[4] < 0.05
    assert not made_rows.plain_against_networks(found)  # not before all four networks are there
    for k, model in enumerate(MODELS[1:]):
        put(cells, "modcloth", model, "normal", "default", 0.04 + 0.01 * k)
    found = judged(cells, "modcloth")
    found["modcloth"]["ease", "normal"].valid = found["modcloth"]["cdae", "normal"].valid = 0.9
    ((*who, lead, _),) = made_rows.plain_against_networks(found)
    assert who == ["modcloth", "ease", "cdae normal"]
    assert lead.difference == pytest.approx(0.05, abs=1e-4)


def test_the_page_says_what_was_not_run_and_keeps_what_a_person_wrote(cells: Cells, tmp_path: Path) -> None:
    cells.write("epinions 1 council", Cell({"students": {}}, {METRIC: np.full((1, 4), 0.5, np.float32)}))
    report.write_report(cells, ASKED, tmp_path / "page")
    path = tmp_path / "page" / "README.md"
    page = path.read_text()
    assert "**Default settings only: none of the 5 rows was tuned" in page
    assert "| modcloth | 40 | 5 of 20 | not run | not run |" in page
    assert "| epinions |  | not run | not run | 1 of 3 seeds |" in page
    assert "| epinions | council | 1 | .5000 |  |" in page
    assert "| kuairand |  | not run | not run | not run |" in page
    path.write_text("# What was found\n\nMuch.\n\n" + page[page.index(report.MADE) :].replace("modcloth", "old"))
    report.write_report(cells, ASKED, tmp_path / "page")
    assert path.read_text() == "# What was found\n\nMuch.\n\n" + page[page.index(report.MADE) :]
    assert "| modcloth | gmf | .1999 |" in page
    assert "### modcloth" in page
    assert not any(f"| {model} |" in page for model in MODELS if model != "gmf")


# -- the pages of the docs --------------------------------------------------------------------------------


def test_the_page_of_the_study_is_made_from_its_cells(tmp_path: Path) -> None:
    """And a study starts again from the one file beside it."""
    cells = Cells(tmp_path)
    assert cells.unpack(RESULTS / "click-sets" / "cells.zip") == len(cells.names()) > 100
    (tmp_path / "page").mkdir()
    page = (RESULTS / "click-sets" / "README.md").read_text(encoding="utf-8")
    (tmp_path / "page" / "README.md").write_text(page, encoding="utf-8")
    report.write_report(cells, Asked(Path()), tmp_path / "page")
    assert (tmp_path / "page" / "README.md").read_text(encoding="utf-8") == page
    done = [cells.has(job.name) for job in jobs_of(Asked(Path(), stages=("tuned",)))]
    assert any(done) is not all(done)  # a part of the searches; the page says which


def test_the_page_of_all_sets_is_made_from_stored_results() -> None:
    page = (RESULTS / all_sets.PAGE).read_text(encoding="utf-8")
    made = all_sets.page_of(islice(all_sets.sections_of(RESULTS), 3))
    assert page.startswith(made), "run `python benchmarks/all_sets.py`"


def test_ranks_leave_out_what_knows_the_truth() -> None:
    line = {name: all_sets.Entry(mean) for name, mean in (("normal", 0.2), ("deca-p", 0.3), ("oracle", 0.9))}
    line["deca-p"].gain = Difference(0.1, 0.05, 0.15, 0.001, "users")
    section = all_sets.Section("Clicks", "", {("a", "gmf"): line, ("b", "gmf"): {"normal": line["normal"]}})
    assert section.methods() == ["deca-p", "oracle"]
    text = "\n".join(all_sets.shown_section(section))
    assert "| a | gmf | 2. .2000 | 1. +.1000△ [+.0500, +.1500] | .9000 |" in text  # p is not corrected: no ▲
    assert "| b | gmf | 1. .2000 | not run | not run |" in text
    assert "| DeCA(p) | 1 | 1 | 1 of 1 | 0 | 0 |  |" in text
