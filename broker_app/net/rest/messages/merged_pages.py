"""Pages of a queue that lies in several brokers of a cluster: the messages of all, by priority and time.

Each broker keeps its own order. A cursor has the place in each broker whose messages are not all shown.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, NamedTuple, Protocol, cast

import msgspec

from broker_app.base.refused import Refused
from broker_app.core.inspection.browse import DELAYED
from broker_app.core.message import Message
from broker_app.features.cluster.pages import BrowsedMessage, BrowsedPage, PageQuestion, RemotePages, State
from broker_app.net.http.refusals import invalid

_PREFIX: Final = "m."
#: the (tag, priority, position) behind which a broker goes on; None: it begins
_Number = Annotated[int, msgspec.Meta(ge=0)]
_Places = dict[str, tuple[_Number, _Number, _Number] | None]
_places: msgspec.msgpack.Decoder[_Places] = msgspec.msgpack.Decoder(_Places)
_ReadOwn = Callable[[PageQuestion], Awaitable[BrowsedPage]]


class _Shown(Protocol):
    """A message as this broker shows it."""

    @property
    def state(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    @property
    def message(self) -> Message: ...
    @property
    def due_ms(self) -> int: ...
    @property
    def cursor(self) -> tuple[int, int]: ...


class MergedPage(NamedTuple):
    """Messages with their brokers, and the other members of the reply."""

    rows: list[tuple[str, BrowsedMessage]]
    facts: dict[str, object]


async def read(
    question: PageQuestion, after: str | None, own: _ReadOwn, others: RemotePages, most_bytes: int
) -> MergedPage:
    """The next page of all brokers; those that cannot be asked, or do not answer in time, are named. Raises
    Refused if no broker has the queue, or this one refuses."""
    places = _decoded(after) if after is not None else dict.fromkeys((others.name, *others.linked()))
    answers = await asyncio.gather(
        *(_ask(question, name, place, own, others) for name, place in places.items())
    )
    pages: dict[str, BrowsedPage] = {}
    missing = set(others.others()) - set(others.linked())
    absent: Refused | None = None
    for name, answer in zip(places, answers, strict=True):
        if isinstance(answer, BrowsedPage):
            pages[name] = answer
        elif answer.code == "not-found":
            absent = answer if absent is None or name == others.name else absent
        elif name == others.name:
            raise answer
        else:
            missing.add(name)
    if not pages and absent is not None:
        raise absent
    rows = _merged(question, pages, most_bytes)
    left = _left(places, pages, rows)
    return MergedPage(
        rows,
        {
            "next": _encoded(left) if left else None,
            "approx_total": sum(page.total for page in pages.values()),
            "scanned": sum(page.scanned for page in pages.values()),
            "stopped": any(page.stopped for page in pages.values()),
            "not_shown": sorted(missing),
            "broker": others.name,
        },
    )


async def _ask(
    question: PageQuestion,
    name: str,
    place: tuple[int, int, int] | None,
    own: _ReadOwn,
    others: RemotePages,
) -> BrowsedPage | Refused:
    if place is not None:
        tag, *cursor = place
        question = msgspec.structs.replace(question, tag=tag, after=tuple(cursor))
    try:
        return await (own(question) if name == others.name else others.ask(name, question))
    except Refused as refusal:
        return refusal


def _merged(
    question: PageQuestion, pages: Mapping[str, BrowsedPage], most_bytes: int
) -> list[tuple[str, BrowsedMessage]]:
    """The first messages of all pages together, as many as were asked for."""
    rows: list[tuple[str, BrowsedMessage]] = []
    waiting = {name: iter(page.rows) for name, page in pages.items()}
    heads = {name: row for name, left in waiting.items() if (row := next(left, None)) is not None}
    size = 0
    while heads and len(rows) < question.limit and size < most_bytes:
        name = min(heads, key=lambda one: (*_order(question, heads[one]), one))
        row = heads.pop(name)
        rows.append((name, row))
        size += len(row.body)
        if (following := next(waiting[name], None)) is not None:
            heads[name] = following
        elif pages[name].next is not None:
            break  # its next message, which is not here, may come before those of others
    return rows


def _order(question: PageQuestion, row: BrowsedMessage) -> tuple[int, int]:
    if question.state == DELAYED:
        return row.due_ms, 0
    return (row.priority, -row.time_ms) if question.backwards else (-row.priority, row.time_ms)


def _left(
    places: _Places, pages: Mapping[str, BrowsedPage], rows: list[tuple[str, BrowsedMessage]]
) -> _Places:
    """The places of the brokers whose messages are not all shown."""
    left: _Places = {}
    for name, page in pages.items():
        shown = [row for broker, row in rows if broker == name]
        if len(shown) < len(page.rows):
            left[name] = (page.tag, *shown[-1].cursor) if shown else places[name]
        elif page.next is not None:
            left[name] = (page.tag, *page.next)
    return left


def _encoded(places: _Places) -> str:
    return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(places)).decode().rstrip("=")


def _decoded(text: str) -> _Places:
    """The places of a cursor. Raises Refused."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError(text)
        encoded = text.removeprefix(_PREFIX)
        return _places.decode(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise invalid(
            "query/after", "is not a cursor of an earlier page of this cluster; begin at the first page", text
        ) from None


def row_of(shown: _Shown, message_id: bytes, body_bytes: int) -> BrowsedMessage:
    """A message of this broker for another one."""
    message = shown.message
    envelope = message.envelope
    return BrowsedMessage(
        id=message_id,
        cursor=shown.cursor,
        position=message.position,
        time_ms=message.time_ms,
        expires_ms=message.expires_ms,
        due_ms=shown.due_ms,
        state=cast(State, shown.state),
        attempts=shown.attempts,
        persistent=envelope.persistent,
        priority=envelope.priority,
        size=len(message.body),
        address=envelope.address,
        block=envelope.block,
        body=message.body[:body_bytes],
    )
