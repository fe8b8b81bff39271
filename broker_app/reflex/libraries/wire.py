"""Frames between the broker and the process of a library, over a pair of sockets.

    length   4 bytes, big-endian
    content  MessagePack: an array

| from | content |
|---|---|
| the broker | `Functions`: the numbers by which calls name functions |
| the broker | a list of `Call`, carried out in this order |
| the process | `Hello`: the library is loaded, or why it is not |
| the process | `CallResult` of each call, in order, as soon as it has returned |
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

import msgspec

LENGTH = Layout(">I")
#: bytes of a frame of a process; more is garbage
MAX_RESULT = 80 * 1024 * 1024


class FunctionSpec(msgspec.Struct, array_like=True, frozen=True):
    """A function, for the calls that name `number`."""

    number: int
    kind: str
    name: str
    options: dict[str, object]


class Functions(msgspec.Struct, array_like=True, tag="functions", frozen=True):
    """Further functions."""

    functions: list[FunctionSpec]


class RegistrationFacts(msgspec.Struct, array_like=True, frozen=True):
    """The fields of a registration."""

    name: str
    user: str
    machine: str
    type: str
    events: list[str]
    connection: str
    transport: str


class ChannelFacts(msgspec.Struct, array_like=True, frozen=True):
    """The fields of a call of a message channel, whose parts are in the body."""

    site: str
    lengths: str | None
    need_response: bool
    multiple: bool


class Call(msgspec.Struct, array_like=True, frozen=True):
    """One call. `block` is the header block of a message."""

    id: int
    function: int
    address: str = ""
    type: str = ""
    block: bytes = b""
    body: bytes = b""
    user: str = ""
    message_id: str = ""
    attempt: int = 1
    registration: RegistrationFacts | None = None
    channel: ChannelFacts | None = None


class Calls(msgspec.Struct, array_like=True, tag="calls", frozen=True):
    """Calls to be carried out in order."""

    calls: list[Call]


class Hello(msgspec.Struct, array_like=True, tag="hello", frozen=True):
    """The first frame of a process: the functions of its library, or the reason why it has none."""

    functions: list[str]
    error: str = ""


class NewMessageFacts(msgspec.Struct, array_like=True, frozen=True):
    """The fields of a message to be published."""

    destination: str
    body: bytes
    headers: dict[str, str]


class CallResult(msgspec.Struct, array_like=True, tag="result", frozen=True):
    """The result of a call: it took `micros` of time. With an `error` it failed; otherwise it is a verdict,
    or the answer of a local service. The handler of a channel may have answered before it failed: the
    lengths of the parts are the header `parts`, the destination of a message is its site, and without
    an answer the `reason` may be a status."""

    id: int
    micros: int
    accepted: bool = True
    error: str = ""
    reason: str = ""
    headers: dict[str, str | None] = {}
    messages: list[NewMessageFacts] = []
    marks: list[str] = []
    retry_s: float = 0.0
    facts: dict[str, str] = {}
    answer: bytes | None = None
    answer_headers: dict[str, str] = {}


ToProcess = Functions | Calls
FromProcess = Hello | CallResult

_encoder = msgspec.msgpack.Encoder()
decode_to_process = msgspec.msgpack.Decoder(ToProcess).decode
decode_from_process = msgspec.msgpack.Decoder(FromProcess).decode


def frame(content: ToProcess | FromProcess) -> bytes:
    """The bytes of a frame."""
    encoded = _encoder.encode(content)
    return LENGTH.pack(len(encoded)) + encoded


class Frames:
    """Divides a stream of bytes into frames. Raises ValueError for one that is longer than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the contents that are complete now."""
        received = self._received
        received += data
        start = 0
        try:
            while len(received) - start >= LENGTH.size:
                (length,) = LENGTH.unpack_from(received, start)
                if length > self._most:
                    raise ValueError(f"a frame of {length} bytes; at most {self._most} are allowed")
                end = start + LENGTH.size + length
                if len(received) < end:
                    return
                yield bytes(received[start + LENGTH.size : end])
                start = end
        finally:
            del received[:start]
