"""ACK and NACK of a session."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core.reasons import REJECTED
from broker_app.net.stomp import headers, scheduling_headers
from broker_app.net.stomp.conversation import OPEN, Conversation
from broker_app.net.stomp.delivery_tags import Tag, Tags
from mom_client.stomp import frame as wire
from mom_client.stomp.frame import Frame, Headers


class Acknowledgements:
    """Turns ACK and NACK frames into commands."""

    __slots__ = ("_conversation", "cumulative", "tags")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.renew_tags()
        #: True if a subscription with ack:client exists
        self.cumulative = False

    def renew_tags(self) -> None:
        """Forget what the client holds, and use the delivery tags of its version from now on."""
        conversation = self._conversation
        #: the deliveries that the client can name
        self.tags = Tags(conversation.peer, conversation.sessions.ids, conversation.version)

    def run(self, ids: list[bytes]) -> list[Frame]:
        """Settle a run of ACK frames that have only an id, by one command; if one of them needs a check,
        settle none and return the frames."""
        conversation = self._conversation
        tags: list[int] = []
        if conversation.state == OPEN and conversation.version == "1.2" and not self.cumulative:
            try:
                tags = list(map(int, ids))
            except ValueError:
                tags = []
        unsettled = conversation.peer.unsettled
        if not tags or (conversation.soft_errors and not all(tag in unsettled for tag in tags)):
            # An unknown one is refused by itself if the connection stays open.
            return [Frame(wire.ACK, Headers({"id": id.decode()})) for id in ids]
        conversation.submit(c.Settle(conversation.peer, tags), 16 * len(tags))
        return []

    def ack(self, frame: Frame) -> None:
        """Raises Refused if the frame names no delivery."""
        tags, cumulative = self._deliveries(frame.headers)
        self._settle(frame, c.Settle(self._conversation.peer, tags, cumulative))

    def nack(self, frame: Frame) -> None:
        """Raises Refused if the frame names no delivery, or has an invalid delay."""
        given = frame.headers
        tags, cumulative = self._deliveries(given)
        reason = "" if headers.requeue(given) else REJECTED
        detail = given.get("reason", "")
        delay_ms = scheduling_headers.delay_ms(given["delay-s"]) if "delay-s" in given else 0
        peer = self._conversation.peer
        self._settle(frame, c.Return(peer, tags, cumulative, reason, detail, delay_ms=delay_ms))

    def _settle(self, frame: Frame, command: c.Settle | c.Return) -> None:
        transaction = frame.headers.get("transaction")
        conversation = self._conversation
        if transaction is None:
            command.receipt = frame.receipt
            conversation.submit(command)
            return
        confirm = conversation.confirms_each_frame
        command.receipt = None if confirm else frame.receipt
        conversation.submit(c.Enlist(conversation.peer, transaction, command, frame.receipt, confirm))

    def _deliveries(self, given: Headers) -> tuple[tuple[Tag, ...], bool]:
        """The tag that an ACK or NACK names, and True if it settles all earlier ones, too. There is none for
        what a browser showed."""
        tag = self.tags.find(given)
        if tag is None:
            return (), False
        unsettled = self._conversation.peer.unsettled.get(tag)
        return (tag,), unsettled is not None and unsettled[0].ack == c.CLIENT
