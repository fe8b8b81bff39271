"""The frames of a link: a length of four bytes, and a Struct of this module in MessagePack.

A broker subscribes on the other one by numbers of its own; the other one delivers under these numbers, with
tags of its own by which deliveries are settled. Both directions use one connection, so that what a broker
wants and what it delivers are in order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from broker_app.base.refused import Refused
from broker_app.base.settings.cluster_addresses import reachable
from broker_app.core.destination import MAX_ADDRESS
from broker_app.core.durability.records import Terms
from broker_app.core.remote.cluster_usage import MOST_UNUSED

MIB: Final = 1024 * 1024
#: bytes of a frame before the other broker has proven that it is one of the cluster
FIRST_BYTES: Final = 4 * 1024
#: bytes of all frames but `Deliver` with one large message, as senders count them, and at most
USUAL_BYTES: Final = 256 * 1024
MOST_USUAL_BYTES: Final = 2 * USUAL_BYTES
#: bytes of a delivery besides its body, and of an envelope besides its texts, at most
DELIVERY_BYTES: Final = 100
#: messages of a frame, and deliveries that a frame settles, of each kind
MOST_MESSAGES: Final = USUAL_BYTES // DELIVERY_BYTES + 1
MOST_SETTLED: Final = 10_000
MOST_FAILED: Final = 200
#: brokers that are known
MOST_BROKERS: Final = 200
#: destinations whose use one frame has, and bytes of a message about the change record
MOST_USES: Final = 1_000
MOST_RECORD_BYTES: Final = 64 * 1024
#: settings that a central file may change, and characters of a value of one, as it is shown
MOST_CHANGED: Final = 200
MOST_SHOWN: Final = 1_000
_LENGTH = struct.Struct("!I")
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Id = Annotated[bytes, msgspec.Meta(min_length=1, max_length=200)]
_Destination = Annotated[str, msgspec.Meta(max_length=MAX_ADDRESS)]
#: a name or number of a broker, an address of one, and an address for clients
_Name = Annotated[str, msgspec.Meta(max_length=100)]
_Broker = Annotated[str, msgspec.Meta(max_length=300)]
_Uri = Annotated[str, msgspec.Meta(max_length=1_000)]
_Brokers = Annotated[list[_Broker], msgspec.Meta(max_length=MOST_BROKERS)]
#: milliseconds since 1970
_Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]


class _Frame(msgspec.Struct, array_like=True, gc=False, tag=True):
    """The base of all frames."""


# ---------------------------------------------------------------------- who is there


class Hello(_Frame):
    """The first frame, of the broker that has connected."""

    nonce: bytes


class Challenge(_Frame):
    """The answer to it."""

    nonce: bytes


class Proof(_Frame):
    """The digest of both nonces by the secret; of the broker that has connected first, then of the other."""

    digest: bytes


class Identity(_Frame):
    """A broker of the cluster. `incarnation` is another one after each start; `address` is where others
    connect to it, `uris` where clients do, `web` its console. `settings` must be equal at all brokers;
    `brokers` are the addresses of those that it knows."""

    name: _Name
    incarnation: _Name
    version: _Name
    address: _Broker
    uris: Annotated[list[_Uri], msgspec.Meta(max_length=100)]
    web: _Uri
    settings: Annotated[dict[_Name, _Uri], msgspec.Meta(max_length=100)]
    brokers: _Brokers

    def client_uris(self) -> list[str]:
        """The addresses for clients, as far as those of other brokers reach them."""
        return reachable(self.uris, self.address)

    def client_web(self) -> str:
        """The address of the console; empty if others cannot reach it."""
        return "".join(reachable([self.web], self.address))


class Refuse(_Frame):
    """The last frame: why the sender ends the connection. The code "stopped": it stops."""

    code: str
    detail: str


class Ping(_Frame):
    """Answered by `Pong` with the same number."""

    number: int


class Pong(_Frame):
    """The answer to `Ping`."""

    number: int


class Availability(_Frame):
    """The state of the sender: whether it refuses new clients, how many it has, and the addresses of brokers
    that it knows, if they have changed."""

    quiesced: bool
    clients: _Count
    brokers: _Brokers


class SharedUse(_Frame):
    """The use of limits that all share by the sender: (address, messages, bytes, producers) of destinations
    where that has changed."""

    entries: Annotated[list[tuple[_Destination, _Count, _Count, _Count]], msgspec.Meta(max_length=MOST_USES)]


class AskUnused(_Frame):
    """Asks which of these queues are not used at the other broker."""

    number: int
    addresses: Annotated[list[_Destination], msgspec.Meta(max_length=MOST_UNUSED)]


class Unused(_Frame):
    """The answer to the question of that number: those that are not."""

    number: int
    addresses: Annotated[list[_Destination], msgspec.Meta(max_length=MOST_UNUSED)]


class Reload(_Frame):
    """Asks to read the central file again."""

    number: int


class ChangedSetting(msgspec.Struct, array_like=True, frozen=True):
    """A setting with its value so far and that of the central file."""

    name: Annotated[str, msgspec.Meta(max_length=100)]
    running: Annotated[str, msgspec.Meta(max_length=MOST_SHOWN)]
    file: Annotated[str, msgspec.Meta(max_length=MOST_SHOWN)]


class Reloaded(_Frame):
    """The answer to the order of that number: settings that were changed, and those that need a restart; or
    the error in the file."""

    number: int
    applied: Annotated[list[ChangedSetting], msgspec.Meta(max_length=MOST_CHANGED)] = []
    refused: Annotated[list[ChangedSetting], msgspec.Meta(max_length=MOST_CHANGED)] = []
    error: Annotated[str, msgspec.Meta(max_length=MOST_SHOWN)] = ""


# ---------------------------------------------------------------------- messages


class Subscribe(_Frame):
    """Begin a subscription for consumers of the sender; `terms` (filter, selector, shared, owner) are those
    of a named one, whose queue `address` then is."""

    number: int
    address: str
    consumers: int
    credit: int
    selector: str = ""
    exclusive_since_us: int = 0
    priority: int = 0
    terms: Terms | None = None


class Credit(_Frame):
    """The consumers of a subscription have changed."""

    number: int
    consumers: int
    credit: int


class Unsubscribe(_Frame):
    """End a subscription: its consumers have left."""

    number: int


class NotSubscribed(_Frame):
    """A subscription was refused, or ended by the broker that delivers."""

    number: int
    code: str
    detail: str


class SharedEnvelope(msgspec.Struct, array_like=True, gc=False):
    """The `Envelope` of several messages."""

    address: str
    block: bytes
    persistent: bool
    priority: int
    group: str = ""
    dedup_id: str = ""


class RemoteDelivery(msgspec.Struct, array_like=True, gc=False):
    """A message for the subscription `number`; `envelope` is an index. The tag is 0 if it has not to be
    settled. Times are milliseconds since 1970, that of expiry 0 for never."""

    number: int
    tag: _Count
    envelope: _Count
    attempts: _Count
    time_ms: _Time
    expires_ms: _Time
    id: _Id
    body: bytes


class Deliver(_Frame):
    """Messages, in order."""

    envelopes: Annotated[list[SharedEnvelope], msgspec.Meta(max_length=MOST_MESSAGES)]
    messages: Annotated[list[RemoteDelivery], msgspec.Meta(max_length=MOST_MESSAGES)]


class _LargeDelivery(_Frame, tag="Deliver"):
    """`Deliver` with one message, in a frame of any length."""

    envelopes: Annotated[list[SharedEnvelope], msgspec.Meta(max_length=1)]
    messages: Annotated[list[RemoteDelivery], msgspec.Meta(max_length=1)]


class Failed(msgspec.Struct, array_like=True, gc=False):
    """A delivery that has failed at a consumer; `dead_reason`, `detail` and `delay_ms` as in
    `commands.Return`."""

    tag: int
    reason: str
    dead_reason: str = ""
    detail: str = ""
    delay_ms: int = 0


class Settled(_Frame):
    """Deliveries that were acknowledged, that found no consumer, and that have failed."""

    acked: Annotated[list[int], msgspec.Meta(max_length=MOST_SETTLED)] = []
    returned: Annotated[list[int], msgspec.Meta(max_length=MOST_SETTLED)] = []
    failed: Annotated[list[Failed], msgspec.Meta(max_length=MOST_FAILED)] = []


class Confirm(_Frame):
    """Asks whether what was settled before is recorded; answered by `Confirmed` with the same number, which
    is an answer to all before it."""

    number: int


class Confirmed(_Frame):
    """The answer to `Confirm`."""

    number: int


class SentAgain(_Frame):
    """A client has sent a message again, which is stored at the sender now: another copy of it, which the
    client had sent before, is a repeat. `digest` is that of its dedup-id."""

    address: _Destination
    digest: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class Record(_Frame):
    """A message about the change record, as `change_record` encodes it."""

    message: Annotated[bytes, msgspec.Meta(max_length=MOST_RECORD_BYTES)]


class AskPage(_Frame):
    """Asks for messages that wait at the other broker, or for its destinations: a `pages.PageQuestion` or a
    `DestinationsQuestion`, encoded."""

    number: int
    question: bytes


class Page(_Frame):
    """The answer to the question of that number: a `pages.BrowsedPage` or a `DestinationsPage`, encoded, or
    why there is none. A large one has a `size`, and comes in pieces."""

    number: int
    body: bytes
    code: str = ""
    detail: str = ""
    size: _Count = 0


# ---------------------------------------------------------------------- message channels


class ChannelCall(_Frame):
    """A message of an application for a handler at the other site, or with a number a request, which has
    `timeout_ms`. `lengths` are those of the parts of the body, as the header `parts` has them. A large body
    has a `size`, and comes in pieces."""

    number: int
    timeout_ms: int
    multiple: bool
    lengths: str | None
    body: bytes
    size: _Count = 0


class ChannelAnswer(_Frame):
    """The answer to the request of that number; `reason` says why it has another status than "ok". The body
    as of a call."""

    number: int
    status: str
    lengths: str | None
    body: bytes
    reason: str = ""
    size: _Count = 0


class ChannelPiece(_Frame):
    """The next bytes of the body of the large call, answer or page that has begun. Others come in between."""

    body: bytes


class ChannelCredit(_Frame):
    """Reports that so many pieces were taken, so that as many may follow."""

    pieces: Annotated[int, msgspec.Meta(ge=0, le=1_000)]


class ChannelHandlers(_Frame):
    """The number of handlers that applications at the sender have."""

    number: int


ChannelFrame = ChannelCall | ChannelAnswer | ChannelHandlers
#: frames whose body is sent in pieces where it is large
Call = ChannelCall | ChannelAnswer | Page
FirstFrame = Hello | Challenge | Proof | Identity | Refuse
Frame = (
    FirstFrame
    | Ping
    | Pong
    | Availability
    | SharedUse
    | AskUnused
    | Unused
    | Reload
    | Reloaded
    | Subscribe
    | Credit
    | Unsubscribe
    | NotSubscribed
    | Deliver
    | Settled
    | Confirm
    | Confirmed
    | SentAgain
    | Record
    | AskPage
    | Page
    | ChannelFrame
    | ChannelPiece
    | ChannelCredit
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
#: of long frames: many small parts would take long to read
_large_decoder: msgspec.msgpack.Decoder[_LargeDelivery] = msgspec.msgpack.Decoder(_LargeDelivery)


def encode(frame: Frame) -> bytearray:
    """The bytes of a frame, with its length."""
    found = bytearray(_LENGTH.size)
    _encoder.encode_into(frame, found, _LENGTH.size)  # so that a large body is copied once
    _LENGTH.pack_into(found, 0, len(found) - _LENGTH.size)
    return found


class Reader:
    """The frames in what was received, each once: an iterator that ends at one which is not complete, and
    goes on when more was added. `most` is the largest frame that is accepted, in bytes."""

    def __init__(self, most: int = FIRST_BYTES) -> None:
        self.most = most
        self._buffer = bytearray()
        #: bytes of the buffer whose frames were read
        self._read = 0

    def __iter__(self) -> Iterator[Frame]:
        return self

    def add(self, data: bytes | bytearray) -> None:
        """Add what was received."""
        self._buffer += data

    def __next__(self) -> Frame:
        """The next frame. Raises Refused("protocol-error") for others than a broker sends."""
        buffer, begin = self._buffer, self._read + _LENGTH.size
        if len(buffer) >= begin:
            (length,) = _LENGTH.unpack_from(buffer, self._read)
            if length > self.most:
                raise Refused("protocol-error", f"a frame of {length} bytes came; {self.most} are allowed")
            end = begin + length
            if len(buffer) >= end:
                self._read = end
                try:
                    with memoryview(buffer) as view, view[begin:end] as content:
                        return _decoded(content)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise Refused("protocol-error", f"a frame cannot be read: {error}") from None
        del buffer[: self._read]
        self._read = 0
        raise StopIteration


def _decoded(content: memoryview) -> Frame:
    """The frame with this content. A long one is read only if it has one message: many small parts would take
    long."""
    if len(content) <= MOST_USUAL_BYTES:
        return _decoder.decode(content)
    large = _large_decoder.decode(content)
    return Deliver(large.envelopes, large.messages)


def without_body(call: Call) -> Call:
    """The beginning of a large call, whose body follows in pieces."""
    return msgspec.structs.replace(call, body=b"", size=len(call.body))


def settled(acked: list[int], returned: list[int], failed: list[Failed]) -> Iterator[Settled]:
    """Frames that settle so many deliveries."""
    while acked or returned or failed:
        yield Settled(acked[:MOST_SETTLED], returned[:MOST_SETTLED], failed[:MOST_FAILED])
        acked, returned, failed = acked[MOST_SETTLED:], returned[MOST_SETTLED:], failed[MOST_FAILED:]
