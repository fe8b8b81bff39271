"""Reads of the API and of jobs: records of messages that are not in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from broker_app.base.refused import Refused
from broker_app.core.durability.records import damaged as damaged_record
from broker_app.core.message import DEFAULT_PRIORITY
from broker_app.engine.read_budget import READ_BYTES, ReadBudget
from broker_app.journal.errors import Busy, JournalError
from broker_app.journal.port import Damaged, Journal

_Value = TypeVar("_Value")

#: how often work is repeated at most because records had to be fetched
_MAX_REPEATS = 10_000


class RecordReader:
    """Reads from the journal without waiting, or has the work repeated when the records have been fetched.
    All who read many messages share `budget`."""

    def __init__(self, journal: Journal, budget: ReadBudget) -> None:
        self._journal = journal
        self._budget = budget
        #: records that were fetched for the work that is being repeated
        self._fetched: Mapping[int, bytes | Damaged] = {}

    def __call__(self, positions: Sequence[int]) -> list[bytes]:
        """Return PUBLISHED records; a damaged one is replaced by a record of the damage.

        Raises NotLoaded while they are being fetched (`load` waits for them), Refused while files cannot be
        read, NoSuchPosition for a record that is no longer stored.
        """
        fetched = self._fetched
        found: list[bytes | Damaged]
        if fetched and all(position in fetched for position in positions):
            found = [fetched[position] for position in positions]
        else:
            answer = _Answer(positions)
            self._journal.read(positions, answer)
            try:
                found = answer.result()
            except Busy as error:
                raise _busy() from error
        return [or_damage(record, DEFAULT_PRIORITY) for record in found]

    @staticmethod
    async def load(missing: NotLoaded) -> dict[int, bytes | Damaged]:
        """Wait for records that are being fetched; none if one is no longer stored. Raises Refused while
        files cannot be read."""
        return dict(zip(missing.answer.positions, await missing.answer.arrived(), strict=False))

    def using(self, fetched: Mapping[int, bytes | Damaged], work: Callable[[], _Value]) -> _Value:
        """The result of `work`, for which these records were fetched."""
        self._fetched = fetched
        try:
            return work()
        finally:
            self._fetched = {}

    async def repeat(self, work: Callable[[], _Value]) -> _Value:
        """The result of `work`, which must change nothing: it is repeated when records had to be fetched."""
        fetched: dict[int, bytes | Damaged] = {}
        try:
            for _ in range(_MAX_REPEATS):
                try:
                    return self.using(fetched, work)
                except NotLoaded as missing:
                    fetched |= await self.load(missing)
        finally:
            fetched.clear()  # tracebacks refer to it until they are collected
        raise _busy()

    @asynccontextmanager
    async def turn(self, positions: Sequence[int]) -> AsyncIterator[Sequence[int]]:
        """Wait for the turn to read; those of the positions, from the first on, that may be read in it. What
        is made of the messages is no longer in memory at the end of the `with` block."""
        run = self._journal.measure(positions, READ_BYTES)
        async with self._budget.hold(run.size):
            yield positions[: run.length]


def _busy() -> Refused:
    return Refused("busy", "the broker cannot read its files now; try again in a moment")


class NotLoaded(JournalError):
    """Records are being fetched: repeat what needs them when they are there."""

    def __init__(self, answer: _Answer) -> None:
        super().__init__("records are being fetched")
        self.answer = answer


class _Answer:
    """Takes the answer of a read: at once, or as it arrives. It keeps nothing that was taken from it: what
    refers to it, such as tracebacks, may stay in memory for long."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = positions
        self._found: list[bytes | Damaged] | None = None
        self._error: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None

    def __call__(self, found: list[bytes | Damaged] | None, error: Exception | None) -> None:
        self._found, self._error = found, error
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def result(self) -> list[bytes | Damaged]:
        """The records. Raises the error, or NotLoaded."""
        found, self._found = self._found, None
        if found is not None:
            return found
        error, self._error = self._error or NotLoaded(self), None
        try:
            raise error
        finally:
            del error  # or its traceback would keep itself, and what was read, in memory

    async def arrived(self) -> list[bytes | Damaged]:
        """The records when they have arrived; none for an error that is found when the work is repeated.
        Raises Refused while files cannot be read."""
        if self._found is None and self._error is None:
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        found, self._found = self._found, None
        error, self._error = self._error, None
        if isinstance(error, Busy):
            raise _busy()
        return found or []


def or_damage(record: bytes | Damaged, priority: int) -> bytes:
    """The record, or the record of its damage."""
    if isinstance(record, Damaged):
        return damaged_record(priority, record.why, record.time_us // 1000)
    return record
