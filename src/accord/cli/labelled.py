"""The commands on labelled data: images or tables, and the classifiers trained on them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from accord.cli import output, ui
from accord.cli.places import quoted
from accord.cli.unfinished import Keeping
from accord.cli.words import refuse_given
from accord.data.datasets.image_sets import IMAGE_SETS
from accord.data.labelled_files import Labelled, read_image_folder, read_labelled_table
from accord.data.noise import NoisyLabels, add_noise, check_kind
from accord.data.reading import begun, read_table
from accord.data.splits import clean_apart
from accord.errors import DataError, SettingError
from accord.estimators.classifier import Classifier
from accord.estimators.classifier_settings import make_classifier_settings
from accord.estimators.measuring import as_bool
from accord.estimators.run_folder import REPORT, check_free
from accord.methods import USES_CLEAN_LABELS
from accord.report import write_classifier_report
from accord.studies.labels import LabelComparison

TRUTH = "truth.parquet"


@dataclass(frozen=True)
class Words:
    """What a person typed to say where the labelled data are."""

    data: Path
    label: str | None = None
    labels: Path | None = None
    size: int | None = None
    ignore: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """Examples to train on, and clean ones to test by where the data set has them."""

    examples: Labelled
    test: tuple[np.ndarray, np.ndarray] | None = None
    augment: str = "none"


def read(words: Words) -> Source:
    name = str(words.data)
    if name in IMAGE_SETS and not words.data.exists():
        typed = {"label": words.label, "labels": words.labels, "size": words.size, "ignore": words.ignore}
        refuse_given("cannot be given with a data set of the catalogue, which is as it is", **typed)
        entry = IMAGE_SETS[name]
        data = entry.load()
        return Source(
            Labelled(data.inputs, data.labels, None, {"source": "catalogue", "data": name}),
            (data.test_inputs, data.test_labels),
            entry.augment,
        )
    if words.data.is_dir():
        if words.labels is None:
            raise SettingError(f"'{name}' is a folder; say which file holds its labels with --labels FILE.")
        return Source(_with_place(_read_folder(words.data, words), name))
    if words.labels is not None:
        raise SettingError(f"--labels is for a folder of images, but '{name}' is none; use --label COLUMN.")
    return Source(_with_place(read_labelled_table(words.data, words.label, tuple(words.ignore)), name))


def _read_folder(folder: Path, words: Words) -> Labelled:
    with ui.bar() as progress:
        task = progress.add_task("reading images", total=None, note="")

        def tick(done: int, total: int) -> None:
            if done % 50 == 0 or done == total:
                progress.update(task, completed=done, total=total, note=f"{done} of {total}")

        return read_image_folder(folder, words.labels, label=words.label, size=words.size, tick=tick)


def _with_place(examples: Labelled, name: str) -> Labelled:
    return replace(examples, notes={"data": name, **examples.notes})


def run_fit(
    words: Words,
    out: Path,
    values: dict[str, Any],
    noise: float,
    noise_kind: str,
    clean: Path | None,
    overwrite: bool,
    keeping: Keeping | None = None,
) -> None:
    make_classifier_settings(values)  # before the place is checked or a row is read
    check_kind(noise_kind)
    check_free(out, "classifier", overwrite=overwrite)
    source = read(words)
    values = {"augment": source.augment} | values
    settings = make_classifier_settings(values)
    examples, trusted = source.examples, _trusted(source, words, clean, settings.method)
    rows = None
    if settings.method in USES_CLEAN_LABELS and clean is None:
        examples, trusted, rows = _set_apart(examples, settings.seed, bool(noise))
    noisy, truth = None, examples.labels
    if noise:
        classes, numbers = np.unique(examples.labels, return_inverse=True)
        noisy = add_noise(numbers, len(classes), noise, kind=noise_kind, seed=settings.seed)
        examples = replace(examples, labels=classes[noisy.labels])
    clf = Classifier(**values)

    def also(draft: Path) -> None:
        write_classifier_report(clf, draft / REPORT)
        if noisy is not None:
            parquet.write_table(_truth_table(truth, noisy, rows), draft / TRUTH)

    with (keeping or Keeping()).on(out, overwrite) as checkpoint:
        with ui.bar() as progress:
            hook = ui.Trainings(progress).hook(first="taking the examples in")
            more = {"clean": trusted, "names": examples.names, "hook": hook, "checkpoint": checkpoint}
            clf.fit(examples.inputs, examples.labels, **more)
        clf.notes_ = examples.notes | {"noise": None if noisy is None else noisy.notes()}
        clf.notes_["examples"] = len(clf.labels_)
        with ui.busy("writing the run and its report"):
            clf.save(out, overwrite=overwrite, also=also)
    _describe_fit(clf, out)
    if rows is not None and trusted is not None:
        ui.say(
            f"{len(trusted[1])} examples were kept apart as clean; {TRUTH} says in 'row' which ones the others are"
        )


def _truth_table(truth: np.ndarray, noisy: NoisyLabels, rows: np.ndarray | None) -> pa.Table:
    """By the number of each example among those trained on and, where others were kept apart, among all."""
    table = {"index": np.arange(len(truth)), "true_label": truth, "is_noise": noisy.is_noise}
    return pa.table(table if rows is None else table | {"row": rows})


def _trusted(source: Source, words: Words, clean: Path | None, method: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The examples with trusted labels that a file holds: a table, or labels of images of the same folder."""
    if clean is None:
        return None
    if method not in USES_CLEAN_LABELS:
        raise SettingError(f"--clean is for {', '.join(USES_CLEAN_LABELS)}; method '{method}' uses none.")
    return _further(words, source.examples, clean)


def _further(words: Words, examples: Labelled, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """More examples like those at hand: labels of images of the same folder, or a table with the same columns."""
    if words.data.is_dir():
        size = words.size or examples.inputs.shape[1]
        more = _read_folder(words.data, replace(words, labels=path, size=size))
    elif "columns" in examples.notes:
        more = in_the_order_of(
            read_labelled_table(path, words.label, tuple(words.ignore)), examples.notes["columns"], path
        )
    else:
        raise SettingError(f"'{path}' cannot stand beside the data set '{words.data}'.")
    return more.inputs, more.labels


def in_the_order_of(examples: Labelled, columns: list[str], path: Path) -> Labelled:
    """A table with its columns in the order that was trained on."""
    own = examples.notes["columns"]
    if sorted(own) != sorted(columns):
        odd = sorted(set(own) ^ set(columns))[0]
        raise DataError(f"'{path}' has other columns than the training data; '{odd}' is in one of them alone.")
    return replace(examples, inputs=examples.inputs[:, [own.index(name) for name in columns]])


def _set_apart(
    examples: Labelled, seed: int, known: bool
) -> tuple[Labelled, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Where noise is added on purpose, some examples are taken out before: their labels are clean.

    The others, these, and which the others are.
    """
    if not known:
        raise SettingError("This method learns from some clean examples: give them with --clean FILE.")
    apart, rest = clean_apart(len(examples.labels), seed)
    names = None if examples.names is None else examples.names[rest]
    kept = Labelled(examples.inputs[rest], examples.labels[rest], names, examples.notes)
    return kept, (examples.inputs[apart], examples.labels[apart]), rest


def _describe_fit(clf: Classifier, out: Path) -> None:
    noise = clf.notes_["noise"]
    shape = "×".join(str(n) for n in clf.shape_)
    ui.say(f"{len(clf.labels_)} examples of {shape} in {len(clf.classes_)} classes; model {clf.model_}")
    if noise:
        ui.say(
            f"Noise added: {noise['rate']:.0%} of labels redrawn ({noise['kind']}), "
            f"{noise['realised']:.1%} are wrong"
        )
    for phase, kept in clf.metrics_["validation"].items():
        value = f", accuracy {kept['accuracy']:.4f} on noisy validation" if "accuracy" in kept else ""
        ui.say(f"{phase}: epoch {kept['epoch']} kept{value}")
    issues = clf.metrics_["label_issues"]
    ui.say(f"{issues['flagged']} labels ({issues['share']:.1%}) look wrong: accord audit {quoted(out)}")
    ui.say(f"Report: {out / REPORT}")


def run_audit(
    run: Path, top: int, share: float | None, out: Path | None, write_clean: Path | None, truth: Path | None
) -> None:
    output.check_audit(top, out, write_clean)
    with ui.busy("judging the labels"):
        clf = Classifier.load(run)
        issues = clf.find_label_issues(share)
        measured = None if truth is None else clf.evaluate_issues(_known_noise(clf, truth), share)
    if out is not None:
        output.emit(issues, None, out, "")
    else:
        output.emit(issues.slice(0, top), "table", None, f"The {min(top, issues.num_rows)} least believable labels")
    flagged = np.asarray(issues["is_label_issue"])
    rule = "the model sees another class" if share is None else f"the worst {share:.1%}"
    ui.say(f"{int(flagged.sum())} of {issues.num_rows} labels flagged ({rule})")
    if write_clean is not None:
        kept = issues.filter(pa.array(~flagged)).sort_by("index")
        names = [name for name in ("index", "file") if name in kept.column_names]
        output.emit(kept.select([*names, "given_label"]).rename_columns([*names, "label"]), None, write_clean, "")
    if measured is not None:
        ui.table(output.detection_table(measured))


def _known_noise(clf: Classifier, truth: Path) -> np.ndarray:
    """True for each example whose label a file of the truth says is wrong: by is_noise, or by true_label."""
    table, place = read_table(truth)
    if "is_noise" in table.column_names:
        wrong = as_bool(table["is_noise"])
    elif "true_label" in table.column_names:
        true = clf.class_numbers(table["true_label"].to_pylist(), strangers=True)
        wrong = clf.labels_[_places(clf, table, place)] != true
    else:
        raise DataError(f"No column is_noise or true_label in {place} (it has {', '.join(table.column_names)}).")
    marks = np.zeros(len(clf.labels_), bool)
    marks[_places(clf, table, place)] = wrong
    return marks


def _places(clf: Classifier, table: pa.Table, place: str) -> np.ndarray:
    """Which example each row of the truth speaks of: by index, by file, or in order; every example once."""
    count = len(clf.labels_)
    if "index" in table.column_names:
        try:
            places = np.asarray(table["index"].cast(pa.int64()))
        except pa.ArrowException as error:
            raise DataError(f"Column 'index' of {place} does not hold the numbers of examples.") from error
    elif "file" in table.column_names and clf.names_ is not None:
        at = {str(name): k for k, name in enumerate(clf.names_)}
        places = np.array([at.get(str(name), -1) for name in table["file"].to_pylist()])
    else:
        places = np.arange(table.num_rows)
    if len(places) != count or not np.array_equal(np.sort(places), np.arange(count)):
        raise DataError(f"{begun(place)} must speak of each of the {count} examples once, and no other.")
    return places


def run_evaluate(run: Path, words: Words | None, as_json: bool) -> None:
    with ui.busy("predicting"):
        clf = Classifier.load(run)
        inputs, labels = _test_examples(clf, words)
        measured = clf.evaluate(inputs, labels)
    if as_json:
        print(json.dumps(measured))
        return
    rows = [["metric", "value"], ["accuracy", f"{measured['accuracy']:.4f}"]]
    rows.append(["cross-entropy", f"{measured['cross_entropy']:.4f}"])
    ui.table(rows, f"{measured['examples']} clean examples")


def _test_examples(clf: Classifier, words: Words | None) -> tuple[np.ndarray, np.ndarray]:
    notes = clf.notes_
    if words is None:
        if notes.get("source") != "catalogue":
            raise SettingError("Say which clean examples to test by: --truth FILE (and --images DIR for images).")
        if notes.get("data") not in IMAGE_SETS:
            raise DataError(f"The run names a data set '{notes.get('data')}' that is not in the catalogue.")
        data = IMAGE_SETS[notes["data"]].load()
        return data.test_inputs, data.test_labels
    label = words.label or notes.get("label")
    if words.data.is_dir():
        size = words.size or (notes["size"][0] if "size" in notes else None)
        examples = _read_folder(words.data, replace(words, label=label, size=size))
    elif notes.get("source") in ("folder", "catalogue"):
        raise SettingError(
            "The run was trained on images: say with --images DIR where those that --truth labels are."
        )
    else:
        examples = read_labelled_table(words.data, label, tuple(notes.get("ignored", ())))
        examples = in_the_order_of(examples, notes.get("columns", []), words.data)
    return examples.inputs, examples.labels


def comparison(
    words: Words,
    noise: float,
    noise_kind: str,
    methods: list[str],
    models: list[str],
    seeds: int,
    settings: dict[str, Any],
    truths: list[Path],
) -> LabelComparison:
    check_kind(noise_kind)
    source = read(words)
    test = source.test
    examples = source.examples
    if len(truths) > 1:
        raise SettingError("Labelled data take one --truth: a file of clean examples to test by.")
    if truths:
        test = _further(words, examples, truths[0])
    settings = {"augment": source.augment} | settings
    protocol = {"data": examples.notes["data"], "noise": noise, "noise_kind": noise_kind}
    return LabelComparison(
        examples.inputs,
        examples.labels,
        methods,
        seeds,
        models,
        settings,
        test,
        noise,
        noise_kind,
        protocol,
    )


def run_report(run: Path) -> None:
    with ui.busy("writing the report"):
        write_classifier_report(Classifier.load(run), run / REPORT)
    ui.say(f"Report: {run / REPORT}")
