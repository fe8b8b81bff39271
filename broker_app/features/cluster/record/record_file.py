"""The file of the change record: one JSON object a line, appended to and sometimes compacted.

The first line names the format. A last line that a crash has cut off is removed when the file is read; a line
that is damaged otherwise is left out, since the other brokers have what it had.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker_app.features.cluster.record.change_record import Entry

log = logging.getLogger(__name__)

#: in the data directory
NAME: Final = "cluster_record.jsonl"
_FORMAT: Final = 1


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of: the format of the file, an entry, or the version up to which the configuration of this broker
    is in the record."""

    format: int = 0
    entry: Entry | None = None
    configuration: int = 0


class Contents(NamedTuple):
    """The contents of a file: its entries in order, the newest `configuration`, and the number of lines."""

    entries: list[Entry]
    configuration: int
    lines: int


class UnreadableRecord(Exception):
    """A file that is no change record, or that of a newer version of MOM."""


class RecordFile:
    """A file of one change record. Blocks; one thread at a time uses it. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0

    def read(self) -> Contents:
        """The contents; none without a file. Raises UnreadableRecord."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Contents([], 0, 0)
        whole, _, rest = content.rpartition(b"\n")
        if rest:
            log.warning("%s: its last line was cut off, and is removed", self.path)
            os.truncate(self.path, len(content) - len(rest))
        found = contents(str(self.path), whole.split(b"\n") if whole else [])
        self.lines = found.lines
        return found

    def append(self, entries: Iterable[Entry], configuration: int = 0) -> None:
        """Append lines, and return when they are on the disk."""
        lines = _lines(entries, configuration)
        is_new = not self.lines
        if is_new:
            lines.insert(0, RecordLine(format=_FORMAT))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(_encoded(lines))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            _sync_directory(self.path.parent)
        self.lines += len(lines)

    def rewrite(self, entries: Iterable[Entry], configuration: int = 0) -> None:
        """Replace the contents: by all of the new ones, or by nothing of them."""
        lines = [RecordLine(format=_FORMAT), *_lines(entries, configuration)]
        fresh = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_encoded(lines))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        _sync_directory(self.path.parent)
        self.lines = len(lines)


def backup(entries: Iterable[Entry]) -> bytes:
    """A file with these entries."""
    return _encoded([RecordLine(format=_FORMAT), *_lines(entries, 0)])


def contents(path: str, lines: list[bytes]) -> Contents:
    """The contents of a file, or of a backup, by its lines. Raises UnreadableRecord."""
    entries: list[Entry] = []
    configuration = 0
    decoder = msgspec.json.Decoder(RecordLine)
    for number, text in enumerate(lines, 1):
        try:
            line = decoder.decode(text)
        except msgspec.DecodeError as error:
            if number == 1:
                raise UnreadableRecord(
                    f"{path} is no change record ({error}); move it away, and the broker gets the record "
                    "from the others, or restore a backup of it"
                ) from error
            log.warning("%s: line %d is damaged, and is left out: %s", path, number, error)
            continue
        if number == 1 and line.format != _FORMAT:
            raise UnreadableRecord(
                f"{path} has the format {line.format}, and this version of MOM reads {_FORMAT}; run the "
                "version that has written it, or move the file away"
            )
        if line.entry is not None:
            entries.append(line.entry)
        configuration = max(configuration, line.configuration)
    return Contents(entries, configuration, len(lines))


def _lines(entries: Iterable[Entry], configuration: int) -> list[RecordLine]:
    lines = [RecordLine(entry=entry) for entry in entries]
    return [*lines, RecordLine(configuration=configuration)] if configuration else lines


def _encoded(lines: Iterable[RecordLine]) -> bytes:
    encode = msgspec.json.encode
    return b"".join(encode(line) + b"\n" for line in lines)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
