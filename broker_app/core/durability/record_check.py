"""Checks whether a stored record makes sense: one that does not was damaged before its checksum was made."""

from __future__ import annotations

from broker_app.core.durability import records as r
from broker_app.core.message import MessageIds

_PRIORITIES = 10


def check(record: bytes, names: int) -> None:
    """Raise ValueError for a record that no broker writes; `names` is the size of the table of its batch."""
    if len(record) < r.HEAD_SIZE:
        raise ValueError(f"a record of {len(record)} bytes is too short")
    _, kind, version, flags, priority, destination = r.unpack_head(record)
    if kind not in _CHECKS:
        raise ValueError(f"a record has the unknown type {kind}")
    if not r.is_known(kind, version):
        raise ValueError(f"a record of type {kind} has the unknown version {version}")
    _check_name(destination, names)
    _CHECKS[kind](record, flags, priority, names)


def _published(record: bytes, flags: int, priority: int, names: int) -> None:
    if len(record) < r.PUBLISHED_SIZE + r.OPTIONAL_SIZES[flags]:
        raise ValueError("a message is shorter than its fields")
    if priority >= _PRIORITIES:
        raise ValueError(f"a message has the priority {priority}")
    if flags & r.HAS_ADDRESS and len(record) < r.PUBLISHED_SIZE + r.OPTIONAL_SIZES[flags] + 2:
        raise ValueError("a message is shorter than its address")
    block_at, block_length = r.block_at(record, 0, flags), r.unpack_published(record)[6]
    if block_at + block_length > len(record):
        raise ValueError("a message is shorter than its headers")
    r.address_of(record, 0, flags)
    if flags & r.HAS_ID:
        MessageIds.position(record[r.PUBLISHED_SIZE : r.PUBLISHED_SIZE + r.ID_SIZE].decode())
    client, origin = r.client_of(record, 0, flags), r.origin_of(record, 0, flags)
    _check_client(client, names)
    if origin is not None:
        _check_name(origin[0], names)


def _acked(record: bytes, cause: int, _: int, names: int) -> None:
    if cause >= len(r.CAUSES):
        raise ValueError(f"messages were removed for the unknown cause {cause}")
    _check_rows(record, 8, names)


def _returned(record: bytes, given_back: int, _: int, names: int) -> None:
    if given_back > r.GIVEN_BACK:
        raise ValueError(f"deliveries were returned in the unknown way {given_back}")
    _check_rows(record, 16, names)


def _delivered(record: bytes, _: int, priority: int, names: int) -> None:
    if priority >= _PRIORITIES:
        raise ValueError(f"deliveries have the priority {priority}")
    if len(record) != r.HEAD_SIZE + 8:
        raise ValueError(f"a record of deliveries has {len(record)} bytes")


def _subscribed(record: bytes, shared: int, _: int, names: int) -> None:
    if shared > 1 or len(record) < r.HEAD_SIZE + 8 or not r.terms(record, 0, len(record)).filter:
        raise ValueError("a durable subscription has no topic")


def _forgotten(record: bytes, _flags: int, _priority: int, names: int) -> None:
    if len(record) != r.HEAD_SIZE:
        raise ValueError(f"the end of a subscription has {len(record)} bytes")


def _offset_set(record: bytes, _flags: int, _priority: int, names: int) -> None:
    if len(record) < r.HEAD_SIZE + 24:
        raise ValueError("an offset is shorter than its numbers")
    r.offset_of(record, 0, len(record))


def _check_rows(record: bytes, plain: int, names: int) -> None:
    """Check the columns of a record; a row of the first version has `plain` bytes."""
    kind, version = record[r.TYPE_AT], record[r.VERSION_AT]
    row = r.row_size(kind, version) or plain
    if (len(record) - r.HEAD_SIZE) % row:
        raise ValueError(f"a record of type {kind} has {len(record)} bytes, which are no whole rows")
    for client in r.clients(record, 0, len(record)) or ():
        _check_client(client, names)


def _check_client(index: int, names: int) -> None:
    if index != r.NO_CLIENT:
        _check_name(index, names)


def _check_name(index: int, names: int) -> None:
    if index >= names:
        raise ValueError(f"a record names entry {index} of a table of {names}")


_CHECKS = {
    r.PUBLISHED: _published,
    r.ACKED: _acked,
    r.DELIVERED: _delivered,
    r.RETURNED: _returned,
    r.SUBSCRIBED: _subscribed,
    r.FORGOTTEN: _forgotten,
    r.OFFSET_SET: _offset_set,
}
