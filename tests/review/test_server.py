"""Who gets an answer, and to what: other pages, other names, paths, bodies."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.review.serving import HOSTILE, TOKEN, Client

from accord.review.guard import LARGEST_BODY, POLICY, Guard
from accord.review.server import PAGES
from accord.review.session import Session

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
        "/api/picture/small/%2e%2e%2f3", "/api/picture/small/3/x", "/../../etc/passwd", "/decisions/r1.jsonl",
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
