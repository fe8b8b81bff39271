"""Browsing a queue, and purging it. Looking changes nothing and makes nothing."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.core import browse as core_browse
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import parse
from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Queue
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.pages import MOST_BYTES, BrowsedPage, PageQuestion, RemotePages
from broker_app.features.jobs import filters
from broker_app.features.jobs.filters import Filter
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.net import operator_audit
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.replies import JSON, NO_CONTENT, Reply, encode
from broker_app.net.http.requests import Request, boolean, several, whole_number
from broker_app.net.rest.messages import merged_pages, message_json
from broker_app.rules.event import BROWSE, MANAGE, READ

READY, UNSETTLED = core_browse.READY, core_browse.UNSETTLED
#: values of `state`; REST clients call an unsettled message `leased`
_STATES = {"ready": READY, "unsettled": UNSETTLED, "leased": UNSETTLED, "delayed": core_browse.DELAYED}
#: how many messages a page looks at, and how long, before it ends without being full
_MAX_SCANNED = 50_000
_MAX_SEARCH_S = 2.0
#: how many of them, and how long, in one go; then others have their turn
_RUN = 2_000
_SLICE_S = 0.005
#: bytes of bodies that are read at once for a filter
_READ_BYTES = 1024 * 1024
#: bodies read from the journal in one go, at first; then as many as the size of the last allows
_FIRST_RUN = 16
_MAX_RUN = 256

_Cursor = tuple[int, int]


class Shown(NamedTuple):
    """One message with its body, as far as a page wants it, and the `cursor` behind it."""

    state: str
    attempts: int
    message: Message
    due_ms: int = 0
    cursor: _Cursor = (0, 0)


class Search(NamedTuple):
    """The request for a page, `backwards` from the end; `fits` is the filter, if any. A page with bodies of
    `most_bytes` has no further message."""

    address: str
    limit: int
    state: str | None = None
    fits: filters.Fits | None = None
    backwards: bool = False
    most_bytes: int = 1 << 62


class Page(NamedTuple):
    rows: list[Shown]
    next: _Cursor | None
    approx_total: int
    scanned: int


class Browser:
    """Endpoints that look at messages."""

    def __init__(
        self,
        engine_client: EngineClient,
        journal_read: JournalRead,
        blocks: message_json.Blocks,
        limits: RestLimits,
    ) -> None:
        self._engine_client = engine_client
        self._read = journal_read
        self._blocks = blocks
        self._limits = limits
        self.ids = engine_client.engine.broker.turn.ids
        #: the other brokers of a cluster, once this one has joined it
        self.others: RemotePages | None = None

    @property
    def _broker(self) -> Broker:
        return self._engine_client.engine.broker

    # ------------------------------------------------------------------ endpoints

    async def messages(self, request: Request) -> Reply:
        """GET queues/{name}/messages"""
        query = request.query(
            ("queue", "limit", "after", "order", "state", "fields", "scope", *FILTERS), HEADER
        )
        address = request.permitted(BROWSE, "/queue/" + request.name).address
        limit = whole_number(query, "limit", 50, 1, self._limits.max_page)
        chosen = filter_of(query)
        fields = _fields(request, address, query, chosen)
        state = _state(query, chosen)
        backwards = _backwards(query, state)
        if _is_of_cluster(query) and self.others is not None and self.others.others():
            filter_json = "" if chosen.empty else msgspec.json.encode(chosen).decode()
            rows, tail = await self._merged(
                PageQuestion(
                    address=address, limit=limit, state=state, backwards=backwards, where=filter_json,
                    body_bytes=self._limits.max_preview_bytes,
                ),
                query.get("after"),
            )  # fmt: skip
        else:
            after = _cursor(query["after"], self.ids) if "after" in query else None
            fits = None if chosen.empty else filters.fitting(chosen, self.ids, time.time_ns() // 1_000_000)
            rows, tail = await self._own(
                Search(address, limit, state, fits, backwards, self._limits.max_page_bytes), after
            )
        if fields:
            rows = [message_json.only(row, fields) for row in rows]
        if not fields or not message_json.BODY_FIELDS.isdisjoint(fields):
            request.audit_read("queues", address, len(rows))
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + b"]," + encode(tail)[1:])

    async def _own(self, search: Search, after: _Cursor | None) -> tuple[list[bytes], dict[str, object]]:
        """The messages of this broker, and the other members of the reply."""
        page, stopped = await self.search(search, after)
        rows = [
            message_json.browsed(
                row.message,
                self.ids.of(row.message),
                row.state,
                self._limits.max_preview_bytes,
                self._blocks,
                row.attempts,
                row.due_ms,
            )
            for row in page.rows
        ]
        return rows, {
            "next": _cursor_text(page.next, self.ids) if page.next else None,
            "approx_total": page.approx_total,
            "scanned": page.scanned,
            "stopped": stopped,
            "not_shown": self._broker.cluster_usage.others(),
        }

    async def _merged(
        self, question: PageQuestion, after: str | None
    ) -> tuple[list[bytes], dict[str, object]]:
        """The messages of all brokers of the cluster, and the other members of the reply."""
        assert self.others is not None
        limits = self._limits
        page = await merged_pages.read(question, after, self.page, self.others, limits.max_page_bytes)
        rows = [
            message_json.browsed(
                *(row.message(), row.id, row.state, limits.max_preview_bytes),
                *(self._blocks, row.attempts, row.due_ms, row.size, broker),
            )
            for broker, row in page.rows
        ]
        return rows, page.facts

    async def page(self, question: PageQuestion) -> BrowsedPage:
        """The messages of this broker for one of the cluster that asks. Raises Refused."""
        if question.after is not None and question.tag != self.ids.tag:
            raise _of_another_journal()
        chosen = filters.of(msgspec.json.decode(question.where)) if question.where else Filter()
        fits = None if chosen.empty else filters.fitting(chosen, self.ids, time.time_ns() // 1_000_000)
        search = Search(
            *(question.address, question.limit, question.state, fits, question.backwards), MOST_BYTES
        )
        page, stopped = await self.search(search, question.after)
        return BrowsedPage(
            rows=[
                merged_pages.row_of(row, self.ids.of(row.message), question.body_bytes) for row in page.rows
            ],
            next=page.next,
            total=page.approx_total,
            scanned=page.scanned,
            stopped=stopped,
            tag=self.ids.tag,
        )

    async def purge(self, request: Request) -> Reply:
        """DELETE queues/{name}/messages?all=true"""
        query = request.query(("queue", "all"))
        address = request.permitted(MANAGE, "/queue/" + request.name).address
        if not boolean(query, "all"):
            raise invalid("query/all", "must be true: everything that waits in the queue is removed")
        pending_reply = self._engine_client.pending_reply()
        queue = self._broker.destinations.queues.get(address)
        waiting = queue.depth if queue is not None else 0
        self._engine_client.submit(c.Purge(self._engine_client.peer, address, pending_reply))
        await self._engine_client.answer(pending_reply)
        request.audit(operator_audit.PURGED, "queues", address, messages=waiting)
        return NO_CONTENT

    # ------------------------------------------------------------------ looking (between two batches)

    async def search(self, search: Search, after: _Cursor | None) -> tuple[Page, bool]:
        """One page, in as many steps as needed; and True if it ended at the limit of scanned messages or of
        time."""
        clock = time.monotonic
        ends_s = clock() + _MAX_SEARCH_S
        page = Page([], after, 0, 0)
        size = 0
        while True:
            left = search._replace(limit=search.limit - len(page.rows))
            run = await self._engine_client.inspect(partial(self._run, left, page.next))
            page = Page(page.rows + run.rows, run.next, run.approx_total, page.scanned + run.scanned)
            size += sum(len(row.message.body) for row in run.rows)
            full = len(page.rows) >= search.limit or size >= search.most_bytes
            if page.next is None or full:
                return page, False
            if page.scanned >= _MAX_SCANNED or clock() >= ends_s:
                return page, True

    def _run(self, search: Search, after: _Cursor | None) -> Page:
        """The part of the page that one step finds."""
        queue = queue_of(self._broker, search.address)
        total = queue.depth + queue.unsettled
        # One more than requested shows whether there is another page.
        plain = search.fits is None and search.state is None
        most = search.limit if plain else _RUN
        if search.state == core_browse.DELAYED:
            found = core_browse.browse_delayed(self._broker, search.address, after=after, limit=most + 1)
            total = self._broker.scheduler.delayed(search.address)
        else:
            backwards = search.backwards
            found = (
                core_browse.browse(
                    self._broker, queue.address, after=after, limit=most + 1, backwards=backwards
                )
                or []
            )
        rows, scanned = (
            (self._with_bodies(queue, found[:most], search.most_bytes), 0)
            if plain
            else self._filter(queue, found[:most], search)
        )
        scanned = scanned or len(rows)
        more = scanned and found[scanned - 1] is not found[-1]
        return Page(rows, found[scanned - 1].cursor if more else None, total, scanned)

    def _filter(
        self, queue: Queue, found: Sequence[core_browse.Item], search: Search
    ) -> tuple[list[Shown], int]:
        """The matching messages, and the number of messages that were scanned."""
        until_s = time.monotonic() + _SLICE_S
        rows: list[Shown] = []
        size = read = scanned = 0
        run = _FIRST_RUN
        while scanned < len(found):
            for item, message in self._loaded(queue, found[scanned : scanned + run], search):
                scanned += 1
                if message is None:
                    continue
                read += len(message.body)
                if search.fits is None or search.fits(message, self.ids.of(message)):
                    rows.append(Shown(item.state, item.attempts, message, item.due_ms, item.cursor))
                    size += len(message.body)
                full = len(rows) == search.limit or size >= search.most_bytes
                if full or time.monotonic() >= until_s:
                    return rows, scanned
            run = max(1, min(_MAX_RUN, _READ_BYTES // (read // scanned + 1)))
        return rows, scanned

    def _loaded(
        self, queue: Queue, part: Sequence[core_browse.Item], search: Search
    ) -> Iterator[tuple[core_browse.Item, Message | None]]:
        """Each with its message; None for one that is in another state than is wanted."""
        fits_state = [search.state is None or item.state == search.state for item in part]
        outside = [
            item.position for item, fits in zip(part, fits_state, strict=True) if fits and not item.message
        ]
        bodies = iter(load(self._read, queue, outside))
        for item, fits in zip(part, fits_state, strict=True):
            yield item, (item.message or next(bodies)) if fits else None

    def _with_bodies(self, queue: Queue, wanted: Sequence[core_browse.Item], most_bytes: int) -> list[Shown]:
        """The messages with their bodies, paged ones read from the journal; fewer where a page is full
        of bytes."""
        rows: list[Shown] = []
        size = start = 0
        run = _FIRST_RUN
        while start < len(wanted):
            part = wanted[start : start + run]
            bodies = iter(load(self._read, queue, [item.position for item in part if item.message is None]))
            for item in part:
                message = item.message or next(bodies)
                size += len(message.body)
                rows.append(Shown(item.state, item.attempts, message, item.due_ms, item.cursor))
            start += len(part)
            if size >= most_bytes and start < len(wanted):
                break
            average = size // len(rows) + 1
            run = max(1, min(_MAX_RUN, (most_bytes - size) // average))
        return rows


def queue_of(broker: Broker, address: str) -> Queue:
    """The queue of an address. Refused when there is none."""
    queue = broker.destinations.queues.get(address)
    if queue is None:
        raise Refused("not-found", f"there is no queue {address.removeprefix('/queue/')!r}")
    return queue


def load(read: JournalRead, queue: Queue, positions: Sequence[int]) -> list[Message]:
    """Messages of a queue that are not in memory."""
    records = read(positions) if positions else []
    return [
        queue.reader.message(record, position) for record, position in zip(records, positions, strict=True)
    ]


def may_read(request: Request, address: str) -> bool:
    """True if the client may see the bodies of what it browses."""
    return request.access.allows(request.client, READ, parse(address))


# ---------------------------------------------------------------------- the query

#: the parts of `where`, each as a parameter of its own; headers are `header.<name>`
_TEXTS, _AGES, HEADER = ("q", "selector", "reason", "origin"), ("age_gt_s", "age_lt_s"), "header."
FILTERS = ("where", *_TEXTS, *_AGES)


def filter_of(query: dict[str, str]) -> Filter:
    """The filter of all conditions of a query. Raises Refused."""
    parts: dict[str, object] = {name: query[name] for name in _TEXTS if name in query}
    for name in _AGES:
        if name in query:
            try:
                parts[name] = float(query[name])
            except ValueError:
                raise invalid(f"query/{name}", "must be a number of seconds", query[name]) from None
    headers = {name[len(HEADER) :]: value for name, value in query.items() if name.startswith(HEADER)}
    if headers:
        parts["headers"] = headers
    if "where" in query and parts:
        raise invalid("query/where", "contains all conditions; leave the other parameters out")
    return filters.of(query.get("where") or parts)


def _state(query: dict[str, str], chosen: Filter) -> str | None:
    value = query.get("state", chosen.state)
    if "state" in query and chosen.state is not None:
        raise invalid("query/where", "contains the state already; leave the parameter state out")
    if value is not None and value not in _STATES:
        raise unknown("query/state", value, _STATES, "state")
    return _STATES[value] if value is not None else None


def _backwards(query: dict[str, str], state: str | None) -> bool:
    order = query.get("order", "oldest")
    if order not in ("oldest", "newest"):
        raise unknown("query/order", order, ("oldest", "newest"), "order")
    if order == "newest" and state == core_browse.DELAYED:
        raise invalid("query/order", "delayed messages can only be listed in the order of their due times")
    return order == "newest"


def _fields(request: Request, address: str, query: dict[str, str], chosen: Filter) -> Collection[str]:
    """The members of a row; none stands for all. Bodies, and what is found by them, need a right of their
    own. Raises Refused."""
    names = query["fields"].split(",") if "fields" in query else ()
    fields = several("query/fields", names, message_json.BROWSED_FIELDS, "field")
    if chosen.q is not None or not message_json.BODY_FIELDS.isdisjoint(fields):
        request.permitted(READ, address)
    if "body" in fields:
        fields.append("body_base64")  # what a body that is no text is called
    if not fields and not may_read(request, address):
        return message_json.BROWSED_FIELDS - message_json.BODY_FIELDS
    return fields


def _of_another_journal() -> Refused:
    return invalid(
        "query/after",
        "is of a page of another journal: a broker was set up again or restored since; begin at the first "
        "page",
    )


def _is_of_cluster(query: dict[str, str]) -> bool:
    scope = query.get("scope", "cluster")
    if scope not in ("cluster", "broker"):
        raise unknown("query/scope", scope, ("cluster", "broker"), "scope")
    return scope == "cluster"


def _cursor_text(cursor: _Cursor, ids: MessageIds) -> str:
    text = f"{ids.tag:x}.{cursor[0]}.{cursor[1]}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _cursor(text: str, ids: MessageIds) -> _Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        journal, priority, position = decoded.split(".")
        if not (priority.isascii() and priority.isdigit() and position.isascii() and position.isdigit()):
            raise ValueError(text)
        if len(priority) > 14 or len(position) > 18:
            raise ValueError(text)
    except (ValueError, binascii.Error):
        raise invalid("query/after", "is not a cursor of an earlier page", text) from None
    if journal != f"{ids.tag:x}":
        raise _of_another_journal()
    return int(priority), int(position)
