"""Server-sent events: a reply without an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from broker_app.base.deadline import Deadline
from broker_app.net.http.long_poll import WaitingRequest
from broker_app.net.http.refusals import body_of
from broker_app.net.http.replies import encode
from broker_app.net.http.requests import Request

MEDIA_TYPE = b"text/event-stream"
PING_S = 15.0


async def stream(
    request: Request,
    wait: WaitingRequest,
    events: Callable[[], AsyncIterator[bytes]],
    ping_s: float = PING_S,
) -> None:
    """Write what `events` yields each time that `wait` is woken, until the client goes or the wait is ended;
    when that has a reason, the last event is the problem. While there is nothing to write, a
    comment keeps the connection alive."""
    headers = [
        *request.reply_headers,
        (b"content-type", MEDIA_TYPE),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await request.send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send(request, b": connected\n\n")
    gone = asyncio.ensure_future(request.wait_departed())
    deadline = Deadline(time.monotonic)
    try:
        while not gone.done() and not wait.ended:
            deadline.begin()
            async for event in events():
                await _send(request, event)
                if deadline.passed:  # a client that takes all at once never makes it wait
                    await asyncio.sleep(0)
                    deadline.begin()
            woken = asyncio.ensure_future(wait.woken.wait())
            await asyncio.wait((woken, gone), timeout=ping_s, return_when=asyncio.FIRST_COMPLETED)
            if not woken.done():
                woken.cancel()
                if not gone.done():
                    await _send(request, b": ping\n\n")
            elif not wait.ended:
                wait.woken.clear()
    finally:
        gone.cancel()
    if not gone.done():
        if wait.refusal is not None:
            problem = encode(body_of(wait.refusal))
            await _send(request, b"event: problem\ndata: %b\n\n" % problem)
        await request.send({"type": "http.response.body", "body": b""})


async def _send(request: Request, data: bytes) -> None:
    await request.send({"type": "http.response.body", "body": data, "more_body": True})
