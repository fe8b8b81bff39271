"""Looking at the history of a topic: pages of what is retained, from any place in it."""

from __future__ import annotations

from broker_app.base import times
from broker_app.base.refused import Refused
from broker_app.core.message import Message
from broker_app.core.record_reader import Reader
from broker_app.core.topics.history import History
from broker_app.core.topics.replay import LAST, NOW, SEQ, TIME, Start, parse_start
from broker_app.engine.client import EngineClient
from broker_app.features.jobs.message_reader import JournalRead
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
        start = times.start(query.get("from", "first"))
        found, following, total = await self._engine_client.inspect(
            lambda: self._page(destination.address, start, limit)
        )
        ids, preview = self._engine_client.engine.broker.turn.ids, self._limits.max_preview_bytes
        masks = request.access.masks_of(request.client)
        rows = [
            message_json.browsed(
                masks.shown(destination.address, message),
                *(ids.of(message), READY, preview, self._blocks, 0),
                size=len(message.body),
            )
            for message in found
        ]
        request.audit_read("topics", destination.address, len(rows))
        others = self._engine_client.engine.broker.cluster_usage.others()
        tail = b'],"next":%b,"approx_total":%d,"not_shown":%b}' % (
            encode(following), total, encode(others)
        )  # fmt: skip
        return Reply(200, JSON, b'{"items":[' + b",".join(rows) + tail)

    def _page(self, address: str, text: str, limit: int) -> tuple[list[Message], str | None, int]:
        """Up to `limit` messages, fewer where the page is full of bytes; where the next page begins; how many
        messages there are."""
        start = parse_start(text)
        history = self._engine_client.engine.broker.histories.histories.get(address)
        if history is None or start.kind == NOW:
            return [], None, 0 if history is None else len(history)
        found: list[Message] = []
        read = Reader(address).message
        size = 0
        for position in history.after(_first(history, start) - 1):
            if len(found) == limit or size >= self._limits.max_page_bytes:
                return found, f"seq:{position}", len(history)
            message = read(self._read((position,))[0], position)
            if start.kind != TIME or message.time_ms >= start.number:
                found.append(message)
                size += len(message.body)
        return found, None, len(history)


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
