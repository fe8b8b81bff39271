"""uvicorn's WebSocket connection with a short way for data frames.

The library that uvicorn uses parses each frame in about 20 µs, and each becomes an event of its own. STOMP
is a stream of bytes that does not care how it is cut into messages, so the data frames of one read
are unmasked here and handed over as one event, in about 1 µs a frame. Control frames and whatever is
unusual or wrong go to the library, one frame at a time. Only binary events are made, also of text
messages.

    0                   1                   2                   3
    |F|RSV| opcode|M| length (7)  |  length (16 or 64, if 126 or 127)  | mask (32) | payload

Measured: benchmarks/RESULTS.md, W3.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import apply_mask  # type: ignore[attr-defined]  # the C one where there is one
from websockets.http11 import Request

from broker_app.net.certificates import Certificates

_RESERVED = 0x70
_OPCODE = 0x0F
_LAST_DATA_OPCODE = 2  # continuation, text, binary
_MASKED = 0x80
#: the longest message of a client that has not logged in: its CONNECT, and some more in the same one
STRANGER_BYTES = 256 * 1024


class StreamedWebSocket(WebSocketsSansIOProtocol):
    """See the module. Owns the bytes of a frame that has not arrived whole.

    The application calls `scope["mom.trust"]` when it knows the client; until then only short messages are
    taken, so that nobody fills the node's memory before.
    """

    certificates: Certificates | None = None
    #: set when the library has seen bytes behind the handshake, and must go on to see them all
    _library_only = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._partial: list[bytes] = []
        self._missing = 0

    def handle_connect(self, event: Request) -> None:
        self.conn.max_message_size = min(STRANGER_BYTES, self.config.ws_max_size)
        super().handle_connect(event)
        if self.response.status_code == 101:  # there is a scope, and nobody has seen it yet
            self.scope["mom.trust"] = self._trust  # type: ignore[typeddict-unknown-key]
            if self.certificates is not None:
                self.scope["mom.certified"] = self.certificates.names_of(self.transport)  # type: ignore[typeddict-unknown-key]

    def _trust(self) -> None:
        self.conn.max_message_size = self.config.ws_max_size

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # what is written would wait for ever for a client that takes nothing

    def data_received(self, data: bytes) -> None:
        if not self.handshake_complete or self._library_only or self.close_sent:
            self._library_only |= self.handshake_initiated
            super().data_received(data)
            return
        if self._partial:
            self._partial.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._partial)
            self._partial = []
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Hand over all data frames that are whole, in one event as far as no other frame lies between."""
        payloads: list[bytes] = []
        at, end, longest = 0, len(data), self.conn.max_message_size or 0
        while at < end:
            start, stop = _extent(data, at, end)
            if not stop or stop > end:
                if stop - at > longest:  # the library says no before the rest is buffered
                    self._hand_over(payloads)
                    self._library_only = True
                    super().data_received(data[at:])
                    return
                self._partial = [data[at:]]
                self._missing = stop - end if stop else 1
                break
            if data[at] & _RESERVED or data[at] & _OPCODE > _LAST_DATA_OPCODE or not data[at + 1] & _MASKED:
                self._hand_over(payloads)
                payloads = []
                super().data_received(data[at:stop])
                if self.close_sent or self.transport.is_closing():
                    return
            else:
                payloads.append(apply_mask(data[start:stop], data[start - 4 : start]))
            at = stop
        self._hand_over(payloads)

    def _hand_over(self, payloads: list[bytes]) -> None:
        if not payloads:
            return
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()


def websocket_type(certificates: Certificates | None) -> type[StreamedWebSocket]:
    """uvicorn makes connections by their class, so what they need to know is in the class."""
    return type("StreamedWebSocket", (StreamedWebSocket,), {"certificates": certificates})


def _extent(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the payload of the frame at `at` begins and ends; (0, 0) while its head is not whole."""
    if end - at < 2:
        return 0, 0
    length = data[at + 1] & 0x7F
    mask = 4 if data[at + 1] & _MASKED else 0
    if length < 126:
        start = at + 2 + mask
    elif length == 126:
        if end - at < 4:
            return 0, 0
        length = data[at + 2] << 8 | data[at + 3]
        start = at + 4 + mask
    else:
        if end - at < 10:
            return 0, 0
        length = int.from_bytes(data[at + 2 : at + 10], "big")
        start = at + 10 + mask
    return start, start + length
