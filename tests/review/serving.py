"""A review server in a thread, and a client that sends exactly what it is told."""

from __future__ import annotations

import atexit
import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accord.decisions.design import Design
from accord.decisions.journal import Journal
from accord.review.items import Items, Words
from accord.review.session import Session
from accord.review.shown import Shown, worded

TOKEN = "t" * 43
HOSTILE = ['<script>alert("1")</script>', "{{ 7 * 7 }}", "../../etc/passwd", "a\u202eb\x1b[31m", "plain"]
"""Names of classes that a page could take for something else."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Sends one request; what is not given is as the page sends it."""

    port: int
    token: str = TOKEN
    steps: int = field(default=0)

    def ask(self, method: str, path: str, body: Any = None, **changed: str | None) -> Answer:
        own = f"127.0.0.1:{self.port}"
        headers: dict[str, str | None] = {"host": own, "cookie": f"accord-review-{self.port}={self.token}"}
        if method == "POST":
            headers |= {"origin": f"http://{own}", "content-type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None and "content-length" not in headers and "transfer-encoding" not in headers:
            headers["content-length"] = str(len(data))
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        with suppress(BrokenPipeError, ConnectionResetError):  # it has answered before the body was read
            connection.endheaders(data)
        answer = connection.getresponse()
        found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def get(self, path: str, **changed: str | None) -> Answer:
        return self.ask("GET", path, **changed)

    def post(self, path: str, body: Any, **changed: str | None) -> Answer:
        return self.ask("POST", path, body, **changed)

    def step(self, path: str, **values: Any) -> Answer:
        """Something that changes the journal, as the page asks for it."""
        self.steps += 1
        start = self.get("/api/start").json
        own = {"step": f"step-{self.port}-{self.steps}", "server": start["server"], "after": start["after"]}
        return self.post(path, own | values)


def made_items(count: int = 60, *, what: str = "labels", classes: list[str] | None = None, seed: int = 0) -> Items:
    rng = np.random.default_rng(seed)
    classes = HOSTILE if classes is None else classes
    quality = rng.random(count).astype(np.float32)
    if what == "clicks":
        own = rng.random(count) < 0.9
        users = rng.integers(0, 9, count)
        words = [Words.of([f"u{k}" for k in range(9)], users)]
        return Items(what, own, quality, own & (quality < 0.3), keys={"user": users}, words=words)
    given, predicted = rng.integers(0, len(classes), (2, count)).astype(np.int32)
    words = [Words.of(classes, given), Words.of([f"file-{k}.png" for k in range(count)])]
    votes = {"votes": rng.integers(0, 6, count).astype(np.int16), "voters": np.full(count, 5, np.int16)}
    votes |= {"agreement": rng.random(count).astype(np.float32)}
    own = np.ones(count, bool)
    names = [worded(name) for name in classes]
    return Items(what, own, quality, given != predicted, given, predicted, names, votes, words=words)


@contextmanager
def served(
    items: Items, run: Path, reviewer: str = "r1", shown: Shown | None = None
) -> Iterator[tuple[Client, Session]]:
    from accord.review.server import Serving, application, listening

    design = Design.of(items.quality, items.flagged, items.given, items.own)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal.opened(run, reviewer, design.identity, items.size))
        taken = stack.enter_context(listening("127.0.0.1", 0))
        port = taken.getsockname()[1]
        session = Session(items, shown or Shown(), journal, design)
        serving = Serving(application(session, TOKEN, port))
        thread = threading.Thread(target=serving.run, args=(taken,), daemon=True)
        thread.start()
        try:
            yield Client(port), session
        finally:
            serving.stop()
            thread.join(10)


def started(run: Path, *words: str) -> tuple[subprocess.Popen[str], Client]:
    """`accord review` in a process of its own."""
    command = [sys.executable, "-m", "accord", "review", str(run), "--no-browser", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    atexit.register(process.kill)  # where a test fails
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"Open http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line):
            return process, Client(int(found[1]), found[2])
    process.stderr.close()
    raise AssertionError(said)


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    """The exit code after a signal, and what was said since the start."""
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    return process.returncode, said
