"""The API reference: every public name is there, says what it is, and is all that the pages import."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_docs import PAGES, ROOT, blocks
from tests.docs.test_site import Read

import accord

MODULES = (
    "accord",
    "accord.data",
    "accord.data.noise",
    "accord.data.simulator",
    "accord.errors",
    "accord.estimators",
    "accord.evaluation",
    "accord.methods",
    "accord.models",
    "accord.objectives",
)
"""Modules whose every name in ``__all__`` is public."""
NAMES = (
    "accord.experiments.compare.compare",
    "accord.experiments.study.Study",
    "accord.models.stack.DenseStack",
    "accord.ranks.joining.joined",
    "accord.tasks.clicks.ClickTask",
    "accord.tasks.labels.LabelTask",
)
"""Single public names of modules whose others are not."""
ELSEWHERE = {
    "accord.__version__": "accord",
    "accord.AccordError": "accord.errors",
    "accord.estimators.Classifier": "accord",
    "accord.estimators.Recommender": "accord",
}
"""Names that a module passes on, with the module under which the reference has them; and the version."""
PUBLIC = [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__] + [*NAMES]
BY_SKLEARN = {"get_metadata_routing", "get_params", "set_fit_request", "set_params", "set_score_request"}
"""What scikit-learn gives its estimators; a recommender has some of it by itself."""
BARE = {"kind", "task", "metric_words", "source_file_"}
"""Words that the classes need for themselves."""


@pytest.fixture(scope="module")
def package() -> Any:
    griffe = pytest.importorskip("griffe", reason="the reference needs accord-labels[docs]")
    return griffe.load("accord", search_paths=[Path(accord.__file__).parents[1]])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is(package: Any, name: str) -> None:
    if name == "accord.__version__":
        return
    found = package[name.removeprefix("accord.")]
    found = found.final_target if found.is_alias else found
    assert found.has_docstring, f"{name} has no docstring"
    if inspect.isclass(thing := given(name)) and name not in NAMES:
        for member, value in inspect.getmembers(thing, is_documented):
            if not member.startswith("_") and type(thing).__module__ != "pydantic":
                own = value.__module__.startswith("accord") if hasattr(value, "__module__") else True
                assert not own or inspect.getdoc(value), f"{name}.{member} has no docstring"


def is_documented(value: Any) -> bool:
    return (inspect.isroutine(value) and value.__name__ != "<lambda>") or isinstance(value, property)


def given(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    anchors = set().union(*(Read(path).anchors for path in (site / "reference").glob("*.html")))
    wanted = {name for name in PUBLIC if name not in ELSEWHERE}
    assert wanted <= anchors
    for name in ("Recommender", "Classifier"):
        members = {member for member in dir(getattr(accord, name)) if not member.startswith("_")}
        own = members - BARE - (BY_SKLEARN if name == "Classifier" else set())
        assert {f"accord.{name}.{member}" for member in own} <= anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_pages_import_public_names_alone(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accord"):
                assert {f"{node.module}.{alias.name}" for alias in node.names} <= set(PUBLIC)


def test_examples_of_docstrings_are_code_in_the_reference(site: Path) -> None:
    """Markdown takes `>>>` for a quotation where nobody fences it."""
    text = (site / "reference" / "recommender.html").read_text(encoding="utf-8")
    assert "<blockquote" not in text
    assert re.search(r'class="gp">&gt;&gt;&gt; ?</span>', text)
