"""The publisher of the broker itself."""

from __future__ import annotations

from broker_app.core.commands import DeliverTo, Publish
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.telemetry.system_messages import Receiving


class SystemPublisher(InnerReceiver):
    """The broker's own publisher: a peer that receives nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="$mom", own=True)

    def publish(self, entries: list[tuple[Envelope, bytes]]) -> None:
        """Publish messages to system topics or queues."""
        size = sum(len(body) for _, body in entries)
        self._engine.submit(Publish(self._peer, [(envelope, body, None) for envelope, body in entries]), size)

    def deliver(self, subscription: Receiving, entries: list[tuple[Envelope, bytes]]) -> None:
        """Deliver messages to one subscription."""
        self._engine.submit(DeliverTo(subscription, entries), sum(len(body) for _, body in entries))
