"""Wrong labels beside cleanlab: the measures, their parts and resamples, the files of images, and the page."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import average_precision_score, roc_auc_score

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import detection
from accord import Classifier
from accord.evaluation.detection import detection_metrics
from accord.evaluation.significance import Difference
from ranked import AP, AT_WRONG, AUC, MEASURES, Ranked, over_examples, ranks, resampled

PAGE = Path(__file__).parents[2] / "docs" / "results" / "detection" / "README.md"


def made(seed: int, count: int = 60, steps: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Qualities, some of them equal, and which labels are wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(count) < 0.3
    wrong[:2] = True, False
    return np.round(rng.random(count) * steps - 3 * wrong), wrong


# -- measures ---------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), steps=st.integers(1, 100))
@settings(max_examples=40, deadline=None)
def test_measures_are_those_of_scikit_learn_also_when_labels_are_drawn_anew(seed: int, steps: int) -> None:
    quality, wrong = made(seed, steps=steps)
    one = Ranked(quality, wrong)
    found = one.measures()
    assert {AUC: found[AUC], AP: found[AP]} == pytest.approx(detection_metrics(quality, wrong, "label"))
    weights = np.random.default_rng(seed).integers(0, 4, len(wrong))
    weights[:2] = 1
    again = one.measures(weights)
    assert again[AUC] == pytest.approx(roc_auc_score(wrong, -quality, sample_weight=weights))
    assert again[AP] == pytest.approx(average_precision_score(wrong, -quality, sample_weight=weights))
    repeated = np.repeat(np.arange(len(wrong)), weights)
    assert again == pytest.approx(Ranked(quality[repeated], wrong[repeated]).measures())


def test_precision_at_the_number_of_wrong_labels_is_the_mean_over_the_orders_of_equals() -> None:
    quality, wrong = made(3)
    count, rng = int(wrong.sum()), np.random.default_rng(0)
    orders = [np.lexsort((rng.random(len(wrong)), quality))[:count] for _ in range(4000)]
    mean = float(np.mean([wrong[order].mean() for order in orders]))
    assert Ranked(quality, wrong).measures()[AT_WRONG] == pytest.approx(mean, abs=0.005)


@pytest.mark.parametrize("steps", [4, 1000])
def test_parts_have_the_measure_as_their_mean_and_say_what_a_label_changes(steps: int) -> None:
    quality, wrong = made(5, steps=steps)
    one = Ranked(quality, wrong)
    found, parts, count = one.measures(), one.parts(), len(wrong)
    for measure in (AUC, AP):
        assert parts[measure].mean() == pytest.approx(found[measure])
        for label in range(count):
            more = np.ones(count)
            more[label] += 1e-6
            change = (one.measures(more)[measure] - found[measure]) * 1e6
            assert parts[measure][label] - found[measure] == pytest.approx(count * change, abs=1e-3)


def test_resamples_differ_as_much_as_the_parts_say() -> None:
    quality, wrong = made(7, count=1500, steps=1000)
    draws = resampled({"one": quality, "same": quality}, wrong, resamples=400)
    assert (draws["one"] == draws["same"]).all()
    parts = Ranked(quality, wrong).parts()
    for k, measure in enumerate((AUC, AP)):
        assert draws["one"][:, k].std() == pytest.approx(parts[measure].std() / len(wrong) ** 0.5, rel=0.15)


@given(quality=st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_ranks_keep_the_order_and_what_is_equal(quality: list[float]) -> None:
    values = np.array(quality)
    kept = ranks(values).astype(int)
    assert (np.sign(kept[:, None] - kept) == np.sign(values[:, None] - values)).all()


def test_an_interval_leaves_zero_out_exactly_where_p_is_small() -> None:
    draws = np.random.default_rng(0).normal(0.02, 0.01, 1000)
    for gain in (0.001, 0.0195, 0.0196 * draws.std() / 0.01 + 1e-6, 0.03):
        found = over_examples(gain, draws)
        assert (found.p < 0.05) == (found.low > 0)
    assert over_examples(0.0, [0.1, 0.1]) == Difference(0.0, 0.0, 0.0, 1.0, "examples")


# -- who is compared with whom ----------------------------------------------------------------------------


def test_a_judge_is_compared_with_cleanlab_on_the_same_probabilities() -> None:
    names = ["a: self_confidence", "a: accord", "b: self_confidence", "mean: normalized_margin", "mean: accord"]
    names += ["ensemble by uniform: self_confidence", "council: accord"]
    assert detection.rivals_of("a: accord", names) == ["a: self_confidence"]
    assert detection.rivals_of("mean: accord", names) == ["mean: normalized_margin"]
    every = ["mean: normalized_margin", "ensemble by uniform: self_confidence"]
    assert detection.rivals_of("council: accord", names) == every
    assert detection.rivals_of(detection.COUNCIL, names) == every
    assert detection.best_of(every, {every[0]: 0.4, every[1]: 0.6}) == every[1]


def test_cleanlab_and_accord_have_the_probabilities_that_the_council_had() -> None:
    """They are of members that never saw the label: the accuracy that the council notes is theirs."""
    data: Any = load_iris()
    inputs, labels = np.asarray(data.data, np.float32), np.asarray(data.target)
    clf = Classifier(method="council", seed=0, epochs=2)
    before = detection.council_of_labels.consensus
    said = detection.heard(clf, inputs, labels)
    assert detection.council_of_labels.consensus is before
    assert said.shape == (150, 4, 3)
    assert said.sum(2) == pytest.approx(1, abs=1e-4)
    learnt = clf.part_ == 0
    noted = [row["out_of_fold"] for row in clf.notes_["council"]["members"] if row["round"] == 0]
    right = (said[learnt].argmax(2) == labels[learnt, None]).mean(0)
    assert right == pytest.approx(noted, abs=1e-4)


# -- cells ------------------------------------------------------------------------------------------------


def image_file(path: Path, number: int, **changes: Any) -> Path:
    """A made file of a council on images."""
    rng = np.random.default_rng(number)
    truth = np.arange(400) % 4
    wrong = rng.random(400) < 0.3
    given_labels = np.where(wrong, (truth + 1) % 4, truth)
    logits = rng.normal(0, 1, (400, 4)) + 2.5 * np.eye(4)[truth]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    arrays: dict[str, Any] = {
        "probabilities": p.astype(np.float16),
        "given": given_labels.astype(np.int8),
        "truth": truth.astype(np.int8),
        "quality": p[np.arange(400), given_labels].astype(np.float32) ** 2,
        "metadata": np.array(json.dumps({"data": "made/pair-0.3", "seed": number})),
    }
    np.savez(path, **{name: one for name, one in (arrays | changes).items() if one is not None})
    return path


def asked_for(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(
        only=["images"], data=tmp_path, images=tmp_path, seeds=1, cells=tmp_path / "new" / "cells.zip", minutes=1.0
    )


def test_files_of_images_become_rows_and_are_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cleanlab", reason="the comparison is with cleanlab")
    for seed in (0, 1):
        image_file(tmp_path / f"{seed}.npz", seed)
    asked = asked_for(tmp_path)
    detection.make(asked)

    def again(path: Path) -> None:
        pytest.fail(f"{path} was judged again")

    monkeypatch.setattr(detection, "of_image_file", again)
    detection.make(asked)
    rows = detection.rows_from(detection.read_cells(asked.cells))
    assert [row.judge for row in rows] == ["the council", "the same probabilities"]
    council = rows[0]
    assert council.gains[AP].over == "seeds and examples"
    assert council.gains[AP].difference == pytest.approx(council.ours[AP] - council.theirs[AP])
    assert council.ours[AP] == pytest.approx(council.theirs[AP], abs=1e-9)  # a square keeps the order
    assert all(row.best[measure][1] >= row.theirs[measure] for row in rows for measure in MEASURES)
    assert "| made/pair-0.3 | 400 | " in detection.report(detection.read_cells(asked.cells))


def test_one_seed_is_judged_over_examples_alone(tmp_path: Path) -> None:
    pytest.importorskip("cleanlab", reason="the comparison is with cleanlab")
    cell = detection.of_image_file(image_file(tmp_path / "one.npz", 0))
    [council, _] = detection.seeded_rows([cell])
    assert council.gains[AP].over == "examples"
    assert "nan" not in detection.report({"one": cell})


def test_a_file_without_what_is_needed_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no quality;"):
        detection.image_file(image_file(tmp_path / "a.npz", 0, quality=None))
    with pytest.raises(SystemExit, match="has no data and no seed;"):
        detection.image_file(image_file(tmp_path / "b.npz", 0, metadata=None))
    with pytest.raises(SystemExit, match="different lengths"):
        detection.image_file(image_file(tmp_path / "c.npz", 0, quality=np.ones(3)))
    own = image_file(tmp_path / "d.npz", 0, metadata=None, data=np.array("cifar10"), seed=np.array(4))
    assert detection.image_file(own)[0] == {"data": "cifar10", "seed": 4}


def test_two_files_of_one_seed_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        image_file(tmp_path / f"{name}.npz", 0)
    with pytest.raises(SystemExit, match="of the same data and seed"):
        list(detection.cells_to_make(asked_for(tmp_path)))


def test_a_file_of_several_nets_has_every_judge(tmp_path: Path) -> None:
    pytest.importorskip("cleanlab", reason="the comparison is with cleanlab")
    rng, truth = np.random.default_rng(0), np.arange(600) % 3
    labels = np.where(rng.random(600) < 0.2, (truth + 1) % 3, truth)
    nets = {f"pred_probs_{name}": rng.dirichlet(np.ones(3), 600) + np.eye(3)[truth] for name in "ab"}
    np.savez(tmp_path / "made.npz", given=labels, true=truth, **nets)
    cell = detection.of_nets(tmp_path / "made.npz", resamples=20)
    rows = list(detection.nets_rows(cell))
    assert [row.judge for row in rows] == ["a", "b", "mean", "all nets"]
    assert all(row.gains[measure].over == "examples" for row in rows for measure in MEASURES)
    assert json.loads(json.dumps(cell.figures)).keys() == cell.figures.keys()


def test_the_page_has_the_tables_of_the_cells() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    lines = detection.report(detection.read_cells(detection.ARCHIVE)).splitlines()
    assert [line for line in lines if line.startswith("|") and line not in page] == []
