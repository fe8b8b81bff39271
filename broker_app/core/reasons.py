"""Reasons in records: why a delivery failed, and why a message expired, was dead-lettered or discarded.

A record holds the code of its reason, which is the place in `REASONS`: so names are only added at the end.
The header `dead-reason` of a dead letter has the name."""

from __future__ import annotations

from typing import Final

NACKED: Final = "NACKED"
LEASE_ENDED: Final = "LEASE_ENDED"
CONSUMER_LEFT: Final = "CONSUMER_LEFT"
REJECTED: Final = "REJECTED"
UNDELIVERABLE: Final = "UNDELIVERABLE"
MAX_ATTEMPTS: Final = "MAX_ATTEMPTS"
EXPIRED: Final = "EXPIRED"
OLDEST: Final = "OLDEST"
LOW_PRIORITY: Final = "LOW_PRIORITY"
DAMAGED: Final = "DAMAGED"

#: reasons of messages that are removed to make room for others
NO_ROOM: Final = frozenset((OLDEST, LOW_PRIORITY))

#: by code; code 0 is a reason that is not known, as in records of former versions
REASONS: Final = (
    "",
    NACKED,  # the consumer gave the delivery back
    LEASE_ENDED,  # it was not settled in time
    CONSUMER_LEFT,  # its subscription or connection ended
    REJECTED,  # the consumer does not want the message again
    UNDELIVERABLE,  # the remote broker of a bridge refused it
    MAX_ATTEMPTS,  # it was delivered too often
    EXPIRED,
    OLDEST,  # removed to make room for new messages
    LOW_PRIORITY,  # the same, in a queue that removes the lowest priority first
    DAMAGED,  # the journal could not read it
)
_CODES: Final = {name: code for code, name in enumerate(REASONS)}


def code_of(name: str) -> int:
    """The code of a reason; 0 for one that has none."""
    return _CODES.get(name, 0)


def name_of(code: int) -> str:
    """The name of a reason; empty when it is not known, as one of a newer version."""
    return REASONS[code] if code < len(REASONS) else ""
