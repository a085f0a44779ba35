"""Tutorials: each runs, shortened, and its claims hold; what is stored of each is of the code that stands there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from accord.methods import METHODS

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

NAMES = (
    *("clicks", "table", "images", "predictions", "pytorch-model"),
    *("review", "compare", "many-machines", "own-method"),
)
OF_THIS_MACHINE = re.compile(r"/(?:tmp|home|root|work|usr|Users|opt)/|\d\d:\d\d:\d\d|Warning|Traceback")
LARGEST = 150_000

every_notebook = pytest.mark.parametrize("path", notebooks.notebooks(), ids=lambda path: path.stem)


def test_there_are_nine() -> None:
    assert {path.stem for path in notebooks.notebooks()} == set(NAMES)


@every_notebook
def test_a_tutorial_runs_and_its_claims_hold(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = set(METHODS)
    try:
        notebook = notebooks.run(path, short=True)
    finally:
        for name in set(METHODS) - known:
            METHODS.unregister(name)
    assert notebook["metadata"]["accord"]["claims"]
    outputs = [one for cell in notebooks.code_cells(notebook) for one in cell["outputs"]]
    assert {form for one in outputs for form in one.get("data", ())} & {"image/svg+xml", "image/png"}, (
        "a tutorial shows a picture"
    )


@every_notebook
def test_what_is_stored_is_small_and_of_this_code(path: Path) -> None:
    notebook = notebooks.read(path)
    assert path.stat().st_size < LARGEST
    assert notebook["metadata"]["accord"]["run"] == notebooks.hash_of(notebook), (
        f"run `python tests/docs/notebooks.py run {path.stem}`: the outputs are of other code"
    )
    assert path.read_text(encoding="utf-8") == notebooks.written(notebook)
    cells = notebooks.code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in cells:
        texts = [one.get("text", "") for one in cell["outputs"]]
        forms = [pair for one in cell["outputs"] for pair in one.get("data", {}).items()]
        texts += [text for form, text in forms if form != "image/png"]
        said = OF_THIS_MACHINE.search("\n".join("".join(text) for text in texts))
        assert said is None, f"{path.stem} shows {said}"


@every_notebook
def test_a_tutorial_begins_with_what_it_gives_and_ends_with_where_next(path: Path) -> None:
    notebook = notebooks.read(path)
    first, last = (notebooks.source_of(notebook["cells"][at]) for at in (0, -1))
    _, opening = first.split("\n\n")[:2]
    assert first.startswith("# ")
    assert opening.startswith("At the end ")
    assert re.search(r"It takes about .*(second|minute)", opening)
    assert re.findall("^## .*", last, re.MULTILINE)[-1] == "## Where next"


@every_notebook
def test_links_of_a_tutorial_lead_somewhere(path: Path) -> None:
    texts = [notebooks.source_of(cell) for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "markdown"]
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", "\n".join(texts))
    assert len(links) >= 3
    for target in links:
        assert "://" in target or (path.parent / target).exists(), target


# -- what runs them --------------------------------------------------------------------------------------


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a notebook of cells of code and runs it."""
    monkeypatch.chdir(tmp_path)

    def made(*code: str, short: dict | None = None, claims: tuple[str, ...] = ("True",), shorten: bool = False):
        cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [one]} for one in code]
        own = {"short": short or {}, "claims": list(claims)}
        (tmp_path / "one.ipynb").write_text(json.dumps({"cells": cells, "metadata": {"accord": own}}))
        return notebooks.run(tmp_path / "one.ipynb", shorten)

    return made


def shown(notebook: dict, cell: int) -> list[dict]:
    return notebook["cells"][cell]["outputs"]


def test_a_cell_shows_its_last_value_and_what_it_prints(notebook) -> None:
    made = notebook("x = 2\nprint('a')\nx + 1", "x;", "display(x)\nprint('b')\nNone")
    assert [one["output_type"] for one in shown(made, 0)] == ["stream", "execute_result"]
    assert shown(made, 0)[0]["text"] == ["a\n"]
    assert shown(made, 0)[1]["data"] == {"text/plain": ["3"]}
    assert shown(made, 1) == []
    assert [one.get("text") or one["data"]["text/plain"] for one in shown(made, 2)] == [["2"], ["b\n"]]


def test_lines_of_the_shell_and_files(notebook) -> None:
    made = notebook("N = 3", "%%writefile own.py\nvalue = 5", "!echo {N} \\\n  more", "import own\nown.value")
    assert "own" not in sys.modules
    assert shown(made, 2)[0]["text"] == ["3 more\n"]
    assert shown(made, 3)[0]["data"] == {"text/plain": ["5"]}
    with pytest.raises(RuntimeError, match="'exit 3' ended with 3"):
        notebook("!exit 3")


def test_constants_are_shortened_and_claims_are_tested(notebook) -> None:
    for shorten, value in ((True, "2"), (False, "50000")):
        made = notebook("N = 50_000  # many\nN", short={"N": 2}, shorten=shorten)
        assert shown(made, 0)[0]["data"]["text/plain"] == [value]
    with pytest.raises(ValueError, match="no value to M"):
        notebook("N = 1", short={"M": 2}, shorten=True)
    with pytest.raises(AssertionError, match="claims that N > 1"):
        notebook("N = 1", claims=("N > 1",))


def test_a_cell_that_warns_is_an_error(notebook) -> None:
    with pytest.raises(RuntimeError, match="cell 1 complained"):
        notebook("import sys\nprint('careful', file=sys.stderr)")
