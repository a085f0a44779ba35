"""No part of a password of a database's address is shown, however it is given and whatever a driver repeats."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from accord.errors import AccordError
from accord.experiments import trials
from accord.experiments.addresses import hide_secrets, is_wrong, without_secrets
from accord.experiments.trials import Trials

HOST = "postgresql+psycopg://"
ADDRESSES = [
    f"{HOST}bob:S3CRET@127.0.0.1:1/db",
    f"{HOST}127.0.0.1:1/db?user=bob&password=S3CRET",
    f"{HOST}127.0.0.1:1/db?user=bob&PassWord=S3CRET&x=1",
    f"{HOST}127.0.0.1:1/db?sslpassword=S3CRET&sslmode=require",
    f"{HOST}bob:S3CRET@127.0.0.1:1",
    f"{HOST}bob:S3/CRET@S3CRET@127.0.0.1:1/db",
    f"{HOST}bob:S3CRET?S3CRET@127.0.0.1:1/db",
    f"{HOST}bob:S3CRET@127.0.0.1:port/db",
    f"{HOST}bob:%533CRET@127.0.0.1:port/db",
    f"{HOST}127.0.0.1:1/db?password=S3@CRET@S3CRET",
    "postgresql+psycopg:/bob:S3CRET@127.0.0.1:1/db",
    "postgresql+nosuch://bob:S3CRET@127.0.0.1:1/db",
    "host=127.0.0.1 user=bob password=S3CRET dbname=db",
    "host=127.0.0.1 password='S3CRET with blanks'",
    "nonsense:bob:S3CRET@here",
    "mysql://bob:S3{CRET}S3CRET@127.0.0.1:1/db",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_password_is_shown(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "OPENING_TRIES", 1)
    with pytest.raises(AccordError, match="cannot be used|is not installed") as caught:
        Trials(address, "s", {"a": (1,)}, "grid", 1, 0, "same")
    for shown in (without_secrets(address), str(caught.value)):
        assert "CRET" not in shown
        assert "%53" not in shown
        assert "\n" not in shown
    assert "127.0.0.1" in without_secrets(address) or "here" in without_secrets(address)  # it is still of use


WRONG = [
    f"{HOST}bob:S3CRET@127.0.0.1:port/db",
    f"{HOST}bob:S3CRET@127.0.0.1:99999/db",
    f"{HOST}127.0.0.1:1/db?sslmode=nosuch",
    f"{HOST}127.0.0.1:1/db?nosuch=1",
    "postgresql+nosuch://bob:S3CRET@127.0.0.1/db",
    "nosuch://127.0.0.1/db",
    "nonsense",
]


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_can_never_work_is_to_be_corrected(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not asked again and again."""
    monkeypatch.setattr(trials.time, "sleep", lambda seconds: pytest.fail("it was waited for"))
    with pytest.raises(AccordError, match=r"cannot be used: .*; correct the address\.$"):
        Trials(address, "s", {"a": (1,)}, "grid", 1, 0, "same")


SAID = {
    "failed to resolve host 'no-such-host': [Errno -2] Name or service not known": 1,
    'connection to server failed: FATAL:  password authentication failed for user "bob"': 1,
    'FATAL:  role "bob" does not exist': 1,
    'FATAL:  database "db" does not exist': 1,
    "(1045, \"Access denied for user 'bob'@'localhost' (using password: YES)\")": 1,
    "(1049, \"Unknown database 'db'\")": 1,
    'connection to server at "127.0.0.1", port 5432 failed: Connection refused': 0,
    "FATAL:  the database system is starting up": 0,
    "FATAL:  terminating connection due to administrator command": 0,
    "FATAL:  sorry, too many clients already": 0,
    "[Errno -3] Temporary failure in name resolution": 0,
    "server closed the connection unexpectedly": 0,
    "connection timeout expired": 0,
}


@pytest.mark.parametrize("words", SAID)
def test_what_may_work_later_is_told_from_what_never_will(words: str) -> None:
    assert is_wrong(OperationalError(None, None, Exception(words))) == bool(SAID[words])


def test_a_server_that_is_away_may_be_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "OPENING_TRIES", 1)
    with pytest.raises(AccordError, match="refused.*the same command resumes the search once it can be"):
        Trials(f"{HOST}bob:S3CRET@127.0.0.1:1/db", "s", {"a": (1,)}, "grid", 1, 0, "same")


LETTERS = st.text("abcxyz019@/:?#&%+= ", min_size=4, max_size=20).filter(lambda word: word.strip() == word)


@given(LETTERS)
def test_what_a_driver_repeats_is_hidden_in_every_form(password: str) -> None:
    address = f"postgresql://bob:{quote(password, safe='')}@host/db"
    for form in (password, quote(password, safe=""), repr(password)):
        shown = hide_secrets(f"NO SUCH THING <{form}>!", address)
        assert shown.replace("'", "").replace('"', "") == "NO SUCH THING <…>!"


def test_an_address_without_secrets_is_shown_as_it_is() -> None:
    for address in ("sqlite:///out/study.db", "postgresql+psycopg://host/name", "postgresql://host/db?sslmode=x"):
        assert without_secrets(address) == address
        assert hide_secrets(f"cannot open {address}", address) == f"cannot open {address}"
