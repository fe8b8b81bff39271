"""Which delivery an ACK or NACK means, in the words of each version of STOMP."""

from __future__ import annotations

from broker_app.core.errors import Refused
from broker_app.core.message import MessageIds
from broker_app.core.model import Delivery, Peer
from mom_client.stomp.frame import Headers

Tag = int


class Tags:
    """The deliveries of one session. In 1.2 a client names the tag itself; in 1.0 and 1.1 the message, so it
    is remembered which delivery of it was the latest. Clients of 1.2 that name messages as well are
    understood where there is but one such delivery: to RabbitMQ both are the same."""

    def __init__(self, peer: Peer, ids: MessageIds, version: str) -> None:
        self._peer = peer
        self._ids = ids
        self._names_tags = version == "1.2"
        #: whether messages are remembered: in 1.2 from the first time on that a client names one
        self.by_message = not self._names_tags
        #: by (subscription or None, message-id); 0 where it is not clear
        self._latest: dict[tuple[str | None, str], Tag] = {}

    def remember(self, deliveries: list[Delivery]) -> None:
        """What a client may name from now on."""
        unsettled = self._peer.unsettled
        if len(self._latest) > 4 * len(unsettled) + 1000:
            self._latest = {key: tag for key, tag in self._latest.items() if tag in unsettled}
        of = self._ids.of
        for subscription, tag, message in deliveries:
            if tag:
                message_id = of(message).decode()
                twice = self._names_tags and self._latest.get((None, message_id)) in unsettled
                self._latest[subscription.id, message_id] = tag
                self._latest[None, message_id] = 0 if twice else tag

    def forget(self) -> None:
        self._latest.clear()

    def find(self, given: Headers) -> Tag:
        """The tag that the headers of an ACK or NACK name. Raises Refused."""
        return self._own(given) if self._names_tags else self._of_message(given)

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

    def _own(self, given: Headers) -> Tag:
        id = given.get("id")
        if id is None:
            raise Refused(
                "malformed-frame", "ACK and NACK need an id header: the value of the message's ack header"
            )
        if id.isascii() and id.isdigit() and len(id) <= 18:
            return int(id)
        if not self.by_message:
            self.by_message = True
            held = self._peer.unsettled.items()
            self.remember([(subscription, tag, message) for tag, (subscription, message) in held])
        tag = self._latest.get((None, id), 0)
        if not tag:
            raise Refused(
                "unknown-delivery",
                f"there is no unsettled delivery {id[:40]!r} in this session; take the message's ack header",
            )
        return tag
