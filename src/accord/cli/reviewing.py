"""`accord review`: a local page on which people look at labels and decide."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.cli import ui
from accord.cli.paths import quoted
from accord.cli.process import STOP_SIGNALS, give_memory_back, signal_handlers, system_memory
from accord.cli.stopping_in_time import answered
from accord.cli.words import as_options
from accord.errors import SettingError
from accord.extras import needed

HERE = "127.0.0.1"
FLAGS = {"images": "--images", "data": "--data", "items": "--items"}
SCREENS = {"DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"}
"""Variables that say that there is a screen, or a browser that the person chose."""
TUNNEL = "To look at it from another machine, make a tunnel there: ssh -N -L {port}:127.0.0.1:{port} THIS-MACHINE"


def run_review(
    path: Path,
    reviewer: str | None,
    port: int,
    browser: bool,
    given: dict[str, Path | None],
    listen: str,
    others_may_connect: bool,
) -> dict[str, Any]:
    """Show the page until the person ends it; ``given`` are images, data and items."""
    for module in ("starlette", "uvicorn"):
        needed(module, "The review page")
    _check_address(listen, others_may_connect, port)
    from accord.decisions.journal import USUAL_REVIEWER, Journal, journals
    from accord.review.server import Serving, application, listening
    from accord.review.session import Session

    reviewer = reviewer or USUAL_REVIEWER
    with ui.busy("reading the run"), system_memory():
        items, shown, design = _read(path, given)
    give_memory_back()
    shown.notices = [as_options(words, FLAGS) for words in shown.notices]
    identity, size = design.identity, items.size

    def others() -> dict[str, list[Any]]:
        return {name: steps for name, steps in journals(path, identity, size).items() if name != reviewer}

    with listening(listen, port) as taken, Journal.opened(path, reviewer, identity, size) as journal:
        session = Session(items, shown, journal, design, others)
        with ui.busy("sorting the labels"):
            session.warm_up()
        token, once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        port = taken.getsockname()[1]
        serving = Serving(application(session, token, port, _hosts(listen), once if browser else ""))
        address = f"http://{_shown(listen)}:{port}/?token="
        _tell(items, journal, address + token, port, shown.notices)
        with _stopped_by_signals(serving):
            if browser:
                _open_browser(address + once)  # other people of this machine may see it
            serving.run(taken)
        decided = len(journal.standing)
    ui.say(_farewell(path, items.what, decided))
    return {"run": path, "reviewer": reviewer, "decided": decided}


def _read(path: Path, given: dict[str, Path | None]) -> tuple[Any, Any, Any]:
    """The columns of a run, what is shown of each label, and the order of looking at them."""
    from accord.estimators.deciding import subject_of
    from accord.tasks.runs import open_run

    estimator: Any = open_run(path).estimator
    if estimator.kind == "recommender":
        from accord.review.clicked import clicks_to_review

        _refuse(given, ("images", "data"), "is for labelled data, and this run is of clicks")
        items, shown = clicks_to_review(estimator, given["items"])
    else:
        from accord.review.labelled import labels_to_review

        _refuse(given, ("items",), "is for clicks, and this run is of labelled data")
        items, shown = labels_to_review(estimator, given["images"], given["data"])
    return items, shown, subject_of(estimator).design


def _refuse(given: dict[str, Path | None], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if given[name] is not None:
            raise SettingError(f"--{name} {why}; leave it out.")


def _check_address(listen: str, others_may_connect: bool, port: int) -> None:
    if not 0 <= port < 65536:
        raise SettingError(f"There is no port {port}; give one from 1 to 65535, or 0 for any that is free.")
    if listen != HERE and not others_may_connect:
        raise SettingError(
            f"At {listen} other machines can reach the page, and nothing on the way is encrypted: who sees its "
            "address can decide in your name. Better make a tunnel on the other machine (ssh -N -L "
            "PORT:127.0.0.1:PORT THIS-MACHINE), or say that you mean it with --others-may-connect."
        )


def _hosts(listen: str) -> tuple[str, ...]:
    """Names by which browsers may ask for the page."""
    import socket

    from accord.review.guard import OWN_HOSTS

    if listen == HERE:
        return OWN_HOSTS
    more = (listen,) if listen not in ("0.0.0.0", "::") else (socket.gethostname(), socket.getfqdn(), *_addresses())
    return (*OWN_HOSTS, *(_shown(one) for one in more))


def _addresses() -> list[str]:
    """The addresses of this machine, as far as it knows them."""
    import socket

    try:
        return [str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        return []


def _shown(address: str) -> str:
    """An address in an URL."""
    return f"[{address}]" if ":" in address else address


def _tell(items: Any, journal: Any, address: str, port: int, notices: list[str]) -> None:
    flagged = int((items.flagged & items.own).sum())
    ui.say(f"{len(items):,} {items.what}, {flagged:,} of them flagged; {len(journal.standing):,} decided already")
    for words in notices:
        ui.say(words)
    ui.say(TUNNEL.format(port=port))
    ui.say("Ctrl-C ends it; what is decided is kept at once")
    ui.err.print(f"Open {address}", markup=False, soft_wrap=True)
    sys.stderr.flush()


def _open_browser(address: str) -> None:
    """Open it beside the server, as some browsers do not return; but none that takes the terminal."""
    if sys.platform.startswith("linux") and not SCREENS & os.environ.keys():
        return
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


@contextmanager
def _stopped_by_signals(serving: Any) -> Iterator[None]:
    """Ctrl-C ends the server, which is what people ask for: it is no interruption."""

    def stop(*_: object) -> None:
        answered()
        serving.stop()

    with signal_handlers(dict.fromkeys(STOP_SIGNALS, stop)):
        yield
    answered()


def _farewell(path: Path, what: str, decided: int) -> str:
    if not decided:
        return "Nothing is decided yet; the same command goes on."
    run, out = quoted(path), "cleaned.csv"
    return (
        f"{decided:,} {what} decided. Write your file with the decisions in it: accord apply {run} --out {out}; "
        f"learn again from them: accord fit DATA --decisions {run}; or go on with the same command."
    )
