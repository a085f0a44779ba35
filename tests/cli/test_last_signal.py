"""A signal that arrives between a command and the moment from which signals are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from accord.cli import main
from accord.errors import Stopped


@pytest.mark.parametrize(("ended", "code"), [(True, 0), (False, 130)])
def test_what_a_command_has_done_decides_its_exit_code(
    ended: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def interrupted(*_: object, **__: object) -> Iterator[None]:
        if not ended:
            raise Stopped
        try:
            yield
        finally:
            raise Stopped

    def done() -> None:
        raise SystemExit(0)

    monkeypatch.setattr(main, "as_a_command", interrupted)
    monkeypatch.setattr(main, "_run", done)
    with pytest.raises(SystemExit) as found:
        main.run()
    assert found.value.code == code
