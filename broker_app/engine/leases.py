"""Leases: the receipts by which clients settle deliveries that outlive their requests."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Peer

#: between the number of a subscription and the user who made it
SEPARATOR: Final = "\0"


class Leases:
    """The leases of one peer. `boot` distinguishes receipts of this process from those of former ones."""

    #: settled deliveries that are remembered, to distinguish "settled twice" from "settled too late"
    REMEMBERED = 10_000

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self.boot = secrets.token_hex(4)
        self._broker = broker
        self._peer = peer
        self._settled: OrderedDict[int, None] = OrderedDict()

    def receipt(self, tag: int) -> str:
        """The receipt of a delivery."""
        return f"r1.{self.boot}.{tag:x}"

    def until_ms(self, tag: int) -> int:
        """The time when the lease of an unsettled delivery ends; 0 without a lease."""
        return self._broker.unsettled.leases.until_ms(self._peer, tag)

    def release_body(self, tag: int, message: Message) -> None:
        """Keep the body of a delivery no longer, which was rendered for its client, if it is large."""
        held = self._peer.unsettled.get(tag)
        if held is not None:
            self._broker.unsettled.release_bodies([(held[0], tag, message)])

    def tag_of(self, receipt: str, user: str) -> int:
        """The delivery behind a receipt. Raises Refused if it is no receipt, another user's, or lost."""
        parts = receipt.split(".")
        if (
            len(parts) != 3
            or parts[0] != "r1"
            or len(parts[1]) != 8
            or not _is_hex(parts[1])
            or not _is_hex(parts[2])
        ):
            raise Refused("not-found", f"{receipt[:80]!r} is not the receipt of a received message")
        if parts[1] != self.boot:
            raise Refused("lease-lost", "the node was restarted since; the message is delivered again")
        tag = int(parts[2], 16)
        held = self._peer.unsettled.get(tag)
        if held is None:
            raise self.lost(tag)
        if held[0].id.partition(SEPARATOR)[2] != user:
            raise Refused("not-allowed", "the receipt was given to another user", right="settle")
        return tag

    def source_of(self, tag: int) -> str:
        """The address that an unsettled delivery was received from."""
        return self._peer.unsettled[tag][0].address

    def lost(self, tag: int) -> Refused:
        """The reason why a delivery cannot be settled any more."""
        if tag in self._settled:
            return Refused("lease-lost", "the message was settled before", now_held_by="gone")
        return Refused("lease-lost", "the lease ended before the message was settled; it is delivered again")

    def remember_settled(self, tags: list[int]) -> None:
        """Note that deliveries were settled."""
        settled = self._settled
        for tag in tags:
            settled[tag] = None
        while len(settled) > self.REMEMBERED:
            settled.popitem(last=False)


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 16 and all(character in "0123456789abcdef" for character in text)
