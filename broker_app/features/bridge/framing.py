"""Messages as SEND frames of one flow, for another MOM and for foreign brokers.

A frame is joined from ready pieces, like the MESSAGE frames of a session: a head that is kept with the
envelope, for thousands of messages, then what differs. The lines `receipt` and `content-length` come last,
where a receiver can cut them out without reading the rest.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final
from urllib.parse import quote

from broker_app.core.message import DEFAULT_PRIORITY, Message, MessageIds
from broker_app.core.model import Delivery
from mom_client.connection.link import Link
from mom_client.stomp import frame as wire
from mom_client.stomp.encode import convert_block, escape
from mom_client.stomp.parser import Limits
from mom_client.stomp.writes import ALONE
from mom_client.storeandforward import SYNC_QUEUE

#: what a remote broker may send: it confirms and refuses, and sends no messages
LIMITS: Final = Limits(max_body=64 * 1024)
#: lines that belong to a frame and not to a message, should a message have them
_OF_FRAMES: Final = rb"destination|receipt|transaction|content-length|mom-flow"
_FRAME_LINES: Final = re.compile(rb"^(?:%b):.*\n" % _OF_FRAMES, re.MULTILINE)
#: headers that replace those of the producer for a foreign broker
_OF_OURS: Final = re.compile(rb"^(?:persistent|mom-message-id):.*\n", re.MULTILINE)
_EXPIRES: Final = re.compile(rb"^expires:.*\n", re.MULTILINE)
#: a SEND up to its body, and as a whole
_HEAD: Final = b"%b%breceipt:%d\ncontent-length:%d\n\n"
_FRAME: Final = _HEAD + b"%b\0"


class Framing(ABC):
    """Renders for one flow on one connection. `version` is the one agreed upon."""

    def __init__(self, target: str, version: str) -> None:
        self._version = version
        self._begin = f"SEND\ndestination:{escape(target, version)}\n".encode()

    def frames(self, deliveries: list[Delivery]) -> list[bytes]:
        """One SEND for each delivery; its receipt is the position. One with a large body is in three parts:
        it is not copied."""
        frames: list[bytes] = []
        for _, _, message in deliveries:
            envelope = message.envelope
            head = envelope.tail
            if envelope.tail_key is not self:
                head = self._head(message)
            body = message.body
            own, position, size = self._own_lines(message), message.position, len(body)
            if size > ALONE:
                frames += (_HEAD % (head, own, position, size), body, b"\0")
            else:
                frames.append(_FRAME % (head, own, position, size, body))
        return frames

    def _head(self, message: Message) -> bytes:
        """The frame up to the lines that differ from message to message, kept with the envelope."""
        envelope, block = message.envelope, self._block(message)
        lines = self._lines(message, block)
        envelope.tail = head = self._begin + lines + convert_block(block, self._version)
        envelope.tail_key = self
        return head

    def _block(self, message: Message) -> bytes:
        """The header lines of the message that travel."""
        block = _FRAME_LINES.sub(b"", message.envelope.block)
        # The expiry, which may follow from a time to live, differs from message to message.
        return _EXPIRES.sub(b"", block) if message.expires_ms else block

    @abstractmethod
    def _lines(self, message: Message, block: bytes) -> bytes:
        """The lines for all messages of an envelope that their block does not contain."""

    @abstractmethod
    def _own_lines(self, message: Message) -> bytes:
        """The lines that differ from message to message."""


class ToMom(Framing):
    """To another MOM: headers are equal for messages with equal headers, so that its cache serves."""

    def __init__(self, target: str, version: str, flow_id: str) -> None:
        super().__init__(target, version)
        self._begin += b"mom-flow:%b\n" % flow_id.encode()

    def _lines(self, message: Message, block: bytes) -> bytes:
        envelope = message.envelope
        lines = b""
        if not envelope.persistent and not _says(block, b"persistent"):
            lines += b"persistent:false\n"
        if envelope.priority != DEFAULT_PRIORITY and not _says(block, b"priority"):
            lines += b"priority:%d\n" % envelope.priority
        return lines

    def _own_lines(self, message: Message) -> bytes:
        return b"expires:%d\n" % message.expires_ms if message.expires_ms else b""


class ToForeign(Framing):
    """The headers for a broker that is not MOM: all that its consumers cannot know otherwise, and an id by
    which they recognize duplicates."""

    def __init__(self, target: str, version: str, ids: MessageIds) -> None:
        super().__init__(target, version)
        self._ids = ids

    def _block(self, message: Message) -> bytes:
        return _OF_OURS.sub(b"", super()._block(message))

    def _lines(self, message: Message, block: bytes) -> bytes:
        lines = self._persistence(message)
        if not _says(block, b"priority"):
            lines += b"priority:%d\n" % message.envelope.priority
        return lines

    def _persistence(self, message: Message) -> bytes:
        return b"persistent:true\n" if message.envelope.persistent else b"persistent:false\n"

    def _own_lines(self, message: Message) -> bytes:
        expires = b"expires:%d\n" % message.expires_ms if message.expires_ms else b""
        return b"%bmom-message-id:%b\n" % (expires, self._ids.of(message))


class ToRabbitMQ(ToForeign):
    """To RabbitMQ, which takes a slash for the end of a name unless it is written otherwise. The header
    `persistent:false` would declare another, transient queue there: only what is persistent has a header."""

    def __init__(self, target: str, version: str, ids: MessageIds) -> None:
        kind, _, name = target.lstrip("/").partition("/")
        super().__init__(f"/{kind}/{quote(name, safe='')}", version, ids)

    def _persistence(self, message: Message) -> bytes:
        return b"persistent:true\n" if message.envelope.persistent else b""


def to_foreign(target: str, version: str, ids: MessageIds, server: str) -> Framing:
    """For a foreign broker that calls itself `server`."""
    kind = ToRabbitMQ if server.startswith("RabbitMQ") else ToForeign
    return kind(target, version, ids)


def _says(block: bytes, name: bytes) -> bool:
    return block.startswith(name + b":") or b"\n" + name + b":" in block


def knows_bridges(link: Link) -> bool:
    """True if the remote broker is a MOM, which keeps replication offsets."""
    return "mom-bridge" in link.connection.headers


def framing_for(link: Link, target: str, id: str, ids: MessageIds) -> Framing:
    """The framing of the flow `id` to the remote address `target`."""
    version = link.connection.version
    if knows_bridges(link):
        return ToMom(target, version, id)
    return to_foreign(target, version, ids, link.connection.headers.get("server", ""))


def start_frame(link: Link, source: str, queue: str, id: str, receipt: str) -> bytes:
    """The frame that starts a flow at a MOM."""
    headers = {
        "destination": f"/queue/{SYNC_QUEUE}",
        "id": id,
        "receipt": receipt,
        "mom-source": source.removeprefix("/queue/"),
        "mom-target": f"/queue/{queue}",
    }
    return link.connection.encode(wire.SUBSCRIBE, headers)
