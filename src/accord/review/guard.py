"""Who may talk to the page's server: a browser that has the token, at the own address, from the own page."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names by which this machine calls itself; with a tunnel the port may be another one."""
LARGEST_BODY = 1 << 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
NO_TOKEN = "Open the address that accord review printed: it holds the token of this page."
TOO_MUCH = "That is too much at once."


class Guard:
    """Lets through what is allowed, and adds the headers that keep the page to itself."""

    def __init__(self, app: App, token: str, port: int, hosts: tuple[str, ...] = OWN_HOSTS, once: str = "") -> None:
        """``once`` is a token that opens the page a single time: for an address that others may see, such as one
        in the arguments of a browser's process."""
        self.app, self.token, self.hosts, self.once = app, token, hosts, once
        self.cookie = f"accord-review-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and given and (self._is_token(given) or self._is_first(given)):
            attributes = "Path=/; HttpOnly; SameSite=Strict"
            own = {"location": "/", "set-cookie": f"{self.cookie}={self.token}; {attributes}"}
            await _answer(send, 303, "", own)
            return
        if not self._is_token(_cookie(headers, self.cookie)):
            await _answer(send, 401, NO_TOKEN)
            return
        body = await _body(receive) if scope["method"] == "POST" else b""
        if body is None:
            await _answer(send, 413, TOO_MUCH)
            return
        await self.app(scope, _again(body, receive), _with_headers(send))

    def _refused(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Why something is not let through, whatever token it has."""
        host, method = headers.get("host", []), scope["method"]
        if len(host) != 1 or _without_port(host[0]) not in self.hosts:
            return 421, "This server answers at its own address alone."
        if method not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST are answered."
        site = headers.get("sec-fetch-site", ["none"])[0]
        opens = method == "GET" and scope["path"] == "/"  # a link in another page may lead here
        if site not in ("none", "same-origin") and not opens:
            return 403, "Another page asked for this."
        if method == "POST":
            if headers.get("origin", []) != [f"http://{host[0]}"]:
                return 403, "Another page asked for this."
            if headers.get("content-type", [""])[0].partition(";")[0].strip() != "application/json":
                return 415, "A body is JSON."
            length = headers.get("content-length", ["0"])[0]
            if not (length.isascii() and length.isdigit()) or int(length[:20]) > LARGEST_BODY:
                return 413, TOO_MUCH
        return None

    def _is_first(self, given: str) -> bool:
        """Whether it is the token for one time, which is used up by that."""
        first = bool(self.once) and secrets.compare_digest(given.encode("utf-8", "replace"), self.once.encode())
        self.once = "" if first else self.once
        return first

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _cookie(headers: dict[str, list[str]], name: str) -> str:
    try:
        cookies = SimpleCookie("; ".join(headers.get("cookie", [])))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


async def _body(receive: Receive) -> bytes | None:
    """A whole body; nothing where it is too large, whatever its head said."""
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > LARGEST_BODY:
            return None
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read is given to the application, and then whatever comes after it."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *own]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, words: str, more: dict[str, str] | None = None) -> None:
    """A sentence as plain text."""
    body = words.encode()
    own = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **(more or {})}
    headers = [(name.encode(), value.encode()) for name, value in own.items()]
    sending = _with_headers(send)
    await sending({"type": "http.response.start", "status": status, "headers": headers})
    await sending({"type": "http.response.body", "body": body})
