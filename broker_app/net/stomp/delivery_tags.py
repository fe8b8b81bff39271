"""The delivery that an ACK or NACK refers to, in each version of STOMP."""

from __future__ import annotations

import secrets
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.message import MessageIds
from broker_app.core.model import Delivery, Peer
from mom_client.stomp.frame import Headers

Tag = int
#: The `ack` of a message that a browser shows begins so, and is no tag: there is nothing to settle.
BROWSED: Final = "browsed-"

#: Sessions draw one of so many ranges, each for so many deliveries. A tag of both has at most 16 digits.
_RANGES: Final = 10**7
_DELIVERIES: Final = 10**9


def first_tag() -> Tag:
    """The first tag of a new session. Its tags are not those of other sessions: an ACK that comes late, over
    the next connection of a client, would settle another message there."""
    return (1 + secrets.randbelow(_RANGES - 1)) * _DELIVERIES + 1


class Tags:
    """The delivery tags of one session.

    Clients of 1.2 send the tag. Clients of 1.0 and 1.1 send the message-id, so the latest delivery of each
    message is stored. A message-id is accepted in 1.2, too, if it is unique, since RabbitMQ accepts it.
    """

    def __init__(self, peer: Peer, ids: MessageIds, version: str) -> None:
        self._peer = peer
        self._ids = ids
        self._names_tags = version == "1.2"
        #: True if several deliveries of one message must be distinguished
        self._unambiguous = version != "1.0"
        #: True if message-ids are stored; in 1.2 from the first ACK with a message-id on
        self.by_message = not self._names_tags
        #: True after the first browser that asked to acknowledge: message-ids may be those of what it showed
        self.browses = False
        #: by (subscription or None, message-id); 0 if it is ambiguous
        self._latest: dict[tuple[str | None, str], Tag] = {}
        #: of those that are ambiguous: by message-id
        self._several: dict[str, set[Tag]] = {}

    def remember(self, deliveries: list[Delivery]) -> None:
        """Store deliveries that the client may refer to by message-id."""
        if len(self._latest) > 4 * len(self._peer.unsettled) + 1000:
            self._forget_settled()
        of = self._ids.of
        for subscription, tag, message in deliveries:
            if tag:
                message_id = of(message).decode()
                former = self._latest.get((None, message_id)) if self._unambiguous else None
                several = former is not None and self._note_others(message_id, former, tag)
                self._latest[subscription.id, message_id] = tag
                self._latest[None, message_id] = 0 if several else tag

    def _note_others(self, message_id: str, former: Tag, tag: Tag) -> bool:
        """Note which deliveries of a message the client holds when it gets another one, `tag`; returns
        whether there are any."""
        others = self._several.pop(message_id, set()) | {former}
        held = {other for other in others if other in self._peer.unsettled}
        if held:
            self._several[message_id] = held | {tag}
        return bool(held)

    def _forget_settled(self) -> None:
        unsettled = self._peer.unsettled
        several = self._several
        several = {id: tags for id, tags in several.items() if not unsettled.keys().isdisjoint(tags)}
        latest = self._latest.items()
        self._latest = {key: tag for key, tag in latest if (tag in unsettled if tag else key[1] in several)}
        self._several = several

    def find(self, given: Headers) -> Tag | None:
        """Return the tag that an ACK or NACK names; None for what a browser showed. Raises Refused."""
        return self._own(given) if self._names_tags else self._of_message(given)

    def _of_message(self, given: Headers) -> Tag | None:
        message_id = given.get("message-id")
        if message_id is None:
            raise Refused("malformed-frame", "ACK and NACK need a message-id header")
        subscription = given.get("subscription")
        tag = self._latest.get((subscription, message_id))
        if tag == 0:
            detail = f"several subscriptions hold message {message_id[:80]!r}: add the header subscription"
            raise Refused("malformed-frame", detail)
        if self.browses and tag not in self._peer.unsettled:
            return None
        if tag is None:
            raise Refused(
                "unknown-delivery", f"there is no unsettled delivery of message {message_id[:80]!r}"
            )
        return tag

    def _own(self, given: Headers) -> Tag | None:
        id = given.get("id")
        if id is None:
            raise Refused(
                "malformed-frame", "ACK and NACK need an id header: the value of the message's ack header"
            )
        if id.isascii() and id.isdigit() and len(id) <= 18:
            return int(id)
        if id.startswith(BROWSED):
            return None
        if not self.by_message:
            self.by_message = True
            unsettled = self._peer.unsettled.items()
            self.remember([(subscription, tag, message) for tag, (subscription, message) in unsettled])
        tag = self._latest.get((None, id), 0)
        if not tag:
            raise Refused(
                "unknown-delivery",
                f"there is no unsettled delivery {id[:40]!r} in this session; use the message's ack header",
            )
        return tag
