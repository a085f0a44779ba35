"""A page of a file in Chromium: what it holds can be asked, and keys and clicks can be sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Page:
    """The page that is open; each one has a window of its own."""

    def __init__(self, browser: Any) -> None:
        self._browser, self._context = browser, None
        self.page: Any = None
        """The page as Playwright has it."""

    def close(self) -> None:
        if self._context is not None:
            self._context.close()

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True
    ) -> None:
        """A file, in a window of this size."""
        self.close()
        self._context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            is_mobile=width < 600,
            java_script_enabled=script,
        )
        self.page = self._context.new_page()
        self._sent: list[str] = []
        self._said: list[str] = []
        self.page.on("request", lambda one: self._sent.append(one.url))
        self._session = self._context.new_cdp_session(self.page)
        self._session.on("Log.entryAdded", lambda one: self._said.append(one["entry"]["text"]))
        self._session.on("Runtime.exceptionThrown", lambda one: self._said.append(str(one)))
        for domain in ("Runtime", "Log", "Accessibility"):
            self(f"{domain}.enable")
        self.page.goto(path.resolve().as_uri())

    def __call__(self, method: str, **values: Any) -> dict[str, Any]:
        """A command of Chromium's own protocol, and its answer."""
        return self._session.send(method, values)

    def ask(self, expression: str) -> Any:
        """The value of an expression; Chromium takes it whatever the page's content security policy."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses that were asked for, but for data inside the page."""
        return [url for url in self._sent if not url.startswith(("data:", "blob:"))]

    def complaints(self) -> list[str]:
        """What the console says: errors of the script, and what the content security policy refused."""
        return self._said
