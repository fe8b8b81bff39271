"""A copy of the file of the change record, in the store of a journal that mirrors share.

The one that takes over begins with it: what was changed while other brokers were away is newer than theirs.
The copy may lack what was changed last. The file has the version of the configuration up to which that is
entered, so that later changes are entered again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from broker_app.features.cluster.record.change_record import ChangeRecord
from broker_app.features.cluster.record.record_file import NAME, RecordFile, UnreadableRecord, contents
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal

log = logging.getLogger(__name__)

_KEY: Final = "cluster_record"
_INTERVAL_S: Final = 1.0
#: bytes of a file that is copied
_MOST_BYTES: Final = 64 * 1024 * 1024


class RecordCopy:
    """The copy in `journal` of the file in the directory `data`."""

    def __init__(self, data: Path, journal: SharedJournal) -> None:
        self._path = data / NAME
        self._journal = journal
        #: time and size of the file that was copied last
        self._copied: tuple[int, int] | None = None
        self._is_failing = False

    async def restore(self) -> None:
        """Have the file begin with what it and the copy have, if there is one: either may be older. Raises
        JournalError and OSError, and UnreadableRecord for the file."""
        await asyncio.to_thread(self._restore)

    async def run(self) -> None:
        """Copy the file when it has changed, until cancelled."""
        while True:
            await self.store()
            await asyncio.sleep(_INTERVAL_S)

    async def store(self) -> None:
        """Copy the file, if it has changed and the journal is held."""
        if not self._journal.is_held:
            return
        try:
            await asyncio.to_thread(self._store)
            self._is_failing = False
        except (JournalError, OSError) as error:
            if not self._is_failing:
                log.warning("the change record is not copied for mirrors now: %s", error)
            self._is_failing = True

    def _restore(self) -> None:
        content = self._journal.note(_KEY)
        if content is None:
            return
        try:
            copied = contents("the copy in the store", content.splitlines())
        except UnreadableRecord as error:
            log.warning("the change record of the broker that was active is not used: %s", error)
            return
        file = RecordFile(self._path)
        both = ChangeRecord([*file.read().entries, *copied.entries])
        # The configuration is that of the broker that was active last, as the copy is.
        file.rewrite(both.entries(), copied.configuration)

    def _store(self) -> None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        found = status.st_mtime_ns, status.st_size
        if found == self._copied:
            return
        if status.st_size > _MOST_BYTES:
            raise OSError(f"{self._path} is longer than {_MOST_BYTES:,} bytes: `mom cluster record compact`")
        self._journal.put_note(_KEY, self._path.read_bytes())
        self._copied = found
