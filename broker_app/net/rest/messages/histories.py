"""Looking at the history of a topic: pages of what is retained, from any place in it."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import NamedTuple

from broker_app.base import times
from broker_app.base.audit_actions import TOPIC_READ
from broker_app.base.refused import Refused
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import Message
from broker_app.core.position import Position, known_start
from broker_app.core.topics.history import History
from broker_app.core.topics.replay import LAST, NOW, SEQ, TIME, Start, parse_start
from broker_app.engine.client import EngineClient
from broker_app.engine.read_budget import READ_POSITIONS
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.masks.user_masks import UserMasks
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.replies import JSON, Reply, encode
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import READY
from broker_app.rules.event import READ


class Histories:
    """Endpoint `topics/{name}/messages`."""

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

    async def messages(self, request: Request) -> Reply:
        """GET topics/{name}/messages?from=first|last|seq:…|time:…"""
        query = request.query(("topic", "from", "limit"))
        destination = request.permitted(READ, "/topic/" + request.name)
        limit = whole_number(query, "limit", 50, 1, self._limits.max_page)
        broker = self._engine_client.engine.broker
        start, unknown = known_start(times.start(query.get("from", "first")), broker.turn)
        rows, following, total = await self._rows(
            destination.address, start, limit, request.access.masks_of(request.client)
        )
        request.audit_read(TOPIC_READ, destination.address, len(rows))
        next = None if following is None else f"{SEQ}:{Position(following, broker.turn.ids.journal)}"
        facts = {"next": next, "approx_total": total, "not_shown": broker.cluster_usage.others()}
        facts |= {"unknown_position": True} if unknown else {}
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + b"]," + encode(facts)[1:])

    async def _rows(
        self, address: str, text: str, limit: int, masks: UserMasks
    ) -> tuple[list[bytes], int | None, int]:
        """Up to `limit` messages, fewer where the page is full of bytes; the position where the next page
        begins; how many messages there are."""
        ids, preview = self._engine_client.engine.broker.turn.ids, self._limits.max_preview_bytes
        rows: list[bytes] = []
        size = 0
        start = parse_start(text)
        after: int | None = None
        while True:
            find = partial(self._positions, address, start, after, limit - len(rows))
            read = partial(self._read_some, address, start)
            async with self._engine_client.read_in_turn(find, list, read) as page:
                for message in page.messages:
                    size += len(message.body)
                    rows.append(
                        message_json.browsed(
                            masks.shown(address, message),
                            *(ids.of(message), READY, preview, self._blocks, 0),
                            size=len(message.body),
                        )
                    )
                page.messages.clear()
            if page.following is None:
                return rows, None, page.total
            if len(rows) == limit or size >= self._limits.max_page_bytes:
                return rows, page.following, page.total
            after = page.following - 1

    def _positions(self, address: str, start: Start, after: int | None, limit: int) -> list[int]:
        """The positions of up to `limit` messages from the start, or behind `after`."""
        history = self._engine_client.engine.broker.histories.histories.get(address)
        if history is None or start.kind == NOW:
            return []
        behind = _first(history, start) - 1 if after is None else after
        return list(islice(history.after(behind), min(limit, READ_POSITIONS)))

    def _read_some(self, address: str, start: Start, wanted: list[int], most: int) -> _Page:
        """The messages at the first `most` positions, without those from before the time that was asked
        for."""
        history = self._engine_client.engine.broker.histories.histories.get(address)
        positions = wanted[:most]
        if history is None or not positions:
            return _Page([], None, 0 if history is None else len(history))
        found = Reader(address).messages(self._read(positions), positions)
        if start.kind == TIME:
            found = [message for message in found if message.time_ms >= start.number]
        return _Page(found, next(history.after(positions[-1]), None), len(history))


class _Page(NamedTuple):
    """Messages, the position of the next one, and the number of all."""

    messages: list[Message]
    following: int | None
    total: int


def _first(history: History, start: Start) -> int:
    """The position where a page begins. Refused when that was given up."""
    if start.kind == LAST:
        return history.last
    if start.kind == TIME:
        return history.since(start.number) or history.last + 1
    if start.kind == SEQ and start.number <= history.trimmed_to:
        raise Refused(
            "history-gone", f"the history of {history.address} begins at seq {history.first} by now"
        )
    return start.number
