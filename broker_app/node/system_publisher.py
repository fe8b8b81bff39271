"""The publisher of the broker itself."""

from __future__ import annotations

from broker_app.core.commands import DeliverTo, Publish
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.engine.client import PendingReply
from broker_app.telemetry.system_messages import Receiving


class SystemPublisher(InnerReceiver):
    """The broker's own publisher: a peer that receives nothing but the replies to `publish_confirmed`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="$mom", own=True)

    def publish(self, entries: list[tuple[Envelope, bytes]]) -> None:
        """Publish messages to system topics or queues."""
        size = sum(len(body) for _, body in entries)
        self._engine.submit(Publish(self._peer, [(envelope, body, None) for envelope, body in entries]), size)

    async def publish_confirmed(self, envelope: Envelope, body: bytes) -> None:
        """Publish a message, and return when it is stored. Raises Refused."""
        reply = PendingReply()
        self._engine.submit(Publish(self._peer, [(envelope, body, reply)]), len(body))
        await reply.wait()

    def deliver(self, subscription: Receiving, entries: list[tuple[Envelope, bytes]]) -> None:
        """Deliver messages to one subscription."""
        self._engine.submit(DeliverTo(subscription, entries), sum(len(body) for _, body in entries))

    def flush(self, peer: Peer) -> None:
        """Pass replies on to those who wait for them."""
        receipts, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        for waiting in receipts:
            waiting.accepted(None)
        for waiting, refusal in refusals:
            if waiting is not None:
                waiting.refused(refusal)
        peer.deliveries.clear()
