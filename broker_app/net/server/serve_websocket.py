"""uvicorn's WebSocket connection with a fast path for data frames.

The library that uvicorn uses parses each frame in about 20 µs, and each becomes an event of its own. STOMP is
a stream of bytes, whose division into messages has no meaning. So the data frames of one read are unmasked
here and passed on as one event, in about 1 µs a frame. Control frames and invalid ones go to the library, one
frame at a time, and not many of one read. Checks of whole messages are made here: the order of fragments
(else 1002), and that text is UTF-8 (else 1007). All events are binary; `mom.text` is true if the last message
was text.

The frames of a read that take longer than a turn of the loop are divided: what was taken is passed on, and
the next is taken when the application asks for it. Nothing is read meanwhile.

Pings detect dead clients. A missing pong counts only after the socket was read: never while the broker itself
does not read it, and not before its received bytes were processed.

    0                   1                   2                   3
    |F|RSV| opcode|M| length (7)  |  length (16 or 64, if 126 or 127)  | mask (32) | payload

Measured: benchmarks/RESULTS.md, W3.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import Callable, Iterable
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, apply_mask  # type: ignore[attr-defined]  # the C one where there is one
from websockets.http11 import Request

from broker_app.base.deadline import Deadline
from broker_app.net.http.client_hangup import hung_up
from broker_app.net.stomp.login.opening import LONGEST_CONNECT
from broker_app.net.tls.certificates import Certificates

_VERSION = "13"
_FINAL = 0x80
_TEXT = 1
_WHOLE_TEXT = 0x81
_WHOLE_BINARY = 0x82
_RESERVED = 0x70
_OPCODE = 0x0F
_LAST_DATA_OPCODE = 2  # continuation, text, binary
_MASKED = 0x80
#: masked, and the length follows in 16 bits; so many bytes of the frame are needed to know where it ends
_LENGTH_16, _SHORT_HEAD = _MASKED | 126, 4
#: characters of a fragment; a shorter message is sent as one frame
_FRAGMENT = 1024 * 1024
_SendFrame = Callable[..., None]
#: bytes of frames that are taken between two looks at the clock: a millisecond of the shortest ones
_STEP = 8 * 1024
_NO_UTF8 = CloseCode.INVALID_DATA, "text is not UTF-8; send binary messages"
#: the longest message of a client that has not logged in: its CONNECT, and as much again that waits for it
UNAUTHENTICATED_LIMIT = 2 * LONGEST_CONNECT
_TOO_LONG = CloseCode.MESSAGE_TOO_BIG, "a frame is longer than a message may be here"
#: control frames of one read: more than gather while the broker reads nothing of a client that sends pings
MAX_CONTROL_FRAMES = 100
_TOO_MANY = CloseCode.POLICY_VIOLATION, f"more than {MAX_CONTROL_FRAMES} pings at once; send fewer"
#: how long a ping's answer may lie in the socket after its time is over, for the broker may have been stopped
LAST_LOOK_S = 1.0


class StreamedWebSocket(WebSocketsSansIOProtocol):
    """See the module. Owns what was read and is not taken yet, and a frame that has not arrived whole.

    The application calls `scope["mom.authenticated"]` when it knows the client; until then only short
    messages are accepted, so that no unauthenticated client fills the node's memory.
    """

    certificates: Certificates | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._partial: list[bytes] = []
        self._missing = 0
        #: what was read last and is not taken yet, from `_at` on: it waits for a turn, or for the handshake
        self._unread = b""
        self._at = 0
        self._deadline = Deadline(time.monotonic)
        self._is_scheduled = False
        #: what was read, and is passed on with the next event
        self._payloads: list[bytes] = []
        #: control frames of this read
        self._controls = 0
        #: whether the message that came last is text
        self._text = False
        #: how a frame begins that is a whole message like the last one; 0 while more of that is to come
        self._usual = _WHOLE_BINARY
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        #: whether anything was read since the last ping, or nothing could be; whether time is over already
        self._heard = self._overdue = False

    def handle_connect(self, event: Request) -> None:
        if event.headers.get_all("Sec-WebSocket-Version") != [_VERSION]:
            self._refuse_version()
            return
        self.conn.max_message_size = min(UNAUTHENTICATED_LIMIT, self.config.ws_max_size)
        super().handle_connect(event)
        if self.response.status_code == 101:  # there is a scope, which has not been read yet
            self.scope["mom.authenticated"] = self._authenticated  # type: ignore[typeddict-unknown-key]
            self.scope["mom.hung_up"] = lambda: hung_up(self.transport)  # type: ignore[typeddict-unknown-key]
            if self.certificates is not None:
                self.scope["mom.certified"] = self.certificates.names_of(self.transport)  # type: ignore[typeddict-unknown-key]

    def _authenticated(self) -> None:
        self.conn.max_message_size = self.config.ws_max_size

    async def send(self, message: Any) -> None:
        text, data, fragments = message.get("text"), message.get("bytes"), message.get("mom.fragments")
        begin: _SendFrame = self.conn.send_text
        if text is not None and len(text) > _FRAGMENT and self.handshake_complete:
            fragments = (text[at : at + _FRAGMENT].encode() for at in range(0, len(text), _FRAGMENT))
        elif data is not None and len(data) > _FRAGMENT and self.handshake_complete:
            fragments = (data[at : at + _FRAGMENT] for at in range(0, len(data), _FRAGMENT))
            begin = self.conn.send_binary
        if fragments is not None:
            await self._send_fragments(begin, fragments)
            return
        opens = not self.handshake_complete
        await super().send(message)
        if self._unread and self.handshake_complete and (opens or self.close_sent):
            self._schedule()  # the application asks for nothing
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # or the library logs an error: the client was answered

    async def _send_fragments(self, begin: _SendFrame, fragments: Iterable[bytes]) -> None:
        """Send a large message in fragments, of which `begin` sends the first: no frame of it is in memory as
        a whole, and the loop goes on in between. The last fragment is empty."""
        send = begin
        for fragment in fragments:
            await self._send_fragment(send, fragment, final=False)
            send = self.conn.send_continuation
        await self._send_fragment(send, b"", final=True)

    async def _send_fragment(self, send: _SendFrame, fragment: bytes, *, final: bool) -> None:
        await self.writable.wait()
        if self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        try:
            send(fragment, fin=final)
        except InvalidState as error:
            raise ClientDisconnected from error
        self.transport.write(b"".join(self.conn.data_to_send()))
        await asyncio.sleep(0)

    def _refuse_version(self) -> None:
        response = self.conn.reject(426, f"Speak version {_VERSION} of the WebSocket protocol.\n")
        response.headers["Sec-WebSocket-Version"] = _VERSION
        self.handshake_complete = self.close_sent = True
        self.conn.send_response(response)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def send_keepalive_ping(self) -> None:
        self._heard, self._overdue = self.read_paused, False
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        if self.read_paused or self._heard or not self._overdue:
            self._overdue = not (self.read_paused or self._heard)
            self._heard = self.read_paused
            wait = LAST_LOOK_S if self._overdue else self.ping_timeout or 0.0
            self.pong_timer = self.loop.call_later(wait, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.transport.abort()  # what is written would wait for ever for a client that takes nothing

    async def receive(self) -> Any:
        if self._unread and self.queue.empty() and self.handshake_complete:
            self._schedule()
        event = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self._resume()
        return event

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if not self.handshake_initiated:
            super().data_received(data)
            return
        if self._unread or not self.handshake_complete:
            self._unread += data
            self._pause()
            return
        if self._partial:
            self._partial.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._partial)
            self._partial = []
        self._controls = 0
        self._unread, self._at = data, 0
        self._take_turn()

    def _take_turn(self) -> None:
        """Take what was read, for one turn of the loop at most."""
        if len(self._unread) - self._at <= _STEP:
            self._take()
        else:
            self._deadline.begin()
            while self._unread:
                self._take()
                if self._deadline.passed:
                    break
        self._pass_on()
        if self._unread:
            self._pause()
            if self._is_nothing_passed_on:  # else the application asks for more
                self._schedule()

    def _schedule(self) -> None:
        """Go on in a later turn of the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._take_on)

    def _take_on(self) -> None:
        self._is_scheduled = False
        if self.transport.is_closing():
            self._unread = b""
            return
        self._take_turn()
        if self.read_paused and self._is_nothing_passed_on:
            self._resume()

    @property
    def _is_nothing_passed_on(self) -> bool:
        """True if the application will not ask for more by itself."""
        return self.close_sent or self.queue.empty()

    def _pause(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        """Read again, unless something is left of what was read."""
        if not self._unread:
            self.read_paused = False
            self.transport.resume_reading()

    def _take(self) -> None:
        """Hand over the data frames that are whole, `_STEP` bytes of them, together as far as no other frame
        lies between."""
        payloads: list[bytes] = []
        data, at, longest = self._unread, self._at, self.conn.max_message_size or 0
        end = len(data)
        until = min(at + _STEP, end)
        usual = self._usual
        while at < until:
            length = data[at + 1] if end - at >= _SHORT_HEAD else 0
            if _MASKED <= length < _LENGTH_16:  # most frames, without a call each
                start, stop = at + 6, at + 6 + length - _MASKED
            elif length == _LENGTH_16:
                start = at + 8
                stop = start + (data[at + 2] << 8 | data[at + 3])
            else:
                start, stop = _extent(data, at, end)
            if not stop or stop > end:
                if stop - start > longest:  # it is refused before the rest is buffered
                    if self._hand_over(payloads):
                        self._fail(*_TOO_LONG)
                    return
                self._partial = [data[at:]]
                self._missing = stop - end if stop else 1
                at = end
                break
            if data[at] == usual and data[at + 1] & _MASKED:
                payloads.append(apply_mask(data[start:stop], data[start - 4 : start]))
            elif self._hand_over(payloads) and self._take_unusual(data[at:stop], start - at):
                payloads, usual = [], self._usual
            else:
                return
            at = stop
        if at < end:
            self._at = at
        else:
            self._unread, self._at = b"", 0
        self._hand_over(payloads)

    def _take_unusual(self, frame: bytes, start: int) -> bool:
        """Take a frame that is not like the former one; False when the connection ends by it."""
        kind = frame[0]
        if kind & _RESERVED or kind & _OPCODE > _LAST_DATA_OPCODE or not frame[1] & _MASKED:
            self._controls += 1
            if self._controls > MAX_CONTROL_FRAMES:
                return self._fail(*_TOO_MANY)
            self._pass_on()
            super().data_received(frame)
            if self.transport.is_closing():
                self._unread = b""
                return False
            return True
        payload = apply_mask(frame[start:], frame[start - 4 : start])
        fault = self._fault(kind, payload)
        if fault is not None:
            return self._fail(*fault)
        self._payloads.append(payload)
        return True

    def _fault(self, kind: int, payload: bytes) -> tuple[CloseCode, str] | None:
        """The error of a data frame as a part of its message, None if it is valid."""
        opcode, final = kind & _OPCODE, bool(kind & _FINAL)
        inside = not self._usual
        if inside and opcode:
            return CloseCode.PROTOCOL_ERROR, "a message began within another one"
        if not (inside or opcode):
            return CloseCode.PROTOCOL_ERROR, "nothing had begun that goes on"
        if opcode:
            self._text = opcode == _TEXT
        self._usual = (_WHOLE_TEXT if self._text else _WHOLE_BINARY) if final else 0
        try:
            if self._text:
                self._utf8.decode(payload, final)
        except UnicodeDecodeError:
            return _NO_UTF8
        return None

    def _hand_over(self, payloads: list[bytes]) -> bool:
        """Hand over what came in usual frames; False when the connection ends because they are no text."""
        if not payloads:
            return True
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        if self._text and not data.isascii():
            for number, payload in enumerate(payloads):
                try:
                    payload.decode()
                except UnicodeDecodeError:
                    self._hand_over(payloads[:number])
                    return self._fail(*_NO_UTF8)
        self._payloads.append(data)
        return True

    def _fail(self, code: CloseCode, reason: str) -> bool:
        """End the connection; always False."""
        self._unread = b""
        self._pass_on()
        self.conn.fail(code, reason)
        self.handle_parser_exception()
        return False

    def _pass_on(self) -> None:
        """Pass on what was taken, as one event; what comes behind the end of the conversation is dropped."""
        payloads = self._payloads
        if not payloads:
            return
        self._payloads = []
        if self.close_sent:
            return
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        event: Any = {"type": "websocket.receive", "bytes": data, "mom.text": self._text}
        self.queue.put_nowait(event)
        self._pause()


def websocket_type(certificates: Certificates | None) -> type[StreamedWebSocket]:
    """uvicorn makes connections by their class, so what they need to know is in the class."""
    return type("StreamedWebSocket", (StreamedWebSocket,), {"certificates": certificates})


def _extent(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Start and end of the payload of the frame at `at`; (0, 0) while its head is not complete."""
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
