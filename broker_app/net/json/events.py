"""The events of the broker, as JSON objects with the member `op`.

Answers repeat the `ref` of their operation. The members of a problem (`net.problems`) are added to those of
`problem`, `unsubscribed` and `closed`. Deliveries (`message`, `received`) are joined from rendered parts.
"""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import body_of

encode = msgspec.json.encode


class _Event(msgspec.Struct, tag_field="op", tag=str.lower, kw_only=True):
    pass


class Ready(_Event):
    """The client has logged in."""

    user: str
    broker: str
    server: str
    #: the tag of the broker's journal, which positions may have before their number
    journal: str


class Done(_Event, omit_defaults=True):
    """An operation was carried out. With `unknown_position`, the journal never gave the position of `from`:
    the history begins at its oldest message."""

    ref: str | None
    unknown_position: bool = False


class Problem(_Event):
    """An operation was refused."""

    ref: str | None


class Message(_Event):
    """A message is delivered."""

    sub: str
    destination: str


class Arrived(_Event, omit_defaults=True):
    """Messages began to wait in a queue: new ones, and those that were returned."""

    sub: str
    queue: str
    seq: int
    seqs: list[int]
    ids: list[str]
    pending: int
    more: bool
    #: both are empty from a broker of before there were some
    journal: str = ""
    event_id: str = ""
    unknown_position: bool = False


class Pending(_Event, omit_defaults=True):
    """The messages that wait in a queue behind a position."""

    ref: str | None
    queue: str
    seq: int
    seqs: list[int]
    ids: list[str]
    pending: int
    more: bool
    journal: str = ""
    unknown_position: bool = False


class Received(_Event):
    """The messages that `receive` has asked for, and the reasons why others are missing."""

    ref: str | None
    missing: list[Missing]


class Missing(msgspec.Struct):
    """A message that was not delivered, by its position as it was asked for."""

    seq: int | str
    status: str
    detail: str


class ExactMessage(msgspec.Struct, kw_only=True):
    """A message with the bytes of its headers and its body as they are, for another broker."""

    seq: int
    id: str
    receipt: str
    destination: str
    time_ms: int
    attempts: int
    priority: int
    persistent: bool
    expires_ms: int
    block_base64: str
    body_base64: str


class Registered(_Event):
    """A service is registered. With `callbacks`, a callback broker may serve it."""

    ref: str | None
    id: str
    service: str
    callbacks: bool


class Unsubscribed(_Event):
    """The broker has ended a subscription."""

    sub: str


class Closed(_Event):
    """The broker ends the connection."""


Event = Ready | Done | Problem | Message | Arrived | Pending | Received | Registered | Unsubscribed | Closed
EVENTS: Final[dict[str, type[Event]]] = {kind.__name__.lower(): kind for kind in get_args(Event)}
#: events with the members of a problem
PROBLEMS: Final = (Problem, Unsubscribed, Closed)


def with_problem(event: Event, refusal: Refused) -> bytes:
    """An event with the members of a problem."""
    members: dict[str, object] = {**msgspec.to_builtins(event), **body_of(refusal)}
    return encode(members)
