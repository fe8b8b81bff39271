"""Browsing a queue, and purging it. Looking changes nothing and makes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

import msgspec

from broker_app.base.audit_actions import MESSAGES_PURGED, QUEUE_READ
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.inspection import browse as core_browse
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.pages import MOST_BYTES, BrowsedPage, PageQuestion, RemotePages, State
from broker_app.features.jobs import filters
from broker_app.features.jobs.filters import Filter
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.masks.user_masks import UserMasks
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
_RUN = 256
_SLICE_S = 0.005

_Row = TypeVar("_Row")


class Shown(NamedTuple):
    """One message with its body, and the `cursor` behind it."""

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


class BrowsePage(NamedTuple, Generic[_Row]):
    """Rows of messages whose bodies have `size` bytes in all; `next` is the cursor where others follow."""

    rows: list[_Row]
    next: Cursor | None
    approx_total: int
    scanned: int
    size: int


class _Step(NamedTuple):
    """The messages that one step looks at, and whether others follow."""

    found: Sequence[core_browse.Item]
    more: bool


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
        masks = request.access.masks_of(request.client)
        fits = self._fits(chosen, address, masks)
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
                partial(_seen, masks, fits),
            )
        else:
            after = cursor_of(query["after"], self.ids) if "after" in query else None
            rows, tail = await self._own(
                Search(address, limit, state, fits, backwards, self._limits.max_page_bytes), after, masks
            )
        if fields:
            rows = [message_json.only(row, fields) for row in rows]
        if not fields or not message_json.BODY_FIELDS.isdisjoint(fields):
            request.audit_read(QUEUE_READ, address, len(rows))
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + b"]," + encode(tail)[1:])

    def _fits(self, chosen: Filter, address: str, masks: UserMasks) -> filters.Fits | None:
        """The filter of what a client sees at an address; None for all messages."""
        if chosen.empty:
            return None
        fits = filters.fitting(chosen, self.ids, time.time_ns() // 1_000_000)
        return masks.fitting(address, fits)

    async def _own(
        self, search: Search, after: Cursor | None, masks: UserMasks
    ) -> tuple[list[bytes], dict[str, object]]:
        """The messages of this broker, and the other members of the reply."""
        page, stopped = await self.search(search, after, partial(self._row, search.address, masks))
        return page.rows, {
            "next": cursor_text(page.next, self.ids) if page.next else None,
            "approx_total": page.approx_total,
            "scanned": page.scanned,
            "stopped": stopped,
            "not_shown": self._broker.cluster_usage.others(),
        }

    def _row(self, address: str, masks: UserMasks, row: Shown) -> bytes:
        """A message as a client sees it."""
        return message_json.browsed(
            masks.shown(address, row.message),
            self.ids.of(row.message),
            row.state,
            self._limits.max_preview_bytes,
            self._blocks,
            row.attempts,
            row.due_ms,
            len(row.message.body),
        )

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
        chosen = _filter_in(question.where)
        fits = None if chosen.empty else filters.fitting(chosen, self.ids, time.time_ns() // 1_000_000)
        search = Search(
            *(question.address, question.limit, question.state, fits, question.backwards), MOST_BYTES
        )
        page, stopped = await self.search(
            search,
            question.after,
            lambda row: merged_pages.row_of(row, self.ids.of(row.message), question.body_bytes),
        )
        return BrowsedPage(
            rows=page.rows,
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
        request.audit(MESSAGES_PURGED, address, messages=waiting)
        return NO_CONTENT

    # ------------------------------------------------------------------ looking (between two batches)

    async def search(
        self, search: Search, after: Cursor | None, show: Callable[[Shown], _Row]
    ) -> tuple[BrowsePage[_Row], bool]:
        """One page, in as many steps as needed; and True if it ended at the limit of scanned messages or of
        time. `show` makes its rows; a body that they refer to is not counted by the budget any more."""
        clock = time.monotonic
        ends_s = clock() + _MAX_SEARCH_S
        page: BrowsePage[_Row] = BrowsePage([], after, 0, 0, 0)
        while True:
            left = search._replace(
                limit=search.limit - len(page.rows), most_bytes=search.most_bytes - page.size
            )
            find, stored = partial(self._following, left, page.next), partial(_stored, left)
            async with self._engine_client.read_in_turn(find, stored, partial(self._run, left)) as run:
                page = BrowsePage(
                    page.rows + [show(row) for row in run.rows],
                    run.next,
                    run.approx_total,
                    page.scanned + run.scanned,
                    page.size + run.size,
                )
                run.rows.clear()
            full = len(page.rows) >= search.limit or page.size >= search.most_bytes
            if page.next is None or full:
                return page, False
            if page.scanned >= _MAX_SCANNED or clock() >= ends_s:
                return page, True

    def _following(self, search: Search, after: Cursor | None) -> _Step:
        broker, address = self._broker, queue_of(self._broker, search.address).address
        plain = search.fits is None and search.state is None
        count = min(search.limit, _RUN) if plain else _RUN
        found: Sequence[core_browse.Item] | None
        if search.state == core_browse.DELAYED:
            found = core_browse.browse_delayed(broker, address, after=after, limit=count + 1)
        else:
            found = core_browse.browse(
                broker, address, after=after, limit=count + 1, backwards=search.backwards
            )
        return _Step((found or [])[:count], len(found or ()) > count)

    def _run(self, search: Search, step: _Step, most: int) -> BrowsePage[Shown]:
        """The part of the page that one step finds, in which `most` messages are read. Raises
        NoSuchPosition or LeftMemory if one was removed since it was found."""
        until_s = time.monotonic() + _SLICE_S
        found, more = step
        queue = queue_of(self._broker, search.address)
        rows: list[Shown] = []
        size = scanned = 0
        for item, message in self._loaded(queue, found, search, most):
            scanned += 1
            if message is not None and (search.fits is None or search.fits(message, self.ids.of(message))):
                rows.append(Shown(item.state, item.attempts, message, item.due_ms, item.cursor))
                size += len(message.body)
            full = len(rows) == search.limit or size >= search.most_bytes
            if full or time.monotonic() >= until_s:
                break
        total = queue.depth + queue.unsettled
        if search.state == core_browse.DELAYED:
            total = self._broker.scheduler.delayed(search.address)
        following = found[scanned - 1].cursor if more or scanned < len(found) else None
        return BrowsePage(rows, following, total, scanned, size)

    def _loaded(
        self, queue: Queue, found: Sequence[core_browse.Item], search: Search, most: int
    ) -> Iterator[tuple[core_browse.Item, Message | None]]:
        """Each with its message, until `most` were read; None for one that is in another state than is
        wanted."""
        stored = [number for number, item in enumerate(found) if _is_stored(search, item)]
        end = stored[most] if most < len(stored) else len(found)
        bodies = iter(load(self._read, queue, [found[number].position for number in stored[:most]]))
        for item in found[:end]:
            fits = search.state is None or item.state == search.state
            yield item, (core_browse.message_of(item) or next(bodies)) if fits else None


def _filter_in(where: str) -> Filter:
    """The filter that another broker has sent, in JSON. Raises Refused."""
    try:
        return filters.of(msgspec.json.decode(where, type=dict[str, object])) if where else Filter()
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused("invalid", f"filter: {error}") from None


def _stored(search: Search, step: _Step) -> list[int]:
    """The positions of the messages of a step that are not in memory."""
    return [item.position for item in step.found if _is_stored(search, item)]


def _is_stored(search: Search, item: core_browse.Item) -> bool:
    """True if a message in the state that is searched for has to be read from the journal."""
    return item.message is None and (search.state is None or item.state == search.state)


def _seen(
    masks: UserMasks, fits: filters.Fits | None, address: str, message: Message, message_id: bytes
) -> Message | None:
    """A message of another broker as a client sees it. None if that broker, which knows no client, has
    found it by what is hidden from this one."""
    shown = masks.shown(address, message)
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
