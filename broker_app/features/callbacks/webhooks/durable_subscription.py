"""Durable subscriptions of callbacks to topics: each is created with its callback, and deleted with it."""

from __future__ import annotations

from typing import Final

from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.webhooks.callback import SUBSCRIPTION_PREFIX, Callback

_ADDRESS: Final = DURABLE_PREFIX + SUBSCRIPTION_PREFIX


class DurableSubscriptions:
    """Creates and deletes them. Nothing may consume them meanwhile."""

    def __init__(self, engine: Engine, requests: EngineClient) -> None:
        self._engine = engine
        self._requests = requests

    async def align(self, callback: Callback) -> int:
        """Create that of a callback to a topic. One with another topic or selector is deleted before, as is
        that of a callback to a queue; returns the number of messages that are lost by that. Raises
        Refused."""
        lost = 0
        named = self._engine.broker.destinations.named.get(_ADDRESS + callback.name)
        if named is not None:
            terms = callback.address, callback.selector
            if callback.subscription and (named.terms.filter, named.terms.selector) == terms:
                return 0
            lost = named.queue.depth + named.queue.unsettled
            await self.delete(callback.name)
        if not callback.subscription:
            return lost
        # It exists from its first consumer on. Nothing is delivered to this one, which leaves at once.
        consumer = EngineClient(self._engine, f"callback:{callback.name}")
        consumer.peer.paused = True
        subscribe = c.Subscribe(
            consumer.peer,
            "create",
            callback.address,
            selector=callback.selector,
            name=callback.subscription,
            durable=True,
        )
        await consumer.ask(subscribe, lambda _: None)
        self._engine.submit(c.Disconnect(consumer.peer))
        return lost

    async def delete(self, name: str) -> None:
        """Delete that of the callback `name`, if there is one, with all its messages. Raises Refused."""
        if _ADDRESS + name in self._engine.broker.destinations.named:
            command = c.DeleteSubscription(self._requests.peer, SUBSCRIPTION_PREFIX + name)
            await self._requests.ask(command, lambda _: None)

    def names(self) -> dict[str, int]:
        """The callbacks that have one, with the number of its messages."""
        return {
            address.removeprefix(_ADDRESS): named.queue.depth + named.queue.unsettled
            for address, named in self._engine.broker.destinations.named.items()
            if address.startswith(_ADDRESS)
        }
