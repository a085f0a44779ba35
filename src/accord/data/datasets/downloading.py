"""One download: bounded in size, resumed where it broke off, and checked."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from accord.errors import DataError, first_line
from accord.extras import needed

BLOCK = 1 << 13
"""Bytes that are read at once; fewer are lost where a connection breaks."""
LARGEST = 1 << 30
"""Bytes that a download may have, and a file of an archive; the largest that is wanted has a fifth of it."""
RETRIES = 2
TIMEOUT = 60
"""Seconds without an answer."""
PLAIN = {"Accept-Encoding": "identity"}
"""Bytes as they are at the origin: their number is known, and nothing is unpacked on the way."""
PARTIAL, UNSATISFIABLE = 206, 416
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)\Z")
Tick = Callable[[int, int | None], None]
"""Gets bytes so far and, where it is known, bytes in all."""


class _TooLargeError(OSError):
    """An answer without end; trying again does not help."""


def download(address: str, checksum: str | None, folder: Path, draft: Path, tick: Tick) -> Path:
    """The bytes at an address: all of them, and the expected ones; a broken connection is tried again.

    With a checksum, what came before a connection broke stays in ``folder``, and the next command goes on from
    there. Without one only the same process does, if the origin says that it is still the same file.
    """
    pooch = needed("pooch", "Fetching a data set")
    import requests

    part = (draft if checksum is None else folder) / part_name(address)
    answer = _Answer(part, tick, known=checksum is not None)

    def http(url: str, output: str, store: Any) -> None:
        answer.take(url)
        Path(output).unlink(missing_ok=True)  # pooch has made an empty one
        part.replace(output)

    pooch.get_logger().setLevel("ERROR")  # the command line does the talking
    name = "archive.part"
    store = pooch.create(draft, "", registry={name: checksum}, urls={name: address}, retry_if_failed=RETRIES)
    try:
        return Path(store.fetch(name, downloader=http))  # pyright: ignore[reportArgumentType]
    except requests.HTTPError as error:
        code = getattr(error.response, "status_code", "with an error")
        raise DataError(f"{address} answered {code}; fetch it by hand, or try later.") from error
    except _TooLargeError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{address} is not the expected file: {error}; get it elsewhere.") from error
    except OSError as error:
        raise DataError(
            f"{address} cannot be reached, or breaks off ({_reason(error)}); try later, or get it elsewhere."
        ) from error
    except ValueError as error:  # pooch raises it where the checksum differs
        raise DataError(f"{address} is not the expected file: its checksum differs.") from error


def part_name(address: str) -> str:
    """What came of a file so far; others of the same name, from elsewhere, are not resumed."""
    return f".{hashlib.sha256(address.encode()).hexdigest()[:16]}.part"


class _Answer:
    """The answers of an origin to one wish, each added to what came before where it says that it goes on there."""

    def __init__(self, part: Path, tick: Tick, *, known: bool) -> None:
        self.part, self.tick, self.known = part, tick, known
        self.version: str | None = None

    def take(self, url: str) -> None:
        import requests

        done = self._came()
        with requests.get(url, headers=self._headers(done), stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == UNSATISFIABLE and done:
                self.part.unlink()
                raise requests.ConnectionError("what came before is longer than the file")
            answer.raise_for_status()
            whole = RANGE.match(answer.headers.get("Content-Range", ""))
            goes_on = answer.status_code == PARTIAL and whole is not None and int(whole[1]) == done
            if answer.status_code == PARTIAL and not goes_on:
                self.part.unlink(missing_ok=True)
                raise requests.ConnectionError("it goes on at another place than was asked for")
            done = done if goes_on else 0
            self.version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            length = answer.headers.get("Content-Length", "")
            total = done + int(length) if length.isdecimal() else None
            _refuse_large(total or 0)
            with self._opened(goes_on) as file:
                for block in answer.iter_content(BLOCK):
                    done += len(block)
                    _refuse_large(done)
                    file.write(block)
                    self.tick(done, total)
        if total is not None and done < total:  # which older versions of urllib3 take for the end
            raise requests.ConnectionError(f"after {done} of {total} bytes")

    def _came(self) -> int:
        """Bytes that came before; none where nobody could say whether they are of the same file."""
        with suppress(OSError):
            found = self.part.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size < LARGEST and (self.known or self._is_strong()):
                return found.st_size
            self.part.unlink()
        return 0

    def _is_strong(self) -> bool:
        return self.version is not None and not self.version.startswith("W/")

    def _headers(self, done: int) -> dict[str, str]:
        if not done:
            return PLAIN
        same = {"If-Range": self.version} if self.version is not None and self._is_strong() else {}
        return {**PLAIN, "Range": f"bytes={done}-", **same}

    def _opened(self, goes_on: bool) -> IO[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if goes_on else os.O_TRUNC)
        file = os.open(self.part, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o666)
        return os.fdopen(file, "ab" if goes_on else "wb")


def _refuse_large(size: int) -> None:
    if size > LARGEST:
        raise _TooLargeError(f"it sends more than {LARGEST >> 20} MiB")


def _reason(error: BaseException) -> str:
    """The first cause of an error, without the words of the libraries in between."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    return first_line(error)
