"""The messages about the change record that brokers send each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from broker_app.features.cluster.record.change_record import Change, Entry

#: of the entries of one message
MOST_BYTES: Final = 60 * 1024


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """The digest of the sender's record, and whether the sender is the keeper. With a `question` the receiver
    answers with its own, whose `answer` has the same number."""

    digest: int
    is_keeper: bool
    question: int = 0
    answer: int = 0


class Buckets(msgspec.Struct, frozen=True, tag="buckets"):
    """The digests of the sender's buckets. The receiver answers with its entries where they differ."""

    digests: bytes


class Entries(msgspec.Struct, frozen=True, tag="entries"):
    """Entries of the sender's record. `last`: all that answer a Buckets have been sent."""

    entries: list[Entry]
    last: bool = False


class Propose(msgspec.Struct, frozen=True, tag="propose"):
    """Changes that the keeper is to give versions. The receiver answers with a Proposed once it has all of
    this `id`: `more` of them follow."""

    id: int
    changes: list[Change]
    more: bool = False


class Proposed(msgspec.Struct, frozen=True, tag="proposed"):
    """The answer to a Propose; all of the changes have been sent as Entries before, unless `refusal` says why
    none was taken."""

    id: int
    refusal: str = ""


RecordMessage = Summary | Buckets | Entries | Propose | Proposed


def in_parts(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries, in lists of at most `MOST_BYTES`."""
    part: list[Entry] = []
    size = 0
    for entry in entries:
        length = len(msgspec.msgpack.encode(entry))
        if part and size + length > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(entry)
        size += length
    if part:
        yield part


def changes_in_parts(changes: Iterable[Change]) -> list[list[Change]]:
    """The changes, in lists of at most `MOST_BYTES`; at least one list."""
    parts: list[list[Change]] = [[]]
    size = 0
    for change in changes:
        length = len(msgspec.msgpack.encode(change))
        if parts[-1] and size + length > MOST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(change)
        size += length
    return parts
