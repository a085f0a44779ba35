"""Chromium, driven over a pipe by its own protocol: no driver and no network are needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
PATIENCE = 20.0
"""Seconds that a page may take for one thing."""


class Page:
    """A page that is open: what it holds can be asked, and keys and clicks can be sent."""

    def __init__(self, commands: int, answers: int) -> None:
        self._out, self._in = commands, answers
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **values: Any) -> dict[str, Any]:
        """A command of the protocol, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == self._number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            block = os.read(self._in, 1 << 16)
            if not block:
                raise RuntimeError("Chromium has ended.")
            self._rest += block
        one, _, self._rest = self._rest.partition(b"\0")
        return json.loads(one)

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True
    ) -> None:
        """A file, in a window of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self("Emulation.setDeviceMetricsOverride", mobile=width < 600, **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self("Emulation.setEmulatedMedia", features=scheme)
        self("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        self("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            if time.monotonic() > end:
                raise RuntimeError(f"'{path}' was not loaded in time.")
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def type(self, words: str) -> None:
        """Text into what has the focus."""
        self("Input.insertText", text=words)

    def key(self, name: str, code: int) -> None:
        """A key, pressed and let go."""
        text = {"Enter": "\r", " ": " "}.get(name)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **more)

    def downloads(self, folder: Path) -> None:
        """Where downloads go."""
        self("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def requests(self) -> list[str]:
        """Addresses that were asked for, but for data inside the page."""
        sent = [one["params"]["request"]["url"] for one in self.events if one.get("method") == SENT]
        return [url for url in sent if not url.startswith(("data:", "blob:"))]

    def complaints(self) -> list[str]:
        """What the console says: errors of the script, and what the content security policy refused."""
        said = [one["params"]["entry"]["text"] for one in self.events if one.get("method") == "Log.entryAdded"]
        thrown = [str(one["params"]) for one in self.events if one.get("method") == "Runtime.exceptionThrown"]
        return said + thrown

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))


SENT = "Network.requestWillBeSent"


@contextmanager
def browser() -> Iterator[Page]:
    """Chromium without a window, with a fresh profile; it reads commands from file 3 and answers in file 4."""
    profile = tempfile.mkdtemp()
    to_read, commands = os.pipe()
    answers, to_write = os.pipe()
    # A shell moves the pipes to the numbers that Chromium asks for; the numbers above 9 need a name.
    line = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
    process = subprocess.Popen(
        ["bash", "-c", line, CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(to_read, to_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)  # then it ends by itself, and what it has started too
        os.close(answers)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)
