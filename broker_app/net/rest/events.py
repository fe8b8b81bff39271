"""Event streams: a queue's messages as server-sent events, each with a receipt to settle it by."""

from __future__ import annotations

import asyncio
from collections import deque

from broker_app.core import commands as c
from broker_app.core.destination import parse
from broker_app.core.message import Message
from broker_app.net import access
from broker_app.net.rest import items
from broker_app.net.rest.desk import Desk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.replies import Reply
from broker_app.net.rest.requests import Request, whole_number
from broker_app.net.rest.waiting import Wait, Waiting

PING_S = 15.0


class Arrivals:
    """Deliveries that wait to be written; never more than the credit of their subscription."""

    def __init__(self, wake: asyncio.Event) -> None:
        self.waiting: deque[tuple[int, Message]] = deque()
        self._wake = wake

    def collect(self, tag: int, message: Message) -> None:
        self.waiting.append((tag, message))
        self._wake.set()


class Events:
    """Endpoint `…/events`. The stream holds up to `credit` unsettled messages; settling one by its
    receipt lets the next one through. When the stream ends, what is unsettled goes back."""

    def __init__(
        self,
        desk: Desk,
        waiting: Waiting,
        blocks: items.Blocks,
        limits: RestLimits,
        *,
        ping_s: float = PING_S,
    ) -> None:
        self._desk = desk
        self._waiting = waiting
        self._blocks = blocks
        self._limits = limits
        self._ping_s = ping_s
        self._ids = desk.engine.broker.ids

    async def stream(self, request: Request) -> Reply | None:
        """GET queues/{name}/events. HEAD subscribes to nothing."""
        query = request.query(("queue", "credit"))
        credit = whole_number(query, "credit", 1, 1, self._limits.max_event_credit)
        destination = parse("/queue/" + request.name)
        access.check(request.identity, access.RECEIVE, destination)
        if request.method == "HEAD":
            return Reply(200, b"text/event-stream")
        desk = self._desk
        wait = self._waiting.enter(request.identity)
        arrivals = Arrivals(wait.woken)
        subscription = desk.open_collection(arrivals, request.identity.user)
        try:
            ticket = desk.ticket()
            desk.submit(
                c.Subscribe(
                    desk.peer, subscription, destination.address, c.INDIVIDUAL, credit, receipt=ticket
                )
            )
            await desk.answer(ticket)
            await self._write(request, arrivals, wait)
        finally:
            self._waiting.leave(wait)
            desk.close_collection(subscription)
            if desk.engine.ended is None:
                desk.submit(c.Unsubscribe(desk.peer, subscription))
        return None

    async def _write(self, request: Request, arrivals: Arrivals, wait: Wait) -> None:
        headers = [
            *request.reply_headers,
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(request, b": connected\n\n")
        gone = asyncio.ensure_future(request.wait_departed())
        try:
            while not gone.done() and not wait.ended:
                while arrivals.waiting:
                    await self._send(request, self._event(*arrivals.waiting.popleft()))
                woken = asyncio.ensure_future(wait.woken.wait())
                await asyncio.wait((woken, gone), timeout=self._ping_s, return_when=asyncio.FIRST_COMPLETED)
                if not woken.done():
                    woken.cancel()
                    if not gone.done():
                        await self._send(request, b": ping\n\n")
                elif not wait.ended:
                    wait.woken.clear()
        finally:
            gone.cancel()
        if not gone.done():
            await request.send({"type": "http.response.body", "body": b""})

    async def _send(self, request: Request, data: bytes) -> None:
        await request.send({"type": "http.response.body", "body": data, "more_body": True})

    def _event(self, tag: int, message: Message) -> bytes:
        message_id = self._ids.of(message)
        item = items.received(
            message, message_id, self._desk.receipt(tag), self._desk.lease_until_ms(tag), self._blocks
        )
        return b"id: %b\nevent: message\ndata: %b\n\n" % (message_id, item)
