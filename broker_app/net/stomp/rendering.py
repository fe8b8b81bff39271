"""Deliveries and answers as STOMP frames.

MESSAGE is joined from cached parts: a head per subscription, the id, and a tail per envelope with the user's
headers. Only numbers and the body differ between messages. Frames end with NUL LF, as those of other brokers
do, since some clients require it.
"""

from __future__ import annotations

from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.base.refused import Refused
from broker_app.base.system_topics import REFUSED_SUBSCRIPTION
from broker_app.core.commands import AUTO
from broker_app.core.message import Message, MessageIds
from broker_app.core.model import Delivery, Subscription
from broker_app.core.turn import UNRECORDED
from broker_app.net.problems import MEDIA_TYPE, problem_json
from broker_app.net.stomp.delivery_tags import BROWSED
from mom_client.stomp.encode import convert_block, encode, escape
from mom_client.stomp.frame import ERROR, MESSAGE

_VERSION_NUMBER = {"1.0": 0, "1.1": 1, "1.2": 2}
#: an implicit subscription of clients with `mom-soft-errors`
REFUSED_DESTINATION = f"/user/{REFUSED_SUBSCRIPTION}"
_END = b"\0\n"
#: the lines of a first delivery
_FIRST = b"redelivered:false\nattempt:1\n"
#: header of a RECEIPT for SUBSCRIBE: the journal never gave the position of `from`
UNKNOWN_POSITION = "unknown-position"
#: members of a problem that clients of other makes read as headers
_HEADERS = ("reason", "active")


class Renderer:
    """Renders frames for one negotiated version."""

    __slots__ = ("_ids", "_number", "_version", "_with_ack", "nameless")

    def __init__(self, version: str, ids: MessageIds) -> None:
        self._version = version
        self._number = _VERSION_NUMBER[version]
        self._with_ack = version == "1.2"
        #: ids of subscriptions that the broker chose, since their clients gave none
        self.nameless: set[str] = set()
        self._ids = ids

    def deliveries(self, deliveries: list[Delivery]) -> list[bytes]:
        """One MESSAGE frame for each delivery; one with a large body in three parts, as it is not copied."""
        frames: list[bytes] = []
        ids, with_ack, number = self._ids, self._with_ack, self._number
        for subscription, tag, message in deliveries:
            envelope = message.envelope
            time_ms = message.time_ms
            key = time_ms << 2 | number
            if envelope.tail_key != key:
                self._make_tail(message, key)
            body = message.body
            size = len(body)
            if message.attempts or message.explicit_id or size > LARGE_BYTES:
                ack = b"\nack:%d" % tag if tag and with_ack else b""
                head = self._head(subscription, ack, message)
                frames += (head, body, _END) if size > LARGE_BYTES else (head + body + _END,)
            elif tag and with_ack:
                frames.append(
                    b"%b%b%012x\nack:%d%b%d\n\n%b\0\n"
                    % (
                        subscription.head or self._make_head(subscription),
                        ids.prefix(time_ms),
                        message.position,
                        tag,
                        envelope.tail,
                        size,
                        body,
                    )
                )
            else:
                frames.append(
                    b"%b%b%012x%b%d\n\n%b\0\n"
                    % (
                        subscription.head or self._make_head(subscription),
                        ids.prefix(time_ms),
                        message.position,
                        envelope.tail,
                        size,
                        body,
                    )
                )
        return frames

    def browsed(self, subscription: Subscription, message: Message) -> list[bytes]:
        """The parts of MESSAGE of a browser. One that asked to acknowledge gets an `ack` that settles
        nothing."""
        if subscription.ack == AUTO or not self._with_ack:
            return self.deliveries([(subscription, 0, message)])
        ack = b"\nack:%b%b" % (BROWSED.encode(), self._ids.of(message))
        return [self._head(subscription, ack, message), message.body, _END]

    def _make_head(self, subscription: Subscription) -> bytes:
        known = subscription.id and subscription.id not in self.nameless
        line = f"subscription:{escape(subscription.id, self._version)}\n" if known else ""
        subscription.head = f"MESSAGE\n{line}message-id:".encode()
        return subscription.head

    def _make_tail(self, message: Message, key: int) -> None:
        envelope = message.envelope
        envelope.tail = self._tail(message, _FIRST)
        envelope.tail_key = key

    def _tail_of(self, message: Message) -> bytes:
        """The tail of a first delivery."""
        envelope = message.envelope
        key = message.time_ms << 2 | self._number
        if envelope.tail_key != key:
            self._make_tail(message, key)
        return envelope.tail

    def _tail(self, message: Message, delivery_lines: bytes) -> bytes:
        envelope = message.envelope
        return b"\ndestination:%b\n%b%btimestamp:%d\ncontent-length:" % (
            escape(envelope.address, self._version).encode(),
            delivery_lines,
            convert_block(envelope.block, self._version),
            message.time_ms,
        )

    def _head(self, subscription: Subscription, ack: bytes, message: Message) -> bytes:
        """MESSAGE up to its body, of any message and `ack` line."""
        queue = subscription.queue
        is_replayed = queue.in_order and not queue.durable and message.position < UNRECORDED
        if message.attempts or is_replayed:
            lines = _FIRST
            if message.attempts:
                lines = b"redelivered:true\nattempt:%d\n" % (message.attempts + 1)
            if is_replayed:
                lines += b"seq:%d\n" % message.position  # the position to continue a replay from
            tail = self._tail(message, lines)
        else:
            tail = self._tail_of(message)
        return b"%b%b%b%b%d\n\n" % (
            subscription.head or self._make_head(subscription),
            self._ids.of(message),
            ack,
            tail,
            len(message.body),
        )

    def error(
        self, refusal: Refused, receipt: bytes | None, extra: tuple[tuple[str, str], ...] = ()
    ) -> bytes:
        """An ERROR frame whose body is the problem as JSON."""
        detail = refusal.detail
        headers = [
            ("message", detail.splitlines()[0] if detail else refusal.code),
            ("content-type", MEDIA_TYPE),
            *((name, str(refusal.facts[name])) for name in _HEADERS if name in refusal.facts),
            *extra,
        ]
        return _with_receipt_id(answer(ERROR, headers, _problem(refusal), self._version), receipt)

    def soft_refusal(
        self, refusal: Refused, receipt: bytes | None, message_id: str, correlation_id: str
    ) -> bytes:
        """A refusal as a MESSAGE, for clients with `mom-soft-errors`."""
        headers = [
            ("subscription", REFUSED_SUBSCRIPTION),
            ("message-id", message_id),
            ("destination", REFUSED_DESTINATION),
            ("content-type", MEDIA_TYPE),
        ]
        if correlation_id:
            headers.append(("correlation-id", correlation_id))
        return _with_receipt_id(answer(MESSAGE, headers, _problem(refusal), self._version), receipt)


def answer(command: bytes, headers: list[tuple[str, str]], body: bytes = b"", version: str = "1.2") -> bytes:
    """One frame of the broker."""
    return encode(command, headers, body, version=version) + b"\n"


def receipts(names: list[bytes]) -> list[bytes]:
    """One RECEIPT frame for each name."""
    return [b"RECEIPT\nreceipt-id:%b\n\n\0\n" % name for name in names]


def of_unknown_position(receipt: bytes) -> bytes:
    """The name of a receipt with a header behind it: the journal never gave the position that was named."""
    return receipt + b"\n%b:true" % UNKNOWN_POSITION.encode()


def _problem(refusal: Refused) -> bytes:
    return problem_json(refusal.code, refusal.detail, **refusal.facts)


def _with_receipt_id(frame: bytes, receipt: bytes | None) -> bytes:
    if receipt is None:
        return frame
    command, _, rest = frame.partition(b"\n")
    return b"%b\nreceipt-id:%b\n%b" % (command, receipt, rest)
