"""A record of the journal whose body is large, in two parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self


class LargeRecord(bytes):
    """A PUBLISHED record up to its body, which was read into memory of its own: nothing has to copy it."""

    body: bytes

    def __new__(cls, head: bytes, body: bytes) -> Self:
        record = super().__new__(cls, head)
        record.body = body
        return record


def large_body(record: bytes) -> bytes:
    """The body of a record that ends where its body begins: that of a LargeRecord, or none."""
    return record.body if isinstance(record, LargeRecord) else b""


def bytes_of(records: Iterable[bytes]) -> int:
    """The bytes of records with their bodies. Most are whole, and cost no call each."""
    return sum([len(one) + len(one.body) if type(one) is LargeRecord else len(one) for one in records])
