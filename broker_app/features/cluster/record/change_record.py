"""The change record: what administrators have changed and the durable subscriptions, equal at all brokers.

An entry has a version, and of two entries of one name the higher version wins: so any order of arrival ends
in the same record. (Two with one version, of a broker that has lost its file, are ordered by their values.)
Digests by bucket show where two records differ, and only that is sent.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from broker_app.base.refused import Refused

#: the kinds of entries: settings of a destination or pattern, a durable subscription, and which broker gives
#: versions since an administrator has chosen another one than the configuration
DESTINATION, SUBSCRIPTION, KEEPER = KINDS = ("destination", "subscription", "keeper")

BUCKETS: Final = 1024
#: entries that are not deleted; one of another name beyond them is refused
MOST: Final = 200_000
#: deleted entries, the newest; a broker that was away for more deletions brings older ones back
MOST_DELETED: Final = 10_000
#: bytes that all entries take in memory, about
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_NAME: Final = 1_000
#: characters of the name of a broker
MOST_BROKER: Final = 100
MOST_VALUE_BYTES: Final = 32 * 1024
#: settings of a value
MOST_SETTINGS: Final = 200
#: the highest version
MOST_NUMBER: Final = 1 << 62
#: versions by which another broker may be ahead, many more than changes while this one was away: who could
#: send the highest one would leave none for changes
MOST_AHEAD: Final = 1 << 34
#: bytes of an entry, and of a setting of its value, in addition to their texts
_ENTRY_BYTES: Final = 500
_SETTING_BYTES: Final = 100
_DIGEST_BYTES: Final = 8
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Version(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A number, and the broker that gave it: no two changes have the same."""

    number: int
    broker: str


class Change(NamedTuple):
    """The new value of a name; None deletes it."""

    kind: str
    name: str
    value: dict[str, object] | None


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest change of a name. A `value` of None: it was deleted. `origin` is the broker at which it was
    made, which is not the one that gave the version where there is a keeper."""

    kind: str
    name: str
    version: Version
    value: dict[str, object] | None
    origin: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


class ChangeRecord:
    """All entries of one broker, with their digests."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._deleted: set[tuple[str, str]] = set()
        self._digests = [0] * BUCKETS
        self._names: list[set[tuple[str, str]]] = [set() for _ in range(BUCKETS)]
        #: the highest number that was seen or given
        self.number = 0
        self._bytes = 0
        self.merge(entries)

    def __len__(self) -> int:
        """The number of entries that are not deleted."""
        return len(self._entries) - len(self._deleted)

    def entries(self) -> list[Entry]:
        """All entries, deleted ones too."""
        return list(self._entries.values())

    def get(self, kind: str, name: str) -> Entry | None:
        return self._entries.get((kind, name))

    def value(self, kind: str, name: str) -> dict[str, object] | None:
        """The value of a name; None if there is none."""
        entry = self._entries.get((kind, name))
        return entry.value if entry is not None else None

    def next_version(self, broker: str) -> Version:
        """A version above all that were seen."""
        self.number += 1
        return Version(self.number, broker)

    def refusal(self, changes: Iterable[Change]) -> Refused | None:
        """The reason why changes cannot be entered; None if they can be."""
        return Room(self).refusal(changes)

    @property
    def size(self) -> int:
        """The bytes that all entries take in memory, about."""
        return self._bytes

    def lacks(self, entry: Entry) -> bool:
        """Return whether neither an entry nor a newer one of its name is here."""
        present = self._entries.get(entry.key)
        return entry.value is not None if present is None else present.version < entry.version

    def merge(self, entries: Iterable[Entry]) -> list[Entry]:
        """Take entries that are newer; return them. Those that are no entries of this version of MOM, or too
        many, are left out."""
        newer = [entry for entry in entries if fault(entry) == "" and self._take(entry)]
        if len(self._deleted) > MOST_DELETED:
            self._forget_deleted()
        return newer

    def _take(self, entry: Entry) -> bool:
        present = self._entries.get(entry.key)
        if present is not None and (
            present.version > entry.version
            or (present.version == entry.version and _encoded(present) >= _encoded(entry))
        ):
            return False
        if not self._has_room(entry, present):
            return False
        if present is not None:
            self._remove(present)
        bucket = _bucket(entry.key)
        self._entries[entry.key] = entry
        self._names[bucket].add(entry.key)
        self._digests[bucket] ^= _digest(entry)
        self._bytes += _size(entry)
        if entry.value is None:
            self._deleted.add(entry.key)
        self.number = max(self.number, entry.version.number)
        return True

    def _has_room(self, entry: Entry, present: Entry | None) -> bool:
        """Return whether an entry can replace the `present` one. A deletion always can: few are kept."""
        if entry.value is None:
            return True
        if (present is None or present.value is None) and len(self) >= MOST:
            return False
        growth = _size(entry) - (_size(present) if present is not None else 0)
        return growth <= 0 or self._bytes + growth <= MOST_BYTES

    def _remove(self, entry: Entry) -> None:
        bucket = _bucket(entry.key)
        del self._entries[entry.key]
        self._names[bucket].remove(entry.key)
        self._digests[bucket] ^= _digest(entry)
        self._bytes -= _size(entry)
        self._deleted.discard(entry.key)

    def _forget_deleted(self) -> None:
        """Forget the oldest deleted entries beyond the bound; by version, so all brokers forget the same."""
        deleted = (self._entries[key] for key in self._deleted)
        most = len(self._deleted) - MOST_DELETED
        for entry in heapq.nsmallest(most, deleted, key=lambda entry: (entry.version, entry.key)):
            self._remove(entry)

    # ------------------------------------------------------------------ comparison

    @property
    def digest(self) -> int:
        """The digest of all entries; equal digests: equal records."""
        return int.from_bytes(blake2b(self.bucket_digests(), digest_size=_DIGEST_BYTES - 1).digest(), "big")

    def bucket_digests(self) -> bytes:
        """The digests of all buckets, in order."""
        return b"".join(digest.to_bytes(_DIGEST_BYTES, "big") for digest in self._digests)

    def difference(self, theirs: bytes) -> Iterator[Entry]:
        """The entries here of the buckets in which a record with these `bucket_digests` differs."""
        for bucket, digest in enumerate(self._digests):
            start = bucket * _DIGEST_BYTES
            if theirs[start : start + _DIGEST_BYTES] != digest.to_bytes(_DIGEST_BYTES, "big"):
                for key in tuple(self._names[bucket]):
                    if (entry := self._entries.get(key)) is not None:
                        yield entry


class Room:
    """The room that a record has for changes which come part by part, and are entered together."""

    def __init__(self, record: ChangeRecord) -> None:
        self._record = record
        self._count, self._bytes = len(record), record.size

    def refusal(self, changes: Iterable[Change]) -> Refused | None:
        """The reason why more changes cannot be entered; None if they can be."""
        record, count, size = self._record, self._count, self._bytes
        for change in changes:
            entry = Entry(change.kind, change.name, Version(record.number + 1, ""), change.value)
            if wrong := fault(entry):
                return Refused("invalid", f"the change of {change.name[:100]!r} is not taken: {wrong}")
            present = record.get(*entry.key)
            count += (entry.value is not None) - (present is not None and present.value is not None)
            size += _size(entry) - (_size(present) if present is not None else 0)
        self._count, self._bytes = count, size
        if (count > MOST and count > len(record)) or (size > MOST_BYTES and size > record.size):
            return full()
        return None


def fault(entry: Entry) -> str:
    """The reason why something that was received or read is no entry; empty if it is one."""
    if entry.kind not in KINDS:
        return f"its kind is {entry.kind[:50]!r}"
    if len(entry.name) > MOST_NAME:
        return f"its name has more than {MOST_NAME} characters"
    if len(entry.origin) > MOST_BROKER or len(entry.version.broker) > MOST_BROKER:
        return f"the name of a broker has more than {MOST_BROKER} characters"
    if not 0 < entry.version.number <= MOST_NUMBER:
        return f"its version is {entry.version.number}"
    return _fault_of_value(entry.value) if entry.value is not None else ""


def fault_of(change: Change) -> str:
    """The reason why a change cannot be entered, whatever its version; empty if it can."""
    return fault(Entry(change.kind, change.name, Version(1, ""), change.value))


def _fault_of_value(value: dict[str, object]) -> str:
    if len(value) > MOST_SETTINGS:
        return f"its value has more than {MOST_SETTINGS} settings"
    # Others take many times their bytes in memory, or cannot be written to the file.
    if not all(isinstance(one, str | int | float | None) for one in value.values()):
        return "a setting of its value is no text, number or truth value"
    if len(msgspec.msgpack.encode(value)) > MOST_VALUE_BYTES:
        return f"its value has more than {MOST_VALUE_BYTES} bytes"
    return ""


def full() -> Refused:
    """The refusal of changes for which the record has no room."""
    return Refused(
        "too-many",
        f"the change record has {MOST:,} entries or {MOST_BYTES:,} bytes, the maximum; nothing more can be "
        "declared, and no durable subscription created, before others are deleted",
    )


def bytes_of(changes: Iterable[Change]) -> int:
    """The bytes that the entries of changes take in memory, about."""
    version = Version(0, "")
    return sum(_size(Entry(change.kind, change.name, version, change.value)) for change in changes)


def _size(entry: Entry) -> int:
    """The bytes that an entry takes in memory, about."""
    value = entry.value or {}
    texts = [entry.name, entry.origin, entry.version.broker, *value]
    texts += [one for one in value.values() if isinstance(one, str)]
    # One character beyond ASCII has all of its text take four bytes each, and four more once it was encoded.
    size = sum(len(text) if text.isascii() else 8 * len(text) for text in texts)
    return _ENTRY_BYTES + size + len(value) * _SETTING_BYTES


def _encoded(entry: Entry) -> bytes:
    """The same bytes for equal entries; where they were changed makes no difference."""
    return _encode((entry.kind, entry.name, entry.version, entry.value))


def _digest(entry: Entry) -> int:
    return int.from_bytes(blake2b(_encoded(entry), digest_size=_DIGEST_BYTES).digest(), "big")


def _bucket(key: tuple[str, str]) -> int:
    text = f"{key[0]}\0{key[1]}"
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % BUCKETS
