"""Waiting for deliveries that an interceptor holds: a request ends when all of its messages are decided."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.message import Message
from broker_app.engine.client import EngineClient

#: seconds between two looks; a delivery that is let pass is noticed at once, one that is refused is not
LOOK_S: Final = 0.01
#: seconds that a request waits at most; what is decided later returns to its queue
LONGEST_S: Final = 30.0


class RequestDeliveries:
    """Collects the deliveries of one request."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Message]] = []
        self.arrived = asyncio.Event()

    def collect(self, tag: int, message: Message) -> None:
        """Take a delivery."""
        self.found.append((tag, message))
        self.arrived.set()

    def end(self, refusal: Refused) -> None:
        """Do nothing: chosen messages come without a subscription that could be ended."""


async def wait_decided(
    engine_client: EngineClient, subscription_id: str, deliveries: RequestDeliveries
) -> None:
    """Wait until no delivery of a subscription is held, for `LONGEST_S` at most."""
    if not engine_client.engine.delivery_interceptors:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_S):
            while _unsettled(engine_client, subscription_id) > len(deliveries.found):
                deliveries.arrived.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await deliveries.arrived.wait()


def _unsettled(engine_client: EngineClient, subscription_id: str) -> int:
    """The unsettled deliveries of a subscription."""
    peer = engine_client.peer
    subscription = peer.subscriptions.get(subscription_id)
    if subscription is not None:
        return subscription.unsettled
    return sum(holder.id == subscription_id for holder, _ in peer.unsettled.values())
