"""Which delivery an ACK or NACK means, in the words of each version of STOMP."""

from __future__ import annotations

from broker_app.core.errors import Refused
from broker_app.core.message import MessageIds
from broker_app.core.peer import Delivery, Peer
from mom_client.stomp.frame import Headers

Tag = int


class Tags:
    """The deliveries of one session. In 1.2 a client names the tag itself; in 1.0 and 1.1 the message, so it
    is remembered which delivery of it was the latest."""

    def __init__(self, peer: Peer, ids: MessageIds) -> None:
        self._peer = peer
        self._ids = ids
        #: by (subscription or None, message-id)
        self._latest: dict[tuple[str | None, str], Tag] = {}

    def remember(self, deliveries: list[Delivery]) -> None:
        """What a client of 1.0 or 1.1 may name from now on."""
        unsettled = self._peer.unsettled
        if len(self._latest) > 4 * len(unsettled) + 1000:
            self._latest = {key: tag for key, tag in self._latest.items() if tag in unsettled}
        of = self._ids.of
        for subscription, tag, message in deliveries:
            if tag:
                message_id = of(message).decode()
                self._latest[subscription.id, message_id] = self._latest[None, message_id] = tag

    def forget(self) -> None:
        self._latest.clear()

    def find(self, given: Headers, version: str) -> Tag:
        """The tag that the headers of an ACK or NACK name. Raises Refused."""
        return _own(given) if version == "1.2" else self._of_message(given)

    def _of_message(self, given: Headers) -> Tag:
        message_id = given.get("message-id")
        if message_id is None:
            raise Refused("malformed-frame", "ACK and NACK need a message-id header")
        tag = self._latest.get((given.get("subscription"), message_id), 0)
        if not tag:
            raise Refused(
                "unknown-delivery", f"there is no unsettled delivery of message {message_id[:80]!r}"
            )
        return tag


def _own(given: Headers) -> Tag:
    id = given.get("id")
    if id is None:
        raise Refused(
            "malformed-frame", "ACK and NACK need an id header: the value of the message's ack header"
        )
    if not (id.isascii() and id.isdigit()) or len(id) > 18:
        raise Refused("unknown-delivery", f"there is no unsettled delivery {id[:40]!r} in this session")
    return int(id)
