"""A method of one's own, registered at run time, does all that a built-in one does, for clicks and for labels."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pytest
import torch
from pydantic import Field
from sklearn.base import clone
from torch import nn

from accord import Classifier, Recommender
from accord.cli import main
from accord.data.simulator import Simulation
from accord.errors import DataError, InterruptedRunError, SettingError
from accord.estimators import fit_together
from accord.estimators.settings import settings_class
from accord.methods import METHODS, Batch, Build, Method, MethodSettings, Phase, StepInfo, register_method
from accord.models import MODELS, register_model
from accord.models.classifiers import Backbone
from stopping import StopsAfter

TASKS = ("clicks", "labels")
QUICK: dict[str, dict[str, Any]] = {
    "clicks": {"epochs": 2, "batch_size": 512, "dims": 4, "patience": 0},
    "labels": {"epochs": 3, "batch_size": 32, "model": "mlp"},
}
ESTIMATORS: dict[str, Any] = {"clicks": Recommender, "labels": Classifier}


class GCESettings(MethodSettings):
    q: float = Field(default=0.7, gt=0, le=1)
    """GCE: 1 gives the mean absolute error, values near 0 cross-entropy."""


class GCE(Method):
    """Generalised cross-entropy, (1 − P(ỹ)^q) / q."""

    name = "gce"
    settings = GCESettings
    space = {"q": (0.3, 0.7, 1.0)}  # noqa: RUF012
    may_differ = frozenset({"q"})

    def phases(self, build: Build) -> list[Phase]:
        target = build("target")

        def loss(batch: Batch, info: StepInfo) -> torch.Tensor:
            quality, q = self.objective.label_quality(batch.logits(target), batch.labels), self.setting("q")
            return batch.mean((1 - quality**q) / q)

        return [Phase("training", {"target": target}, "target", loss, kept=("target",))]


class PeerClicks(MethodSettings):
    peer: str = "neumf"
    """Peers: the model of the second network."""


class PeerLabels(MethodSettings):
    peer: str = "convnet"
    """Peers: the model of the second network."""


class Peers(Method):
    """Two networks of different architectures are held to agree, and answer together for the labels' quality."""

    name = "peers"
    settings = {"clicks": PeerClicks, "labels": PeerLabels}  # noqa: RUF012
    network_count = 2

    def phases(self, build: Build) -> list[Phase]:
        networks = {"target": build("target"), "peer": build("peer", self.setting("peer"))}

        def loss(batch: Batch, info: StepInfo) -> torch.Tensor:
            f, g = (batch.logits(network) for network in networks.values())
            plain = self.objective.cross_entropy(f, batch.labels) + self.objective.cross_entropy(g, batch.labels)
            return batch.mean(plain + self.objective.agreement(f, g, 0.5))

        return [Phase("training", networks, "target", loss, kept=("target", "peer"))]

    def label_quality(self, networks: dict[str, nn.Module], batch: Batch) -> torch.Tensor:
        together = self.objective.average([batch.logits(networks[role]) for role in ("target", "peer")])
        return self.objective.label_quality(together, batch.labels)


class Tower(nn.Module):
    """A recommender of one's own."""

    def __init__(self, n_users: int, n_items: int, dims: int = 6) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(n_users, dims), nn.Embedding(n_items, dims)

    def logits(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return (self.user(users) * self.item(items)).sum(-1)

    def scores(self, users: torch.Tensor) -> torch.Tensor:
        return self.user(users) @ self.item.weight.T


class Shallow(Backbone):
    """A classifier of one's own."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(8, classes)
        self.first = nn.Linear(int(np.prod(shape)), 8)

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.first(inputs.flatten(1)).relu()


OWN_MODEL = {"clicks": "tower", "labels": "shallow"}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_method(GCE)
    register_method(Peers)
    register_model("tower", Tower)
    register_model("shallow", Shallow)
    yield
    for method in ("gce", "peers"):
        METHODS.unregister(method)
    for model in OWN_MODEL.values():
        MODELS.unregister(model)


@pytest.fixture(scope="module")
def sources(made: Simulation) -> dict[str, dict[str, Any]]:
    """What each estimator's fit takes."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 5)) + 2 * y[:, None]
    given = np.where(rng.random(150) < 0.3, rng.integers(0, 3, 150), y)
    return {"clicks": {"log": made.log()}, "labels": {"X": X, "y": given}}


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    y = np.arange(60) % 2
    return {"X": np.random.default_rng(0).normal(size=(60, 8, 8)) + y[:, None, None], "y": y}


def estimator(task: str, method: Any = "gce", **more: Any) -> Any:
    return ESTIMATORS[task](**{**QUICK[task], "method": method, **more})


def quality(fitted: Any) -> np.ndarray:
    return fitted.quality_ if isinstance(fitted, Recommender) else fitted.label_quality_


def weights(fitted: Any) -> torch.Tensor:
    return torch.cat([t.flatten().float() for n in fitted.networks_.values() for t in n.state_dict().values()])


def assert_same(one: Any, other: Any) -> None:
    assert torch.equal(weights(one), weights(other))
    assert np.array_equal(quality(one), quality(other))


# -- choosing it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_by_name_by_class_and_as_an_object(task: str, sources: Any) -> None:
    usual = [estimator(task, given).fit(**sources[task]) for given in ("gce", GCE, GCE())]
    for one in usual:
        assert (one.settings.method, one.settings.q) == ("gce", 0.7)
        assert_same(one, usual[0])
    half = [estimator(task, GCE(q=0.5)), estimator(task, q=0.5), estimator(task, GCE(q=0.9), q=0.5)]
    for one in half:
        assert one.fit(**sources[task]).settings.q == 0.5
        assert_same(one, half[0])
    assert not torch.equal(weights(half[0]), weights(usual[0]))


@pytest.mark.parametrize("task", TASKS)
def test_it_learns_the_loss_it_says(task: str, sources: Any) -> None:
    """With q = 1 the loss is 1 − P(ỹ), whose mean over examples is 1 minus the mean quality."""
    one = estimator(task, q=1.0, epochs=1).fit(**sources[task])
    share = one.history_[0]["loss"] / (2 if task == "clicks" else 1)  # positives and negatives
    assert 0.3 < share < 0.7
    history = estimator(task, q=1.0, epochs=8, learning_rate=0.05).fit(**sources[task]).history_
    assert history[-1]["loss"] < history[0]["loss"] - 0.1


@pytest.mark.parametrize("task", TASKS)
def test_a_wrong_setting_is_one_sentence(task: str, sources: Any) -> None:
    with pytest.raises(SettingError, match="Setting 'q': Input should be less than or equal to 1"):
        estimator(task, GCE(q=2)).fit(**sources[task])
    with pytest.raises(SettingError, match="Unknown setting 'quality': did you mean"):
        estimator(task, GCE(quality=2))
    with pytest.raises(SettingError, match="no method"):
        estimator(task, 3).fit(**sources[task])


@pytest.mark.parametrize("task", TASKS)
def test_its_settings_stand_in_the_signature_while_it_is_registered(task: str) -> None:
    cls = ESTIMATORS[task]
    parameters = inspect.signature(cls).parameters
    assert parameters["q"].default == 0.7
    assert set(settings_class(task).model_fields) <= set(parameters)
    assert "GCE: 1 gives" in settings_class(task).model_fields["q"].description
    METHODS.unregister("gce")
    assert "q" not in inspect.signature(cls).parameters
    register_method(GCE)
    assert "q" in inspect.signature(cls).parameters


def test_an_estimator_made_before_the_method_knows_it_too(sources: Any) -> None:
    METHODS.unregister("gce")
    clf: Any = Classifier(**QUICK["labels"])
    register_method(GCE)
    assert clf.get_params()["q"] == 0.7
    assert_same(copy_of(clf).set_params(method="gce", q=0.5).fit(**sources["labels"]), _half(sources))
    assert_same(copy_of(clf).set_params(method=GCE(q=0.5)).fit(**sources["labels"]), _half(sources))
    METHODS.unregister("gce")
    assert_same(copy_of(clf).set_params(method=GCE(q=0.5)).fit(**sources["labels"]), _half(sources))


def copy_of(clf: Any) -> Any:
    """As scikit-learn's searches make it."""
    return clone(clf)


def _half(sources: Any) -> Classifier:
    return estimator("labels", q=0.5).fit(**sources["labels"])


def test_a_clone_has_the_same_settings() -> None:
    copied: Any = clone(estimator("labels", GCE(q=0.5)))
    assert (copied.get_params()["method"], copied.get_params()["q"]) == ("gce", 0.5)
    assert copied.settings.q == 0.5


def test_a_registered_method_changes_no_other_methods_run(sources: Any, tmp_path: Path) -> None:
    """Nor does it tell apart a checkpoint of one: a run that was killed is resumed where fewer are registered."""
    path = tmp_path / "state"
    with pytest.raises(InterruptedRunError):
        estimator("clicks", "deca-p").fit(**sources["clicks"], checkpoint=StopsAfter(path, 5))
    with_it = estimator("clicks", "deca-p").fit(**sources["clicks"])
    with_it.save(tmp_path / "run")
    METHODS.unregister("gce")
    METHODS.unregister("peers")
    assert_same(estimator("clicks", "deca-p").fit(**sources["clicks"], checkpoint=path), with_it)
    assert_same(Recommender.load(tmp_path / "run"), with_it)


# -- training it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_stack_whose_runs_differ_in_its_setting_is_the_runs_alone(task: str, sources: Any) -> None:
    values = ({"q": 0.3}, {"q": 0.7, "seed": 2}, {"q": 1.0})
    together = [estimator(task, **own) for own in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accord.estimators.fitting._Party.fit_alone", _refuse)  # it is one stack indeed
        fit_together(together, sources[task])
    for one, own in zip(together, values, strict=True):
        alone = estimator(task, **own).fit(**sources[task])
        assert torch.allclose(weights(one), weights(alone), rtol=1e-2, atol=1e-4)
        np.testing.assert_allclose(quality(one), quality(alone), atol=1e-4)


def _refuse(*_: Any) -> None:
    raise AssertionError("these runs were not stacked")


@pytest.mark.parametrize("task", TASKS)
def test_killed_within_an_epoch_and_resumed(task: str, sources: Any, tmp_path: Path) -> None:
    path = tmp_path / "state"
    whole = estimator(task, q=0.5).fit(**sources[task])
    for steps in (2, 4):
        with pytest.raises(InterruptedRunError):
            estimator(task, q=0.5).fit(**sources[task], checkpoint=StopsAfter(path, steps))
    with pytest.raises(DataError, match="belongs to another run"):
        estimator(task, q=0.6).fit(**sources[task], checkpoint=path)
    assert_same(estimator(task, q=0.5).fit(**sources[task], checkpoint=path), whole)


@pytest.mark.parametrize("task", TASKS)
def test_a_killed_stack_is_resumed(task: str, sources: Any, tmp_path: Path) -> None:
    def made() -> list[Any]:
        return [estimator(task, q=q) for q in (0.3, 0.7, 1.0)]

    whole, path = fit_together(made(), sources[task]), tmp_path / "state"
    with pytest.raises(InterruptedRunError):
        fit_together(made(), sources[task], checkpoint=StopsAfter(path, 6))
    for one, other in zip(fit_together(made(), sources[task], checkpoint=path), whole, strict=True):
        assert_same(one, other)


# -- keeping it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_saved_and_loaded(task: str, sources: Any, tmp_path: Path) -> None:
    one = estimator(task, GCE(q=0.5), model=OWN_MODEL[task]).fit(**sources[task])
    one.save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["settings"]["method"], config["settings"]["q"]) == ("gce", 0.5)
    assert config["networks"] == {"target": OWN_MODEL[task]}
    again = ESTIMATORS[task].load(tmp_path / "run")
    assert_same(again, one)
    assert again.settings == one.settings
    assert again.find_label_issues().equals(one.find_label_issues())


@pytest.mark.parametrize("task", TASKS)
def test_where_it_is_not_registered_a_run_says_what_to_do(task: str, sources: Any, tmp_path: Path) -> None:
    estimator(task).fit(**sources[task]).save(tmp_path / "by-method")
    estimator(task, "normal", model=OWN_MODEL[task]).fit(**sources[task]).save(tmp_path / "by-model")
    for name, kind, registry in (("gce", "method", METHODS), (OWN_MODEL[task], "model", MODELS)):
        registry.unregister(name)
        said = f"by-{kind}' was trained with the {kind} '{name}', which is not known here: import the module"
        with pytest.raises(DataError, match=said):
            ESTIMATORS[task].load(tmp_path / f"by-{kind}")


def test_a_peer_of_another_architecture_for_clicks(sources: Any, tmp_path: Path) -> None:
    _assert_peers(Recommender(method=Peers, **QUICK["clicks"]), sources["clicks"], "gmf", "neumf", tmp_path)


@pytest.mark.parametrize("peer", ["convnet", "shallow"])
def test_a_peer_of_another_architecture_for_labels(peer: str, pictures: Any, tmp_path: Path) -> None:
    _assert_peers(estimator("labels", Peers(peer=peer)), pictures, "mlp", peer, tmp_path)


def _assert_peers(one: Any, source: Any, target: str, peer: str, tmp_path: Path) -> None:
    one.fit(**source).save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["networks"] == {"target": target, "peer": peer}
    again = type(one).load(tmp_path / "run")
    assert_same(again, one)
    assert type(again.networks_["peer"]) is MODELS.find(peer)


@pytest.mark.parametrize("task", TASKS)
def test_a_peer_may_be_given_as_its_class_if_that_has_a_name(task: str, sources: Any, tmp_path: Path) -> None:
    class Given(Peers):
        name = "given-peers"

        def phases(self, build: Build) -> list[Phase]:
            return super().phases(lambda role, architecture=None: build(role, architecture and model))

    model = MODELS.find(OWN_MODEL[task])
    try:
        one = estimator(task, Given).fit(**sources[task])
        one.save(tmp_path / "run")
        assert_same(ESTIMATORS[task].load(tmp_path / "run"), one)
        MODELS.unregister(OWN_MODEL[task])
        with pytest.raises(SettingError, match="'peer' is of a model without a name"):
            estimator(task, Given).fit(**sources[task])
    finally:
        METHODS.unregister("given-peers")


@pytest.mark.parametrize("task", TASKS)
def test_runs_with_peers_are_a_stack_of_two_architectures(task: str, sources: Any) -> None:
    peer = {"clicks": "neumf", "labels": "shallow"}[task]
    pair = [estimator(task, Peers(peer=peer), seed=seed) for seed in (0, 1)]
    fit_together(pair, sources[task])
    for seed, one in enumerate(pair):
        alone = estimator(task, Peers(peer=peer), seed=seed).fit(**sources[task])
        assert torch.allclose(weights(one), weights(alone), rtol=1e-2, atol=1e-4)


# -- on the command line ---------------------------------------------------------------------------------


@pytest.fixture
def accord(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["accord", *map(str, words)])
        try:
            main.run()
        except SystemExit as stop:
            if stop.code:
                pytest.fail(capfd.readouterr().err)
        return "".join(capfd.readouterr())

    return run


@pytest.fixture
def typed(sources: Any, tmp_path: Path) -> dict[str, list[object]]:
    """Data as they are typed, and what keeps training short."""
    csv.write_csv(sources["clicks"]["log"], tmp_path / "clicks.csv")
    given = sources["labels"]
    rows = [",".join(map(str, [*x, y])) for x, y in zip(given["X"].round(3), given["y"], strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,d,e,kind", *rows]))
    return {
        "clicks": [tmp_path / "clicks.csv", "--epochs", 2, "--set", "dims=4", "--set", "batch_size=512"],
        "labels": [tmp_path / "table.csv", "--label", "kind", "--epochs", 2, "--set", "batch_size=32"],
    }


@pytest.mark.parametrize("task", TASKS)
def test_fit_audit_and_report(task: str, accord: Any, typed: Any, tmp_path: Path) -> None:
    words = ["--method", "gce", "--set", "q=0.5", "--model", OWN_MODEL[task]]
    accord("fit", *typed[task], *words, "--out", tmp_path / "run")
    accord("audit", tmp_path / "run", "--top", 3, "--out", tmp_path / "issues.csv")
    assert csv.read_csv(tmp_path / "issues.csv").num_rows > 100
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "gce" in page
    assert '<code>q</code></td><td class="id">0.5</td>' in page


@pytest.mark.parametrize("task", TASKS)
def test_compare(task: str, accord: Any, typed: Any, tmp_path: Path) -> None:
    words = ["compare", *typed[task], "--methods", "normal,gce", "--seeds", 2, "--set", "gce.q=0.5", "--out"]
    accord(*words, tmp_path / "cmp")
    assert "gce" in (tmp_path / "cmp" / "compare.csv").read_text()
    assert "gce" in (tmp_path / "cmp" / "report.html").read_text(encoding="utf-8")
    cells = [json.loads(path.read_text()) for path in (tmp_path / "cmp" / "cells").glob("*gce*.json")]
    assert [cell["settings"]["q"] for cell in cells] == [0.5, 0.5]


@pytest.mark.parametrize("task", TASKS)
def test_tune_searches_its_setting(task: str, accord: Any, typed: Any, tmp_path: Path) -> None:
    accord("tune", *typed[task], "--method", "gce", "--trials", 4, "--out", tmp_path / "search")
    found = json.loads((tmp_path / "search" / "tune.json").read_text())
    assert found["space"]["q"] == [0.3, 0.7, 1.0]
    assert found["best"]["q"] in (0.3, 0.7, 1.0)
    assert len({row["settings"]["q"] for row in found["rows"]}) > 1


# -- installed -------------------------------------------------------------------------------------------

HEAD = """from __future__ import annotations
import numpy as np, torch
from pydantic import Field
from torch import nn
from accord.methods import Batch, Build, Method, MethodSettings, Phase, StepInfo
from accord.models.classifiers import Backbone
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that brings the method and the models by entry points, and one that is broken."""
    site = tmp_path / "site"
    info = site / "toys-1.0.dist-info"
    info.mkdir(parents=True)
    code = [inspect.getsource(one) for one in (GCESettings, GCE, Tower, Shallow)]
    (site / "toys.py").write_text("\n\n".join([HEAD, *code]))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[accord.methods]\ngce = toys:GCE\nbroken = toys:nothing\nother = toys:GCE\n"
        "[accord.models]\ntower = toys:Tower\nshallow = toys:Shallow\n"
    )
    return site


def process(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Python, with these folders in its path, where nothing is registered."""
    source = Path(main.__file__).parents[2]
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, source])), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, text=True, timeout=120)


COMMANDS = """
import sys
from accord.cli import main
for words in {words!r}:
    sys.argv = ["accord", *words]
    try:
        main.main()
    except SystemExit as stop:
        if stop.code: raise
"""


def commands(*lines: list[object]) -> str:
    return COMMANDS.format(words=[[str(word) for word in line] for line in lines])


def test_an_installed_package_brings_it(installed: Path, typed: Any, tmp_path: Path) -> None:
    runs = {task: tmp_path / task for task in TASKS}
    asked = [
        ["fit", *typed[task], "--method", "gce", "--set", "q=0.5", "--model", OWN_MODEL[task], "--out", runs[task]]
        for task in TASKS
    ]
    done = process(commands(*asked), installed)
    assert done.returncode == 0, done.stderr
    for run in runs.values():
        assert json.loads((run / "config.json").read_text())["settings"]["q"] == 0.5
    audit = ["audit", runs["clicks"], "--top", 1]
    done = process(commands(audit), installed)  # another process, in which nothing asks for the method by name
    assert done.returncode == 0, done.stderr
    bare = process(commands(audit))
    assert bare.returncode == 2
    assert bare.stderr.count("\n") == 1
    assert "was trained with the method 'gce', which is not known here" in bare.stderr
    assert "install its package" in bare.stderr


def test_a_broken_package_spoils_nothing_but_itself(installed: Path) -> None:
    done = process(
        "from accord import Classifier, Recommender\n"
        "assert Recommender(method='gce').settings.q == 0.7\n"
        "assert Classifier(method='gce', q=0.5).settings.q == 0.5\n"
        "assert Classifier(model='shallow').settings.model == 'shallow'\n"
        "for name in ('broken', 'other', 'unheard-of'):\n"
        "    try: Recommender(method=name)\n"
        "    except Exception as error: print(error)\n",
        installed,
    )
    assert done.returncode == 0, done.stderr
    broken, other, unknown = done.stdout.splitlines()
    assert broken.startswith("The installed method 'broken' (toys:nothing) cannot be used: ")
    assert other.endswith("it calls itself 'gce'.")
    assert unknown.startswith("Unknown method 'unheard-of': ")


# -- registering -----------------------------------------------------------------------------------------


def test_names_and_settings_do_not_clash() -> None:
    class Other(Method):
        name = "gce"

    with pytest.raises(SettingError, match="'gce' is registered already"):
        register_method(Other)

    class Clash(MethodSettings):
        alpha: float = 3.0

    class Seeded(MethodSettings):
        seed: int = 3

    for settings, words in ((Clash, "different settings 'alpha'"), (Seeded, "setting 'seed', which every method")):
        method = type("Another", (Method,), {"name": "another", "settings": settings})
        with pytest.raises(SettingError, match=words):
            register_method(method)
        assert "another" not in METHODS
        assert Recommender(method="gce").settings.q == 0.7
    with pytest.raises(SettingError, match="it needs a name and tasks"):
        register_method(Method)
    with pytest.raises(SettingError, match="a method is a subclass"):
        register_method(Tower)  # pyright: ignore[reportArgumentType]


def test_a_definition_that_runs_again_takes_the_place_of_the_first() -> None:
    """As the cell of a notebook does."""
    scope: dict[str, Any] = {"__name__": "notebook"}
    for _ in range(2):
        exec(HEAD + inspect.getsource(GCESettings) + inspect.getsource(GCE).replace('"gce"', '"again"'), scope)
        METHODS.unregister("gce")  # whose setting has the same name
        register_method(scope["GCE"])
        assert METHODS.find("again") is scope["GCE"]
    assert Recommender(method=scope["GCE"](q=0.4)).settings.q == 0.4
    METHODS.unregister("again")


class Bare(nn.Sequential):
    """A network that knows nothing of accord: its features are what layer 1 gives."""

    task = "labels"

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(nn.Linear(shape[0], 8), nn.ReLU(), nn.Linear(8, classes))


def test_a_registered_network_without_features_has_the_input_of_its_last_layer(
    sources: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    register_model("bare", Bare)
    try:
        plain = Classifier(model="bare", epochs=2, seed=1).fit(**sources["labels"])
        clf = Classifier(model="bare", features="1", epochs=2, seed=1).fit(**sources["labels"])
        assert np.array_equal(plain.label_quality_, clf.label_quality_)
        clf.save(tmp_path / "run")
        X = sources["labels"]["X"]
        assert np.array_equal(
            Classifier.load(tmp_path / "run", features="1").predict_proba(X), clf.predict_proba(X)
        )
    finally:
        MODELS.unregister("bare")
