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

#: the kinds of entries: settings of a destination or pattern, a durable subscription, and which broker gives
#: versions since an administrator has chosen another one than the configuration
DESTINATION, SUBSCRIPTION, KEEPER = KINDS = ("destination", "subscription", "keeper")

BUCKETS: Final = 1024
#: entries that are not deleted; one of another name beyond them is refused
MOST: Final = 200_000
#: deleted entries, the newest; a broker that was away for more deletions brings older ones back
MOST_DELETED: Final = 10_000
MOST_NAME: Final = 1_000
MOST_VALUE_BYTES: Final = 32 * 1024
#: a version beyond it is no version that brokers have counted up to
MOST_NUMBER: Final = 1 << 52
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
        self._number = 0
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
        self._number += 1
        return Version(self._number, broker)

    def merge(self, entries: Iterable[Entry]) -> list[Entry]:
        """Take entries that are newer; return them. Those that are no entries of this version of MOM, or too
        many, are left out."""
        newer = [entry for entry in entries if fault(entry) == "" and self._take(entry)]
        if len(self._deleted) > MOST_DELETED:
            self._forget_deleted()
        return newer

    def _take(self, entry: Entry) -> bool:
        present = self._entries.get(entry.key)
        if present is None:
            if entry.value is not None and len(self) >= MOST:
                return False
        elif present.version > entry.version or (
            present.version == entry.version and _encoded(present) >= _encoded(entry)
        ):
            return False
        else:
            self._remove(present)
        bucket = _bucket(entry.key)
        self._entries[entry.key] = entry
        self._names[bucket].add(entry.key)
        self._digests[bucket] ^= _digest(entry)
        if entry.value is None:
            self._deleted.add(entry.key)
        self._number = max(self._number, entry.version.number)
        return True

    def _remove(self, entry: Entry) -> None:
        bucket = _bucket(entry.key)
        del self._entries[entry.key]
        self._names[bucket].remove(entry.key)
        self._digests[bucket] ^= _digest(entry)
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


def fault(entry: Entry) -> str:
    """The reason why something that was received or read is no entry; empty if it is one."""
    if entry.kind not in KINDS:
        return f"its kind is {entry.kind[:50]!r}"
    if len(entry.name) > MOST_NAME or len(entry.origin) > MOST_NAME or len(entry.version.broker) > MOST_NAME:
        return f"a name has more than {MOST_NAME} characters"
    if not 0 < entry.version.number <= MOST_NUMBER:
        return f"its version is {entry.version.number}"
    if entry.value is not None and len(msgspec.msgpack.encode(entry.value)) > MOST_VALUE_BYTES:
        return f"its value has more than {MOST_VALUE_BYTES} bytes"
    return ""


def _encoded(entry: Entry) -> bytes:
    """The same bytes for equal entries; where they were changed makes no difference."""
    return _encode((entry.kind, entry.name, entry.version, entry.value))


def _digest(entry: Entry) -> int:
    return int.from_bytes(blake2b(_encoded(entry), digest_size=_DIGEST_BYTES).digest(), "big")


def _bucket(key: tuple[str, str]) -> int:
    text = f"{key[0]}\0{key[1]}"
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") % BUCKETS
