"""The tail of a destination: its new messages, as server-sent events.

Watching takes nothing from anybody. A client gives a credit of messages a second; of what comes beyond, it is
reported as a number, so that neither side is overloaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from broker_app.base.audit_actions import read_of
from broker_app.core.destination import Destination
from broker_app.core.inspection.tap import Tap
from broker_app.engine.client import EngineClient
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.streams import MEDIA_TYPE, stream
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import READY
from broker_app.rules.event import READ

#: seconds between two reports of the number
_BEAT_S = 0.25
MAX_CREDIT = 500
_PREVIEW_BYTES = 8 * 1024


class TailEndpoints:
    """Endpoints `queues/{name}/tail` and `topics/{name}/tail`."""

    def __init__(
        self, engine_client: EngineClient, waiting: WaitingRequests, blocks: message_json.Blocks
    ) -> None:
        self._broker = engine_client.engine.broker
        self._waiting = waiting
        self._blocks = blocks

    async def of_queue(self, request: Request) -> Reply | None:
        """GET queues/{name}/tail?credit=100"""
        return await self._watch(request, "queue")

    async def of_topic(self, request: Request) -> Reply | None:
        """GET topics/{name}/tail?credit=100"""
        return await self._watch(request, "topic")

    async def _watch(self, request: Request, kind: str) -> Reply | None:
        query = request.query((kind, "credit"))
        credit = whole_number(query, "credit", 100, 1, MAX_CREDIT)
        destination = request.permitted(READ, f"/{kind}/{request.name}")
        if request.method == "HEAD":
            return Reply(200, MEDIA_TYPE)
        loop = asyncio.get_running_loop()
        wait = self._waiting.enter(request.client, destination, READ)
        tap = Tap(max(1, round(credit * _BEAT_S)), partial(_wake_later, loop, wait.woken))
        taps, address = self._broker.store.taps, destination.address
        taps.add(address, tap)
        try:
            await stream(request, wait, partial(self._seen, request, destination, tap))
        finally:
            taps.remove(address, tap)
            self._waiting.leave(wait)
        return None

    async def _seen(self, request: Request, destination: Destination, tap: Tap) -> AsyncIterator[bytes]:
        messages, skipped = tap.take()
        request.audit_read(read_of(destination.kind), destination.address, len(messages))
        masks = request.access.masks_of(request.client)
        for message in messages:
            message_id = self._broker.turn.ids.of(message)
            row = message_json.browsed(
                masks.shown(destination.address, message),
                *(message_id, READY, _PREVIEW_BYTES, self._blocks, message.attempts),
                size=len(message.body),
            ).replace(b"\n", b" ").replace(b"\r", b" ")  # fmt: skip
            yield b"id: %b\nevent: message\ndata: %b\n\n" % (message_id, row)
        if skipped:
            yield b'event: skipped\ndata: {"count":%d}\n\n' % skipped


def _wake_later(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    loop.call_later(_BEAT_S, woken.set)
