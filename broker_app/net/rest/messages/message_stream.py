"""Event streams: a queue's messages as server-sent events, each with a receipt to settle it by."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.core.selectors import compiler
from broker_app.engine.client import EngineClient
from broker_app.engine.read_budget import READ_BYTES
from broker_app.net.http.large_body import Piece, parts_in_turns
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.long_poll import WaitingRequest, WaitingRequests
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.streams import MEDIA_TYPE, PING_S, stream
from broker_app.net.live_subscribers import SSE, LiveSubscriber, LiveSubscribers
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.arrival_stream import ArrivalStream
from broker_app.rules.event import RECEIVE

#: whether a stream has the messages, or only what arrived
MODES = DELIVER, NOTIFY = "deliver", "notify"


class Arrivals:
    """Deliveries that wait to be written; never more than the credit of their subscription. `limit` is called
    with True when they have many bytes, and with False when they have few again."""

    def __init__(self, wait: WaitingRequest, limit: Callable[[bool], None]) -> None:
        self._waiting: deque[tuple[int, Message]] = deque()
        self._bytes = 0
        self._limited = False
        self._wait = wait
        self._limit = limit

    def collect(self, tag: int, message: Message) -> None:
        self._waiting.append((tag, message))
        self._count(message.size)
        self._wait.woken.set()

    def end(self, refusal: Refused) -> None:
        self._wait.end(refusal)

    def take(self) -> tuple[int, Message] | None:
        """The next delivery to be written."""
        if not self._waiting:
            return None
        tag, message = self._waiting.popleft()
        self._count(-message.size)
        return tag, message

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._limited != (self._bytes > READ_BYTES):
            self._limited = not self._limited
            self._limit(self._limited)


class MessageStream:
    """Endpoint `…/events`. The stream holds up to `credit` unsettled messages; settling one by its
    receipt lets the next one through. When the stream ends, what is unsettled goes back."""

    def __init__(
        self,
        engine_client: EngineClient,
        waiting: WaitingRequests,
        blocks: message_json.Blocks,
        limits: RestLimits,
        arrivals: ArrivalStream,
        live: LiveSubscribers,
        *,
        ping_s: float = PING_S,
    ) -> None:
        self._engine_client = engine_client
        self._waiting = waiting
        self._blocks = blocks
        self._limits = limits
        self._arrivals = arrivals
        self._live = live
        self._ping_s = ping_s
        self._ids = engine_client.engine.broker.turn.ids

    async def stream(self, request: Request) -> Reply | None:
        """GET queues/{name}/events?mode=deliver|notify. HEAD subscribes to nothing."""
        query = request.query(("queue", "mode", "credit", "selector", "after"))
        mode = query.get("mode", DELIVER)
        if mode not in MODES:
            raise invalid("query/mode", f"must be {' or '.join(MODES)}", mode)
        if mode == NOTIFY:
            return await self._arrivals.stream(request, query)
        if "after" in query:
            raise invalid("query/after", "is for mode=notify; unsettled messages are delivered again")
        credit = whole_number(query, "credit", 1, 1, self._limits.max_event_credit)
        destination = request.permitted(RECEIVE, "/queue/" + request.name)
        if query.get("selector"):
            compiler.compile(query["selector"])
        if request.method == "HEAD":
            return Reply(200, MEDIA_TYPE)
        engine_client = self._engine_client
        wait = self._waiting.enter(request.client, destination)
        arrivals = Arrivals(wait, lambda limited: set_credit(1 if limited else credit))
        subscription = engine_client.open_collection(arrivals, request.user)

        def set_credit(credit: int) -> None:
            engine_client.submit(c.SetCredit(engine_client.peer, subscription, credit))

        address = request.client.connection_info.address or ""
        live = self._live.add(request.client.identity, address, SSE, DELIVER, destination)
        try:
            pending_reply = engine_client.pending_reply()
            subscribe = c.Subscribe(
                engine_client.peer, subscription, destination.address, c.INDIVIDUAL, credit
            )
            subscribe.selector, subscribe.receipt = query.get("selector", ""), pending_reply
            subscribe.client, subscribe.principal = request.client.record_address, request.client
            engine_client.submit(subscribe)
            await engine_client.answer(pending_reply)
            await stream(request, wait, partial(self._arrived, arrivals, live), self._ping_s)
        finally:
            self._live.remove(live)
            self._waiting.leave(wait)
            engine_client.close_collection(subscription)
            if engine_client.engine.ended is None:
                engine_client.submit(c.Unsubscribe(engine_client.peer, subscription))
        return None

    async def _arrived(self, arrivals: Arrivals, live: LiveSubscriber) -> AsyncIterator[bytes]:
        while (arrived := arrivals.take()) is not None:
            live.count(1)
            tag, message = arrived
            del arrived
            render = partial(self._event, tag, message, self._engine_client.leases.until_ms(tag))
            pieces = await in_thread_if_large(message.size, render)
            self._engine_client.leases.release_body(tag, message)
            del message, render
            async for part in parts_in_turns(pieces):
                yield part

    def _event(self, tag: int, message: Message, until_ms: int) -> list[Piece]:
        message_id = self._ids.of(message)
        receipt = self._engine_client.leases.receipt(tag)
        item = message_json.received_pieces(message, message_id, receipt, until_ms, self._blocks)
        return [b"id: %b\nevent: message\ndata: " % message_id, *item, b"\n\n"]
