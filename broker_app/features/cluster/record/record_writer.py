"""Writes the change record to its file in a thread, in order, and compacts the file when it has grown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import ChangeRecord, Entry
from broker_app.features.cluster.record.propagation import Saved
from broker_app.features.cluster.record.record_file import RecordFile

log = logging.getLogger(__name__)

#: lines of a file beyond twice those that it needs
_SPARE_LINES: Final = 1_000


class RecordWriter:
    """`configuration` returns the version up to which the configuration is in the record, and `is_merging`
    whether the record lacks a part of what was written."""

    def __init__(
        self,
        file: RecordFile,
        record: ChangeRecord,
        configuration: Callable[[], int],
        is_merging: Callable[[], bool],
    ) -> None:
        self._file = file
        self._record = record
        self._configuration = configuration
        self._is_merging = is_merging
        self._waiting: list[tuple[Sequence[Entry], Saved]] = []
        self._wanted = asyncio.Event()
        self._lock = asyncio.Lock()
        self._written_version = 0
        #: True if the file lacks entries that could not be written
        self._is_incomplete = False

    @property
    def lines(self) -> int:
        """The lines of the file."""
        return self._file.lines

    def save(self, entries: Sequence[Entry], then: Saved) -> None:
        """Write entries, and call `then` when they are on the disk, or with the reason why they are not."""
        self._waiting.append((entries, then))
        self._wanted.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wanted.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits."""
        async with self._lock:
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            if waiting:
                refusal = await self._append([entry for entries, _ in waiting for entry in entries])
                for _, then in waiting:
                    then(refusal)
            if (version := self._configuration()) > self._written_version:
                # What was entered is in the file by now: a restart need not look for it.
                await self._append([])
                self._written_version = version
        if self._is_merging():
            return  # the record lacks what is merged in later turns; what is written next looks again
        if self._is_incomplete or self._file.lines > 2 * len(self._record.entries()) + _SPARE_LINES:
            try:
                await self.compact()
            except Refused as refusal:
                log.error("the change record is not compacted: %s", refusal.detail)

    async def compact(self) -> None:
        """Rewrite the file with the newest entries only. Raises Refused."""
        async with self._lock:
            while self._is_merging():
                await asyncio.sleep(0)
            entries, configuration = self._record.entries(), self._configuration()
            try:
                await asyncio.to_thread(self._file.rewrite, entries, configuration)
            except OSError as error:
                raise self._refusal(error) from error
            self._is_incomplete = False

    async def _append(self, entries: list[Entry]) -> Refused | None:
        try:
            await asyncio.to_thread(self._file.append, entries, self._configuration())
        except OSError as error:
            self._is_incomplete = True
            return self._refusal(error)
        return None

    def _refusal(self, error: OSError) -> Refused:
        return Refused(
            "store-unavailable",
            f"{self._file.path} cannot be written: {error.strerror or error}; free space there, or give the "
            "broker's user the right to write",
        )
