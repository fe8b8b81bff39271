"""Callback messages within one engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.features.callback_broker.callback_messages import CallbackMessage, CallbackMessages
from tests.support.memory_journal import MemoryJournal

ADDRESS = "/queue/stock"


class Consumer(InnerReceiver):
    """Looks up which callback message each of its deliveries is."""

    def __init__(self, messages: CallbackMessages) -> None:
        self.peer = Peer(self, user="stock")
        self.found: list[CallbackMessage | None] = []
        self._messages = messages

    def flush(self, peer: Peer) -> None:
        self.found += [self._messages.of(message) for _, _, message in peer.deliveries]
        super().flush(peer)


async def test_a_consumer_that_is_flushed_before_the_publisher_gets_no_message_that_is_not_known() -> None:
    engine = Engine(Broker(), MemoryJournal(hold=False))
    engine.recover()
    messages = CallbackMessages(engine)
    messages.watch(ADDRESS)
    consumer = Consumer(messages)
    engine.submit(c.Subscribe(consumer.peer, "1", ADDRESS, c.INDIVIDUAL, 10))
    await engine.wait_idle()
    queue: Any = SimpleNamespace(address=ADDRESS)
    published = [CallbackMessage(number, f"id-{number}", queue) for number in (1, 2)]
    engine.submit(c.Answer(consumer.peer, "flushed first"))
    messages.publish(published)
    await engine.wait_idle()
    assert consumer.found == published
