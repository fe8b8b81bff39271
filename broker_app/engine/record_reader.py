"""Reads of the API and of jobs: records of messages that are not in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from broker_app.core.errors import Refused
from broker_app.core.message import DEFAULT_PRIORITY
from broker_app.core.records import damaged as damaged_record
from broker_app.journal.errors import Busy, NotLoaded
from broker_app.journal.port import Damaged, Journal

_Value = TypeVar("_Value")

#: how often work is repeated at most because records had to be fetched
_MAX_REPEATS = 10_000


class RecordReader:
    """Reads from the journal without waiting, or has the work repeated when the records have been fetched."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __call__(self, positions: Sequence[int]) -> list[bytes]:
        """Return PUBLISHED records; a damaged one is replaced by a record of the damage.

        Raises NotLoaded while they are being fetched (see `repeat`), Refused while files cannot be read,
        NoSuchPosition for a record that is no longer stored.
        """
        answer = _Answer(positions)
        self._journal.read(positions, answer)
        try:
            found = answer.result()
        except Busy as error:
            raise Refused("busy", "the broker cannot read its files now; try again in a moment") from error
        return [or_damage(record, DEFAULT_PRIORITY) for record in found]

    async def load(self, positions: Sequence[int]) -> None:
        """Wait until these records have been fetched, or cannot be."""
        fetched: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def found(records: list[bytes | Damaged] | None, error: Exception | None) -> None:
            if not fetched.done():
                fetched.set_result(None)

        self._journal.read(positions, found)
        await fetched

    async def repeat(self, work: Callable[[], _Value]) -> _Value:
        """The result of `work`, which must change nothing: it is repeated when records had to be fetched."""
        for _ in range(_MAX_REPEATS):
            try:
                return work()
            except NotLoaded as missing:
                await self.load(missing.positions)
        raise Refused("busy", "the broker could not fetch the messages; try again in a moment")


class _Answer:
    """Takes the answer of a read, if it comes at once."""

    def __init__(self, positions: Sequence[int]) -> None:
        self._found: list[bytes | Damaged] | None = None
        self._error: Exception = NotLoaded(positions)

    def __call__(self, found: list[bytes | Damaged] | None, error: Exception | None) -> None:
        self._found, self._error = found, error or self._error

    def result(self) -> list[bytes | Damaged]:
        """The records. Raises the error, or NotLoaded."""
        if self._found is None:
            raise self._error
        return self._found


def or_damage(record: bytes | Damaged, priority: int) -> bytes:
    """The record, or the record of its damage."""
    if isinstance(record, Damaged):
        return damaged_record(priority, record.why, record.time_us // 1000)
    return record
