"""Reads of records that are being fetched keep nothing in memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import cast

import pytest

from broker_app.engine.read_budget import ReadBudget
from broker_app.engine.record_reader import NotLoaded, RecordReader
from broker_app.journal.port import Damaged, Found, Journal


class LateJournal:
    """A journal whose one record takes until the next turn of the loop to read."""

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.reads = 0

    def read(self, positions: Sequence[int], found: Found) -> None:
        self.reads += 1
        records: list[bytes | Damaged] = [self.record for _ in positions]
        asyncio.get_running_loop().call_soon(found, records, None)


async def test_what_was_fetched_is_read_once_and_not_kept_by_who_had_to_wait() -> None:
    journal = LateJournal(bytes(range(256)))
    reader = RecordReader(cast(Journal, journal), ReadBudget())
    before = sys.getrefcount(journal.record)
    with pytest.raises(NotLoaded) as missing:  # it is kept here, as in the traceback of a future
        reader((7,))
    fetched = await reader.load(missing.value)
    assert list(fetched) == [7]
    fetched.clear()
    after = sys.getrefcount(journal.record)  # not within `assert`, which keeps what it compares
    assert after == before
    assert journal.reads == 1


async def test_work_is_repeated_when_its_records_have_arrived() -> None:
    journal = LateJournal(b"record")
    reader = RecordReader(cast(Journal, journal), ReadBudget())
    assert await reader.repeat(lambda: reader((7,))) == [b"record"]
    assert journal.reads == 1
