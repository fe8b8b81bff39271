"""Browsing a queue, and purging it. Looking changes nothing and makes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import msgspec

from broker_app.base.refused import Refused
from broker_app.core import browse as core_browse
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.pages import MOST_BYTES, BrowsedPage, PageQuestion, RemotePages, State
from broker_app.features.jobs import filters
from broker_app.features.jobs.filters import Filter
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.masks.hiding import Hiding
from broker_app.net import operator_audit
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import JSON, NO_CONTENT, Reply, encode
from broker_app.net.http.requests import Request, boolean, whole_number
from broker_app.net.rest.messages import merged_pages, message_json
from broker_app.net.rest.messages.browse_query import (
    FILTERS,
    HEADER,
    Cursor,
    cursor_of,
    cursor_text,
    fields_of,
    filter_of,
    is_backwards,
    is_of_cluster,
    of_another_journal,
    state_of,
)
from broker_app.rules.event import BROWSE, MANAGE

READY, UNSETTLED = core_browse.READY, core_browse.UNSETTLED
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


class Shown(NamedTuple):
    """One message with its body, as far as a page wants it, and the `cursor` behind it."""

    state: str
    attempts: int
    message: Message
    due_ms: int = 0
    cursor: Cursor = (0, 0)


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
    next: Cursor | None
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
        fields = fields_of(request, address, query, chosen)
        state = state_of(query, chosen)
        backwards = is_backwards(query, state)
        hiding = request.access.hiding(request.client)
        fits = self._fits(chosen, address, hiding)
        if is_of_cluster(query) and self.others is not None and self.others.others():
            filter_json = "" if chosen.empty else msgspec.json.encode(chosen).decode()
            rows, tail = await self._merged(
                PageQuestion(
                    address=address,
                    limit=limit,
                    state=cast(State | None, state),
                    backwards=backwards,
                    where=filter_json,
                    body_bytes=self._limits.max_preview_bytes,
                ),
                query.get("after"),
                partial(_seen, hiding, fits),
            )
        else:
            after = cursor_of(query["after"], self.ids) if "after" in query else None
            rows, tail = await self._own(
                Search(address, limit, state, fits, backwards, self._limits.max_page_bytes), after, hiding
            )
        if fields:
            rows = [message_json.only(row, fields) for row in rows]
        if not fields or not message_json.BODY_FIELDS.isdisjoint(fields):
            request.audit_read("queues", address, len(rows))
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + b"]," + encode(tail)[1:])

    def _fits(self, chosen: Filter, address: str, hiding: Hiding | None) -> filters.Fits | None:
        """The filter of what a client sees at an address; None for all messages."""
        if chosen.empty:
            return None
        fits = filters.fitting(chosen, self.ids, time.time_ns() // 1_000_000)
        return fits if hiding is None else hiding.fitting(address, fits)

    async def _own(
        self, search: Search, after: Cursor | None, hiding: Hiding | None
    ) -> tuple[list[bytes], dict[str, object]]:
        """The messages of this broker, and the other members of the reply."""
        page, stopped = await self.search(search, after)
        rows = [
            message_json.browsed(
                row.message if hiding is None else hiding.shown(search.address, row.message),
                self.ids.of(row.message),
                row.state,
                self._limits.max_preview_bytes,
                self._blocks,
                row.attempts,
                row.due_ms,
                len(row.message.body),
            )
            for row in page.rows
        ]
        return rows, {
            "next": cursor_text(page.next, self.ids) if page.next else None,
            "approx_total": page.approx_total,
            "scanned": page.scanned,
            "stopped": stopped,
            "not_shown": self._broker.cluster_usage.others(),
        }

    async def _merged(
        self, question: PageQuestion, after: str | None, seen: Callable[[str, Message, bytes], Message | None]
    ) -> tuple[list[bytes], dict[str, object]]:
        """The messages of all brokers of the cluster, and the other members of the reply."""
        assert self.others is not None
        limits = self._limits
        page = await merged_pages.read(question, after, self.page, self.others, limits.max_page_bytes)
        rows = [
            message_json.browsed(
                message,
                row.id,
                row.state,
                limits.max_preview_bytes,
                self._blocks,
                row.attempts,
                row.due_ms,
                row.size,
                broker,
            )
            for broker, row in page.rows
            if (message := seen(question.address, row.message(), row.id)) is not None
        ]
        return rows, page.facts

    async def page(self, question: PageQuestion) -> BrowsedPage:
        """The messages of this broker for one of the cluster that asks. Raises Refused."""
        if question.after is not None and question.tag != self.ids.tag:
            raise of_another_journal()
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

    async def search(self, search: Search, after: Cursor | None) -> tuple[Page, bool]:
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

    def _run(self, search: Search, after: Cursor | None) -> Page:
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


def _seen(
    hiding: Hiding | None, fits: filters.Fits | None, address: str, message: Message, message_id: bytes
) -> Message | None:
    """A message of another broker as a client sees it. None if that broker, which knows no client, has
    found it by what is hidden from this one."""
    shown = message if hiding is None else hiding.shown(address, message)
    return None if shown is not message and fits is not None and not fits(message, message_id) else shown


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
