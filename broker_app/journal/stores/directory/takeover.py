"""Taking over a journal's directory: what the former holder had begun is finished."""

from __future__ import annotations

import logging
from typing import Final

from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import File, Files
from broker_app.journal.stores.directory.layout import (
    CARRY,
    DRAFT,
    LOG,
    delete_segments,
    opened,
    segments,
    sync,
)
from broker_app.journal.stores.directory.rows import ROW_MAGIC, RowReader, rows_of

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 1 << 20


def clean(home: Files, *, copy_last: bool) -> None:
    """Finish what the former holder had begun; its last segment becomes a copy that it cannot append to."""
    for name in home.names():
        if name.endswith(DRAFT):
            home.remove(name)
    for _, name in segments(home):
        if name.endswith(CARRY):
            with opened(home, name) as file:
                replaced = next(rows_of(file), None)
            if replaced is not None and replaced.positions is not None:
                delete_segments(home, replaced.positions)
    logs = [name for _, name in segments(home) if name.endswith(LOG)]
    if copy_last and logs:
        _copy_whole_rows(home, logs[-1])
    home.sync_directory()


def _copy_whole_rows(home: Files, name: str) -> None:
    with opened(home, name) as file:
        reader = RowReader(file)
        while reader.next() is not None:
            pass
        size = file.size()
        if reader.offset < size:
            _check_torn(file, reader.offset)
            log.warning(
                "%s: %d bytes behind the last whole batch were dropped: its broker ended while it wrote them",
                file.path,
                size - reader.offset,
            )
        with home.draft(f"{name}{DRAFT}") as copy:
            for at in range(0, reader.offset, _COPY_BYTES):
                copy.write((file.read(min(_COPY_BYTES, reader.offset - at), at),), at)
            sync(copy)
            home.rename(f"{name}{DRAFT}", name)


def _check_torn(file: File, offset: int) -> None:
    """Raise JournalDamaged if whole rows follow `offset`: then it is not the end of what was written."""
    content = file.read(file.size() - offset, offset)
    at = content.find(ROW_MAGIC, 1)
    while at >= 0:
        if RowReader(file, offset + at).next() is not None:
            raise JournalDamaged(
                f"{file.path}: damaged at offset {offset}; restore the directory from a backup, or start "
                "with an empty journal"
            )
        at = content.find(ROW_MAGIC, at + 1)
