"""A receiver that keeps what it was given, for tests that drive an engine or a broker directly."""

from __future__ import annotations

from typing import Any

from broker_app.base.refused import Refused
from broker_app.core.message import Message
from broker_app.core.model import Peer, Subscription


class Listener:
    """`bodies` and `tags` of deliveries in order, `receipts` and `refusals` of what was asked."""

    def __init__(self) -> None:
        self.peer = Peer(self)
        self.receipts: list[Any] = []
        self.refusals: list[Any] = []
        self.bodies: list[bytes] = []
        self.tags: list[int] = []
        self.throttled = self.held = False

    def flush(self, peer: Peer) -> None:
        self.receipts += peer.receipts
        self.refusals += peer.refusals
        self.bodies += [message.body for _, _, message in peer.deliveries]
        self.tags += [tag for _, tag, _ in peer.deliveries]
        peer.receipts, peer.refusals, peer.deliveries = [], [], []

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        return [b"|".join(message.body for message in messages)]

    def send(self, part: bytes) -> None:
        self.bodies.append(part)

    def throttle(self, on: bool) -> None:
        self.throttled = on

    def hold(self, on: bool) -> None:
        self.held = on

    def close(self, refusal: Refused) -> None:
        self.refusals.append((None, refusal))

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        self.close(refusal)

    def take_receipts(self) -> list[Any]:
        """The receipts since the last call."""
        taken, self.receipts = self.receipts, []
        return taken
