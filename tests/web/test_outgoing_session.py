"""Requests to the provider of logins: their answers are bounded."""

from __future__ import annotations

import time

import pytest
from requests import RequestException, Session

from broker_app.web.auth import outgoing_session
from tests.http_client.stranger import stranger

OK = b"HTTP/1.1 200 OK\r\n"


def session() -> Session:
    made = outgoing_session.bound(Session())
    made.trust_env = False
    return made


def test_an_answer_is_that_of_requests() -> None:
    with stranger(OK + b'Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a": 17}') as there:
        answer = session().post(there.url, data={"code": "x"}, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (
            200, {"a": 17}, "application/json",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "again", "pause_s"),
    [
        (OK + b"\r\n", b"a" * 4096, 0.0),
        (OK + b"\r\n", b"a", 0.01),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    ],
    ids=["endless-body", "slow-body", "endless-100", "slow-100"],
)
def test_an_answer_without_an_end_is_an_error_in_time(
    monkeypatch: pytest.MonkeyPatch, first: bytes, again: bytes, pause_s: float
) -> None:
    monkeypatch.setattr(outgoing_session, "TIMEOUT_S", 0.5)
    with stranger(first, again, pause_s) as there:
        began = time.monotonic()
        with pytest.raises(RequestException):
            session().get(there.url)
        assert time.monotonic() - began < 5
