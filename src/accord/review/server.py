"""The local page: routes of the server, each answered by a session."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import nullcontext
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ValidationError

from accord.errors import AccordError, DataError
from accord.extras import needed
from accord.report.plots import variables
from accord.review.asked import AskedDecision, AskedNext, AskedRows, AskedSelection, AskedUndo
from accord.review.guard import OWN_HOSTS, Guard
from accord.review.pictures import LARGE, SMALL
from accord.review.session import Session

PAGES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "page.js": "text/javascript; charset=utf-8",
    "bulk.js": "text/javascript; charset=utf-8",
    "saving.js": "text/javascript; charset=utf-8",
    "elements.js": "text/javascript; charset=utf-8",
    "queue.js": "text/javascript; charset=utf-8",
    "detail.js": "text/javascript; charset=utf-8",
    "panel.js": "text/javascript; charset=utf-8",
}
"""All files that are given out, and their types; no name of a request is ever made a path."""
NEEDS = "The review page"


def application(session: Session, token: str, port: int, hosts: tuple[str, ...] = OWN_HOSTS, once: str = "") -> Any:
    """The server as an ASGI application; ``once`` is a token that opens the page a single time."""
    applications, routing = needed("starlette.applications", NEEDS), needed("starlette.routing", NEEDS)
    read = {name: ((files("accord.review") / "pages" / name).read_bytes(), kind) for name, kind in PAGES.items()}
    read["colours.css"] = variables().encode(), PAGES["style.css"]

    async def page(request: Any) -> Any:
        name = request.path_params.get("name", "index.html")
        return _plain(404, "There is no such page.") if name not in read else _given(*read[name])

    async def details(request: Any) -> Any:
        return await _asked(session.details, request.path_params["at"])

    async def picture(request: Any) -> Any:
        largest = SMALL if request.path_params["size"] == "small" else LARGE
        png = await _in_thread(session.picture, request.path_params["at"], largest)
        return _plain(404, "There is no such picture.") if png is None else _given(png, "image/png")

    route = routing.Route
    routes = [
        route("/", page),
        route("/page/{name}", page),
        route("/api/start", _getting(session.start)),
        route("/api/progress", _getting(session.progress)),
        route("/api/item/{at:int}", details),
        route("/api/picture/{size}/{at:int}", picture),
        route("/api/rows", _posting(AskedRows, session.rows), methods=["POST"]),
        route("/api/next", _posting(AskedNext, session.next), methods=["POST"]),
        route("/api/selection", _posting(AskedSelection, session.selection), methods=["POST"]),
        route("/api/decide", _posting(AskedDecision, session.decide), methods=["POST"]),
        route("/api/undo", _posting(AskedUndo, session.undo), methods=["POST"]),
    ]
    app = applications.Starlette(routes=routes)
    app.router.redirect_slashes = False
    return Guard(app, token, port, hosts, once)


def _getting(answer: Callable[[], dict[str, Any]]) -> Any:
    async def getting(request: Any) -> Any:
        return await _asked(answer)

    return getting


def _posting(kind: type[BaseModel], answer: Callable[[Any], dict[str, Any]]) -> Any:
    async def posting(request: Any) -> Any:
        try:
            asked = kind.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the body"
            return _json({"error": f"{where[:80]}: {first['msg']}."}, 422)
        return await _asked(answer, asked)

    return posting


async def _asked(answer: Callable[..., dict[str, Any]], *given: Any) -> Any:
    """What a session answers, or one sentence."""
    try:
        return _json(await _in_thread(answer, *given))
    except DataError as error:  # the disk is full, or the journal is gone: nothing was kept
        return _json({"error": str(error)}, 507)
    except AccordError as error:
        return _json({"error": str(error)}, 400)


async def _in_thread(call: Callable[..., Any], *given: Any) -> Any:
    return await needed("starlette.concurrency", NEEDS).run_in_threadpool(call, *given)


def _json(value: dict[str, Any], status: int = 200) -> Any:
    words = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _given(words.encode("utf-8", "replace"), "application/json", status)


def _plain(status: int, words: str) -> Any:
    return _given(words.encode(), "text/plain; charset=utf-8", status)


def _given(body: bytes, kind: str, status: int = 200) -> Any:
    return needed("starlette.responses", NEEDS).Response(body, status, {"content-type": kind})


def listening(address: str, port: int) -> socket.socket:
    """A socket at an address of this machine; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Named as TCP, so that asyncio sends at once: else each answer waits 40 ms for the browser's receipt.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((address, port))
        taken.listen(64)
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"Nothing can listen at {address}, port {port}: {reason}; choose another port.") from error
    return taken


class Serving:
    """A server that runs until it is told to stop."""

    def __init__(self, app: Any) -> None:
        uvicorn = needed("uvicorn", NEEDS)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", ws="none", http="h11", loop="asyncio",
            server_header=False, timeout_graceful_shutdown=1, limit_concurrency=200,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.server.capture_signals = nullcontext  # the command has handlers of its own

    def run(self, taken: socket.socket) -> None:
        self.server.run(sockets=[taken])

    def stop(self) -> None:
        self.server.should_exit = True
