"""What a step is worth: decisions, undo, restarts, kills, and a hundred thousand labels."""

from __future__ import annotations

import http.client
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.review.serving import Client, ended, made_items, served, started

from accord import Classifier
from accord.decisions.design import Design
from accord.decisions.journal import Journal
from accord.errors import DataError
from accord.review.session import Session
from accord.review.shown import Shown

STEP: dict[str, Any] = {"step": "step-0000", "server": "x" * 16, "after": 0}
DECISION = STEP | {"items": [1], "action": "keep"}


# -- deciding ----------------------------------------------------------------------------------------------


def test_a_decision_is_on_the_disk_when_it_is_answered(at_work: tuple[Client, Session]) -> None:
    client, session = at_work
    answer = client.step("/api/decide", items=[7], action="fix", label=2, why="worst").json
    assert answer["items"] == [[7, {"action": "fix", "label": 2}]]
    lines = session.journal.path.read_text().splitlines()
    assert json.loads(lines[-1])["items"] == [7]
    assert json.loads(lines[-1])["why"] == "worst"
    rows = client.post("/api/rows", {"query": {"decided": True}}).json
    assert [(row["at"], row["mine"]) for row in rows["rows"]] == [(7, {"action": "fix", "label": 2})]
    assert client.post("/api/rows", {"query": {"decided": False}}).json["total"] == 59
    taken = client.step("/api/undo").json
    assert taken["items"] == [[7, None]]
    assert client.post("/api/rows", {"query": {"decided": True}}).json["total"] == 0


def test_the_same_step_is_done_once(at_work: tuple[Client, Session]) -> None:
    client, session = at_work
    body = DECISION | {"server": session.server}
    assert client.post("/api/decide", body).json == client.post("/api/decide", body).json
    assert len(session.journal.done) == 1
    undo = (STEP | {"step": "step-0001"}) | {"server": session.server, "after": 1}
    client.step("/api/decide", items=[2], action="drop")
    for _ in range(3):
        assert client.post("/api/undo", undo).json["items"] == [[2, None]]
    assert len(session.journal.done) == 1


def test_a_whole_selection_has_a_sample_first_and_one_undo(client: Client) -> None:
    found = client.post("/api/selection", {"query": {"flagged": True}}).json
    rows = client.post("/api/rows", {"query": {"flagged": True}, "limit": 200}).json
    assert sorted(found["items"]) == sorted(row["at"] for row in rows["rows"])
    assert found["count"] == len(found["items"]) > 12 == len(found["sample"])
    assert {row["at"] for row in found["sample"]} <= set(found["items"])
    assert (
        client.step("/api/decide", items=found["items"], action="drop", why="bulk").json["decided"]
        == found["count"]
    )
    assert len(client.step("/api/undo").json["items"]) == found["count"]
    assert client.get("/api/start").json["decided"] == 0


def test_only_what_was_asked_again_counts_as_such(at_work: tuple[Client, Session]) -> None:
    """Else two equal answers of a page would pass for a person who never errs."""
    client, session = at_work
    client.step("/api/decide", items=[4], action="keep", why="again")
    assert session.journal.steps[-1].why == "chosen"
    seen = set()
    for _ in range(40):
        for row in client.post("/api/next", {"limit": 4}).json["rows"]:
            seen.add(row["why"])
            if row["why"] == "again":
                assert row["mine"] is None  # the first answer is not told
            client.step("/api/decide", items=[row["at"]], action="keep", why=row["why"])
    assert "again" in seen
    assert any(one.why == "again" for one in session.journal.steps)


def test_random_checks_are_flagged_and_open(client: Client) -> None:
    rows = client.post("/api/next", {"mode": "checks", "limit": 10}).json["rows"]
    assert rows
    assert all(row["flagged"] and row["why"] == "check" for row in rows)
    client.step("/api/decide", items=[rows[0]["at"]], action="keep", why="check")
    again = client.post("/api/next", {"mode": "checks", "limit": 10}).json["rows"]
    assert [row["at"] for row in again[:9]] == [row["at"] for row in rows[1:]]


def test_clicks_are_not_fixed(tmp_path: Path) -> None:
    with served(made_items(what="clicks"), tmp_path) as (client, session):
        at = int(np.flatnonzero(session.items.own)[0])
        other = int(np.flatnonzero(~session.items.own)[0])
        assert client.step("/api/decide", items=[at], action="fix", label=0).status == 400
        assert client.step("/api/decide", items=[other], action="drop").status == 400  # not a click of the log
        assert client.step("/api/decide", items=[at], action="drop").status == 200


def test_a_full_disk_is_told_and_nothing_is_acknowledged(
    at_work: tuple[Client, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, session = at_work

    def full(line: str) -> None:
        raise DataError("No space left on device; nothing was kept.")

    body = DECISION | {"server": session.server}
    with monkeypatch.context() as patch:
        patch.setattr(session.journal, "_append", full)
        answer = client.post("/api/decide", body)
        assert answer.status == 507
        assert "No space left" in answer.json["error"]
    assert client.get("/api/start").json["decided"] == 0
    assert client.post("/api/decide", body).json["decided"] == 1


def test_progress_says_what_would_be_decided_until_slips_are_known(client: Client) -> None:
    flagged = client.post("/api/next", {"mode": "checks", "limit": 20}).json["rows"]
    assert client.get("/api/progress").json["estimate"]["precision"] is None
    for row in flagged:
        client.step("/api/decide", items=[row["at"]], action="drop", why="check")
    told = client.get("/api/progress").json
    assert told["counted"] == {"keep": 0, "fix": 0, "drop": 20, "unsure": 0}
    estimate = told["estimate"]
    assert estimate["words"] == "what you would decide"
    assert estimate["precision"]["low"] <= estimate["precision"]["value"] <= estimate["precision"]["high"] <= 1


def test_other_reviewers_are_counted_and_what_they_decided_does_not_come_up(tmp_path: Path) -> None:
    items = made_items()
    design = Design.of(items.quality, items.flagged, items.given, items.own)
    with Journal.opened(tmp_path, "r2", design.identity, items.size) as journal:
        first = [int(at) for at in design.part("flagged").drawn[:5]]
        journal.decide(first, "keep")
        theirs = {"r2": journal.steps}
    with Journal.opened(tmp_path, "r1", design.identity, items.size) as journal:
        session = Session(items, Shown(), journal, design, lambda: theirs)
        from accord.review.asked import AskedDecision, AskedNext

        coming = {row["at"] for row in session.next(AskedNext(limit=30))["rows"]}
        assert not coming & set(first)
        own = {"step": "step-0009", "server": session.server, "after": 0, "action": "drop"}
        session.decide(AskedDecision(items=first[:2], **own))
        assert session.progress()["others"] == [{"name": "r2", "decided": 5, "both": 2, "differ": 2}]
        assert session.row(first[0])["mine"] == {"action": "drop", "label": None}


# -- when the server is killed ---------------------------------------------------------------------------


@pytest.mark.parametrize("was_written", [True, False])
def test_a_step_that_was_asked_of_a_dead_server_is_done_once(tmp_path: Path, was_written: bool) -> None:
    items = made_items()
    with served(items, tmp_path) as (client, session):
        client.step("/api/decide", items=[1], action="keep")
        lost = {"step": "lost-step", "server": session.server, "after": 1, "items": [2], "action": "drop"}
        if was_written:
            client.post("/api/decide", lost)
    with served(items, tmp_path) as (client, session):
        for _ in range(2):
            assert client.post("/api/decide", lost).json["decided"] == 2
        assert [step.items for step in session.journal.done] == [(1,), (2,)]
        assert client.step("/api/decide", items=[2], action="drop").json["after"] == 3  # a second time, on purpose


@pytest.mark.parametrize("was_written", [True, False])
def test_an_undo_that_was_asked_of_a_dead_server_is_done_once(tmp_path: Path, was_written: bool) -> None:
    items = made_items()
    with served(items, tmp_path) as (client, session):
        for at in (1, 2):
            client.step("/api/decide", items=[at], action="keep")
        lost = {"step": "lost-step", "server": session.server, "after": 2}
        if was_written:
            client.post("/api/undo", lost)
    with served(items, tmp_path) as (client, session):
        client.post("/api/undo", lost)
        assert list(session.journal.standing) == [1]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    X = rng.normal(size=(1500, 4)) + 3 * np.eye(4)[y]
    given = np.where(rng.random(1500) < 0.3, rng.integers(0, 3, 1500), y)
    place = tmp_path_factory.mktemp("runs") / "run"
    Classifier(model="mlp", method="normal", epochs=2, seed=0).fit(X, given).save(place)
    return place


def test_a_thousand_decisions_are_there_after_a_kill(run_folder: Path) -> None:
    process, client = started(run_folder, "--reviewer", "r1")
    start = client.get("/api/start").json
    done = 0
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    own = f"127.0.0.1:{client.port}"
    headers = {"cookie": f"accord-review-{client.port}={client.token}", "origin": f"http://{own}"}
    headers |= {"host": own, "content-type": "application/json"}
    for k in range(1000):
        body = {"step": f"step-{k:05}", "server": start["server"], "after": k, "items": [k], "action": "keep"}
        connection.request("POST", "/api/decide", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status == 200
        done = json.loads(answer.read())["decided"]
    with pytest.raises(DataError, match="'r1' is at work"), Journal.opened(run_folder, "r1", start["identity"]):
        pass
    assert client.get("/api/progress").json["counted"]["keep"] == 1000
    status = Path(f"/proc/{process.pid}/status")
    megabytes = int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]) / 1024 if status.is_file() else 0
    ended(process, signal.SIGKILL)
    connection.close()
    print(f"{megabytes:.0f} MB at most")
    assert megabytes < 500
    assert done == 1000
    again, client = started(run_folder, "--reviewer", "r1")
    try:
        assert client.get("/api/start").json["decided"] == 1000
        assert client.post("/api/rows", {"query": {"action": "keep"}}).json["total"] == 1000
        idle = http.client.HTTPConnection("127.0.0.1", client.port)  # a browser keeps its connections
        idle.connect()
    finally:
        code, said = ended(again, signal.SIGINT)
    idle.close()
    assert code == 0  # to end it is what was asked for
    assert "1,000 labels decided" in said
    assert "accord apply" in said
    assert "accord fit DATA --decisions" in said


# -- how fast ----------------------------------------------------------------------------------------------


def test_an_answer_does_not_wait_for_a_receipt(client: Client) -> None:
    """A head and a body that are sent one after the other would wait 40 ms for each other."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    headers = {"cookie": f"accord-review-{client.port}={client.token}", "host": f"127.0.0.1:{client.port}"}
    fastest = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        connection.request("GET", "/api/start", headers=headers)
        connection.getresponse().read()
        fastest = min(fastest, time.perf_counter() - begun)
    connection.close()
    assert fastest < 0.02


def test_a_hundred_thousand_labels_are_shown_and_filtered_at_once(tmp_path: Path) -> None:
    items = made_items(100_000, classes=[f"class {k}" for k in range(10)])
    with served(items, tmp_path) as (client, _):
        begun = time.perf_counter()
        client.get("/")
        client.get("/api/start")
        assert len(client.post("/api/rows", {"limit": 48, "first_open": True}).json["rows"]) == 48
        first = time.perf_counter() - begun
        slowest = 0.0
        for query in (
            {"given": 3}, {"flagged": False, "sort": "votes", "descending": True}, {"text": "file-77"},
            {"lowest": 0.2, "highest": 0.4, "decided": False}, {"sort": "given"},
            {"text": "class 7", "predicted": 7, "sort": "quality"},
        ):  # fmt: skip
            begun = time.perf_counter()
            assert client.post("/api/rows", {"query": query, "limit": 48}).status == 200
            slowest = max(slowest, time.perf_counter() - begun)
        begun = time.perf_counter()
        found = client.post("/api/selection", {"query": {}}).json
        assert found["count"] == 100_000
        answer = client.step("/api/decide", items=found["items"], action="unsure", why="bulk")
        assert answer.json["decided"] == 100_000
    print(f"first page {first:.3f} s, slowest filter {slowest:.3f} s")
    assert first < 0.5
    assert slowest < 0.3
