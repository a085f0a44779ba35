"""Who gets an answer, and what a step is worth: hostile requests, restarts, kills, a hundred thousand labels."""

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
from tests.review.serving import HOSTILE, TOKEN, Client, ended, made_items, served, started

from accord import Classifier
from accord.decisions.design import Design
from accord.decisions.journal import Journal
from accord.errors import DataError
from accord.review.guard import LARGEST_BODY, POLICY, Guard
from accord.review.server import PAGES
from accord.review.session import Session
from accord.review.shown import Shown

GETS = [
    "/",
    "/api/start",
    "/api/progress",
    "/api/item/3",
    "/api/picture/small/3",
    *(f"/page/{name}" for name in PAGES),
]
POSTS: dict[str, Any] = {
    "/api/rows": {},
    "/api/next": {},
    "/api/selection": {"items": [1]},
    "/api/decide": {"step": "step-0000", "server": "x" * 16, "after": 0, "items": [1], "action": "keep"},
    "/api/undo": {"step": "step-0001", "server": "x" * 16, "after": 0},
}


# -- who gets an answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cookie", [None, "", "accord-review=x", "{name}=", "{name}=tttt", "other={token}", "{name}=é"]
)
def test_without_the_token_nothing_is_told_or_done(client: Client, cookie: str | None) -> None:
    name = f"accord-review-{client.port}"
    sent = None if cookie is None else cookie.format(name=name, token=TOKEN)
    for path in GETS:
        answer = client.get(path, cookie=sent)
        assert answer.status == 401, path
        assert b"Open the address" in answer.body
    for path, body in POSTS.items():
        assert client.post(path, body, cookie=sent).status == 401, path
    assert client.get("/api/start").json["decided"] == 0


def test_the_token_of_the_address_becomes_a_cookie_of_this_port(client: Client) -> None:
    answer = client.get(f"/?token={TOKEN}", cookie=None)
    assert answer.status == 303
    assert answer.headers["location"] == "/"  # the address that stays does not hold it
    cookie = answer.headers["set-cookie"]
    assert cookie == f"accord-review-{client.port}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert client.get("/", cookie=cookie.partition(";")[0]).status == 200
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "t", "%ff", "é"):
        assert client.get(f"/?token={wrong.encode().hex() if wrong == 'é' else wrong}", cookie=None).status == 401
    assert client.get(f"/api/start?token={TOKEN}", cookie=None).status == 401


def test_the_token_that_a_browser_is_started_with_opens_the_page_once(at_work: tuple[Client, Session]) -> None:
    """Its process shows its arguments to everybody on the machine."""
    guard = Guard(None, TOKEN, 1, once="o" * 43)  # pyright: ignore
    assert not guard._is_first("x")
    assert not guard._is_first("")
    assert guard._is_first("o" * 43)
    assert not guard._is_first("o" * 43)
    assert not Guard(None, TOKEN, 1)._is_first("")  # pyright: ignore


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:{port}",
        "127.0.0.2:{port}",
        "localhost.",
        "[::2]",
        "",
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(client: Client, host: str) -> None:
    own = host.format(port=client.port)
    assert client.get("/api/start", host=own).status in (400, 421)
    assert client.post("/api/rows", {}, host=own, origin=f"http://{own}").status in (400, 421)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "localhost:9000", "[::1]:{port}"])
def test_a_tunnel_may_have_another_port(client: Client, host: str) -> None:
    own = host.format(port=client.port)
    assert client.post("/api/rows", {}, host=own, origin=f"http://{own}").status == 200


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://localhost:{port}",
    ],
)
def test_a_step_of_another_page_is_refused(client: Client, origin: str | None) -> None:
    sent = None if origin is None else origin.format(port=client.port)
    for path, body in POSTS.items():
        assert client.post(path, body, origin=sent).status == 403, path
    assert client.get("/api/start").json["decided"] == 0


def test_another_page_cannot_even_load_a_picture(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        assert client.get("/api/picture/small/3", sec_fetch_site=site).status == 403
        assert client.post("/api/rows", {}, sec_fetch_site=site).status == 403
        assert client.get("/", sec_fetch_site=site).status == 200  # a link in a mail
    assert client.get("/api/start", sec_fetch_site="same-origin").status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused_and_no_other_origin_is_allowed(client: Client, method: str) -> None:
    answer = client.ask(method, "/api/start", origin="http://evil.example")
    assert answer.status == 405
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_every_answer_keeps_the_page_to_itself(client: Client) -> None:
    answers = [client.get(path) for path in GETS]
    answers += [client.get("/", cookie=None), client.get("/", host="evil.example"), client.get("/nothing")]
    answers += [client.post("/api/rows", {}), client.post("/api/rows", {"x": 1}), client.get(f"/?token={TOKEN}")]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")


# -- what is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/page/../guard.py", "/page/..%2fguard.py", "/page/%2e%2e/guard.py", "/page//etc/passwd",
        "/page/index.html/", "/page/style.css%00", "/api/item/-1", "/api/item/1.5",
        "/api/item/..", "/api/picture/small/../../x",
        "/api/picture/small/%2e%2e%2f3", "/api/picture/small/3/x", "/../../etc/passwd", "/decisions/ana.jsonl",
    ],
)  # fmt: skip
def test_no_path_of_a_request_leads_to_a_file(client: Client, path: str) -> None:
    assert client.get(path).status == 404, path


@pytest.mark.parametrize("at", ["60", "99999999999", "9" * 40])
def test_labels_that_are_not_there(client: Client, at: str) -> None:
    answer = client.get(f"/api/item/{at}")
    assert answer.status == 400
    assert answer.json["error"] == "There is no such label in this run."
    assert client.get(f"/api/picture/large/{at}").status == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/rows", b"", 422),
        ("/api/rows", b"{", 422),
        ("/api/rows", b"\xff", 422),
        ("/api/rows", b"[" * 50_000, 422),
        ("/api/rows", [], 422),
        ("/api/rows", {"path": "/etc"}, 422),
        ("/api/rows", {"limit": 10**6}, 422),
        ("/api/rows", {"offset": -1}, 422),
        ("/api/rows", {"query": {"given": "0"}}, 422),
        ("/api/rows", {"query": {"sort": "nothing"}}, 400),
        ("/api/selection", {}, 400),
        ("/api/selection", {"items": [1], "query": {}}, 400),
        ("/api/selection", {"items": [-1]}, 422),
        ("/api/selection", {"items": [60]}, 400),
        ("/api/selection", {"items": ["1"]}, 422),
        ("/api/next", {"mode": "all"}, 422),
    ],
)
def test_a_body_that_makes_no_sense_is_one_sentence(client: Client, path: str, body: Any, status: int) -> None:
    answer = client.post(path, body)
    assert answer.status == status
    assert "\n" not in answer.json["error"].strip()


@pytest.mark.parametrize(
    "changed",
    [{"items": []}, {"items": [60]}, {"items": [-1]}, {"action": "delete"}, {"action": "fix"}, {"label": 1},
     {"action": "fix", "label": 5}, {"action": "fix", "label": True}, {"step": "x"}, {"step": "../../x/../y"},
     {"after": -1}, {"why": "because"}, {"server": ""}],
)  # fmt: skip
def test_a_decision_that_makes_no_sense_is_not_written(client: Client, changed: dict[str, Any]) -> None:
    assert client.post("/api/decide", POSTS["/api/decide"] | changed).status in (400, 422)
    assert client.get("/api/start").json["decided"] == 0


def test_a_body_is_json_and_small(client: Client) -> None:
    large = b" " * (LARGEST_BODY + 1)
    assert client.post("/api/rows", b"{}", content_type="text/plain").status == 415
    assert client.post("/api/rows", b"{}", content_type="application/x-www-form-urlencoded").status == 415
    assert client.post("/api/rows", large).status == 413
    assert client.post("/api/rows", b"", content_length=str(10**12)).status == 413
    assert client.post("/api/rows", b"{}", content_length="-1").status in (400, 413)
    chunks = b"".join(b"10000\r\n" + b" " * 0x10000 + b"\r\n" for _ in range(17)) + b"0\r\n\r\n"
    assert client.post("/api/rows", chunks, transfer_encoding="chunked").status == 413
    assert client.post("/api/rows", b"{}").status == 200


def test_names_of_data_go_out_as_text_alone(client: Client) -> None:
    answer = client.get("/api/start")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["classes"][:3] == HOSTILE[:3]
    assert answer.json["classes"][3] == "a\\u202eb\\x1b[31m"  # letters that would be obeyed are named
    for name in PAGES:
        assert b"alert(" not in client.get(f"/page/{name}").body
    scripts = [client.get(f"/page/{name}").body.decode() for name in PAGES if name.endswith(".js")]
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert not any(word in script for script in scripts), word
    page = client.get("/").body.decode()
    assert not re.search(r"\son\w+=|<style|style=|<script(?![^>]* src=)|https?:", page)


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
    body = POSTS["/api/decide"] | {"server": session.server}
    assert client.post("/api/decide", body).json == client.post("/api/decide", body).json
    assert len(session.journal.done) == 1
    undo = POSTS["/api/undo"] | {"server": session.server, "after": 1}
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

    body = POSTS["/api/decide"] | {"server": session.server}
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
    with Journal.opened(tmp_path, "ben", design.identity, items.size) as journal:
        first = [int(at) for at in design.part("flagged").drawn[:5]]
        journal.decide(first, "keep")
        theirs = {"ben": journal.steps}
    with Journal.opened(tmp_path, "ana", design.identity, items.size) as journal:
        session = Session(items, Shown(), journal, design, lambda: theirs)
        from accord.review.asked import AskedDecision, AskedNext

        coming = {row["at"] for row in session.next(AskedNext(limit=30))["rows"]}
        assert not coming & set(first)
        own = {"step": "step-0009", "server": session.server, "after": 0, "action": "drop"}
        session.decide(AskedDecision(items=first[:2], **own))
        assert session.progress()["others"] == [{"name": "ben", "decided": 5, "both": 2, "differ": 2}]
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
    process, client = started(run_folder, "--reviewer", "ana")
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
    with pytest.raises(DataError, match="'ana' is at work"), Journal.opened(run_folder, "ana", start["identity"]):
        pass
    assert client.get("/api/progress").json["counted"]["keep"] == 1000
    status = Path(f"/proc/{process.pid}/status")
    megabytes = int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]) / 1024 if status.is_file() else 0
    ended(process, signal.SIGKILL)
    connection.close()
    print(f"{megabytes:.0f} MB at most")
    assert megabytes < 500
    assert done == 1000
    again, client = started(run_folder, "--reviewer", "ana")
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
