"""Addresses of databases, shown without what is secret in them."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "…"
_SECRET = r"[\w%]*(?:pass|pwd|secret|token|key)[\w%]*"
_NAMED = re.compile(rf"(?i)((?<![\w%]){_SECRET}\s*=\s*)('[^']*'|\"[^\"]*\"|[^&;\s]*)")
"""A secret by its name, in a query or in words of libpq."""
_WRONG = re.compile(
    r"(?i)authentication failed|access denied|no password supplied|no pg_hba\.conf entry"
    r"|(role|user|database) .* does not exist|unknown database"
    r"|name or service not known|nodename nor servname|could not translate host|no address associated"
    r"|invalid (literal|port|sslmode|connection option|dsn|uri)"
)
"""What servers, drivers and systems say of an address under which nobody will ever answer."""


def is_wrong(error: BaseException) -> bool:
    """Whether an address can never be used as it is; a server that is away, or is being started, may be back."""
    from sqlalchemy.exc import ArgumentError  # no address at all, or one of an unknown driver

    return isinstance(error, ArgumentError) or _WRONG.search(str(error)) is not None


def without_secrets(address: str) -> str:
    """An address as it may be shown.

    >>> without_secrets("postgresql://bob:s3cret@host/db?sslmode=require&password=s3cret")
    'postgresql://…@host/db?sslmode=require&password=…'
    """
    head, at, tail = _at_the_host(address)
    scheme, slashes, _ = head.partition("://")
    shown = f"{scheme}{slashes}{HIDDEN}@{tail}" if at and slashes else f"{HIDDEN}@{tail}" if at else tail
    return _NAMED.sub(rf"\g<1>{HIDDEN}", shown)


def hide_secrets(words: str, address: str) -> str:
    """What another library says of an address, without any part of its secrets, written out or encoded."""
    words = words.replace(address, without_secrets(address))
    for secret in _secrets(address):
        words = words.replace(secret, HIDDEN)
    return _NAMED.sub(rf"\g<1>{HIDDEN}", words)


def _at_the_host(address: str) -> tuple[str, str, str]:
    """What stands before the host, the sign between them, and the rest; a password may hold such a sign itself."""
    path, mark, query = address.partition("?")
    if mark and "@" in query and not _NAMED.search(query):  # the password holds a question mark
        path, mark, query = address, "", ""
    head, at, tail = path.rpartition("@")
    return head, at, f"{tail}{mark}{query}"


def _secrets(address: str) -> list[str]:
    """Secrets and their parts, in every form that they may be repeated in; the longest first."""
    head, _, _ = _at_the_host(address)
    _, _, password = re.sub(r"^[^:]*:/*", "", head).partition(":")
    found = [password, *(match[1].strip("'\"") for match in _NAMED.findall(address))]
    found += [part for one in found for part in re.split(r"[/@:?#&]", one) if len(part) > 1]
    found += [form(one) for one in found for form in (unquote, unquote_plus, repr)]
    return sorted({one for one in found if one and one != HIDDEN}, key=len, reverse=True)
