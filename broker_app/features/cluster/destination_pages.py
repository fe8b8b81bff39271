"""Destinations at the brokers of a cluster, a page at a time: the question, and the answer of one broker."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: destinations of a page
MOST_DESTINATIONS: Final = 500
_Count = Annotated[int, msgspec.Meta(ge=0)]


class DestinationsQuestion(msgspec.Struct, array_like=True, frozen=True, kw_only=True, tag=True):
    """Asks for queues and topics by address, behind the cursor `after`; `q` has words of the address or a
    pattern, and `address` is that of the only one that is asked for, else empty."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_DESTINATIONS)]
    after: str | None = None
    q: str = ""
    address: str = ""


class BrokerDestination(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A destination at one broker: its messages there, its consumers that are connected there, and its limits
    (0: none), which are of the broker or by `scope` of the cluster."""

    address: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    depth: _Count
    unsettled: _Count
    consumers: _Count
    max_messages: _Count
    max_bytes: _Count
    max_producers: _Count
    scope: Annotated[str, msgspec.Meta(max_length=20)]


class DestinationsPage(msgspec.Struct, array_like=True, kw_only=True):
    """The answer: destinations in the order of their addresses, whether there are `more`, and how many there
    are on all pages."""

    rows: Annotated[list[BrokerDestination], msgspec.Meta(max_length=MOST_DESTINATIONS)]
    more: bool
    total: _Count
