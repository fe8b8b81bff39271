"""Producers and consumers of `mom bench`, and their measurements."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from broker_app.cli.base import wire
from broker_app.cli.base.contexts import BrokerTarget
from mom_client import Client, Subscription

#: a body begins with its send time
_STAMP_BYTES = 8


@dataclass(slots=True)
class Load:
    """One measurement by `clients` producers if `window` is set, and `clients` consumers if `credit` is."""

    where: str
    messages: int
    clients: int
    size: int = 0
    window: int = 0
    credit: int = 0
    #: latency of each message, in seconds
    _delays: list[float] = field(default_factory=list, init=False)

    async def run(self, target: BrokerTarget) -> dict[str, float]:
        """Connect, send and receive everything; return the figures. Raises Failure."""
        async with AsyncExitStack() as stack:

            async def clients(count: int) -> list[Client]:
                return [await stack.enter_async_context(wire.connect(target)) for _ in range(count)]

            producers = await clients(self.clients if self.window else 0)
            subscriptions = [
                await stack.enter_async_context(client.subscribe(self.where, credit=self.credit))
                for client in await clients(self.clients if self.credit else 0)
            ]
            began = time.monotonic()
            try:
                async with asyncio.TaskGroup() as group:
                    for index, client in enumerate(producers):
                        # The first ones take the remainder.
                        share = (self.messages + self.clients - 1 - index) // self.clients
                        group.create_task(self._produce(client, share))
                    if subscriptions:
                        await self._consume(subscriptions, group)
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return self._figures(time.monotonic() - began)

    async def _produce(self, client: Client, count: int) -> None:
        """Send `count` messages, at most `window` of them unconfirmed."""
        padding = bytes(self.size - _STAMP_BYTES)
        waiting: deque[asyncio.Future[None]] = deque()
        for _ in range(count):
            sent = time.monotonic_ns()
            receipt = client.send_nowait(self.where, sent.to_bytes(_STAMP_BYTES, "big") + padding)
            assert receipt is not None, "a confirmed send has a receipt"
            if not self.credit:
                receipt.add_done_callback(partial(self._confirmed, sent))
            waiting.append(receipt)
            if len(waiting) >= self.window:
                await waiting.popleft()
        for receipt in waiting:
            await receipt

    def _confirmed(self, sent_ns: int, receipt: asyncio.Future[None]) -> None:
        self._delays.append((time.monotonic_ns() - sent_ns) / 1e9)

    async def _consume(self, subscriptions: list[Subscription], group: asyncio.TaskGroup) -> None:
        """Receive until all consumers together have received all messages."""
        finished = asyncio.Event()
        left = self.messages

        async def take(messages: Subscription) -> None:
            nonlocal left
            async for message in messages:
                if self.window:
                    sent = int.from_bytes(message.body[:_STAMP_BYTES], "big")
                    self._delays.append((time.monotonic_ns() - sent) / 1e9)
                await message.ack()
                left -= 1
                if left <= 0:
                    finished.set()
                    return

        tasks = [group.create_task(take(messages)) for messages in subscriptions]
        await finished.wait()
        for task in tasks:
            task.cancel()

    def _figures(self, seconds: float) -> dict[str, float]:
        """Seconds, messages per second, and percentiles of the latency in ms where it was measured."""
        figures = {"seconds": round(seconds, 3), "rate": round(self.messages / seconds)}
        if self._delays:
            ordered = sorted(self._delays)
            for name, share in (("p50_ms", 0.50), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0)):
                figures[name] = round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
        return figures
