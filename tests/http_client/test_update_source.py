"""Sources of addresses that answer without an end: they are given up, and no thread stays with them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mom_client.connection import updates
from tests.http_client.stranger import stranger

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("first", "again", "pause_s"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
        (OK + b"\r\n", b"a,", 0.0),
        (OK + b"\r\n", b"a", 0.02),
    ],
    ids=["endless-100", "slow-100", "endless-body", "slow-body"],
)
async def test_a_source_without_an_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first: bytes,
    again: bytes,
    pause_s: float,
) -> None:
    monkeypatch.setattr(updates, "READ_S", 0.5)
    with stranger(first, again, pause_s) as there, caplog.at_level(logging.WARNING):
        assert await updates.UpdateSource(there.url).read() == ([], False)
        assert "cannot be read" in caplog.text
        async with asyncio.timeout(3):
            await asyncio.get_running_loop().shutdown_default_executor()


async def test_addresses_are_those_of_the_answer() -> None:
    with stranger(OK + b"Content-Length: 27\r\n\r\nstomp://a:1, stomp://b:2\n\n ") as there:
        assert await updates.UpdateSource(there.url).read() == (["stomp://a:1", "stomp://b:2"], False)
