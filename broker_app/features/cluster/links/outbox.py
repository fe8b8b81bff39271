"""The frames that a link has to send: those of one turn of the loop in one write, large calls in pieces."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from broker_app.base.refused import Refused
from broker_app.features.cluster.links import frames as f

#: bytes of the body of a call that is sent whole, and of one piece
PIECE_BYTES: Final = 64 * 1024
#: pieces that are sent before the other broker has taken the first of them: messages and heart-beats wait for
#: no more of a call
WINDOW_PIECES: Final = 8
#: bytes of frames that gather in one turn of the loop
_MOST_GATHERED_BYTES: Final = 64 * 1024
#: bytes of calls that wait behind the large one that crosses, above which no more are taken
_MOST_WAITING_BYTES: Final = 32 * f.MIB


class Outbox:
    """The frames that wait for the connection. `given` are the bytes of all that were sent."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytearray] = []
        self._bytes = 0
        self.given = 0
        #: the large call that crosses, and those that wait behind it, with the bytes of their bodies
        self._calls: deque[f.Call] = deque()
        self._calls_bytes = 0
        #: where the rest of the body of the large call begins; None before its beginning was sent
        self._at: int | None = None
        self._credit = WINDOW_PIECES

    def open(self, transport: asyncio.Transport) -> None:
        """Send to this connection from now on."""
        self._transport = transport

    @property
    def waiting(self) -> int:
        """Bytes that the network has not taken, without those of calls behind a large one."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._bytes + buffered

    def send(self, frame: f.Frame) -> None:
        """Send a frame with what else this turn of the loop sends."""
        data = f.encode(frame)
        self.given += len(data)
        if self._bytes + len(data) > _MOST_GATHERED_BYTES:
            self.flush()  # a long frame is not copied to be with others
        if not self._frames:
            asyncio.get_running_loop().call_soon(self.flush)
        self._frames.append(data)
        self._bytes += len(data)
        if self._bytes > _MOST_GATHERED_BYTES:  # so that the connection says at once when it is full
            self.flush()

    def flush(self) -> None:
        """Write what has gathered; it is dropped if the connection has ended."""
        if self._frames and self._transport is not None:
            data = self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)
            self._frames, self._bytes = [], 0
            if not self._transport.is_closing():
                with suppress(RuntimeError):  # of uvloop, for one that has ended and does not say so yet
                    self._transport.write(data)

    # ------------------------------------------------------------------ calls

    def send_call(self, call: f.Call) -> bool:
        """Send a call in order with those before it, or an answer; returns False if too many bytes wait."""
        crossing = len(self._calls[0].body) if self._calls else 0
        if max(self._calls_bytes - crossing, self.waiting) > _MOST_WAITING_BYTES:
            return False
        if len(call.body) > PIECE_BYTES or (self._calls and isinstance(call, f.ChannelCall)):
            self._calls.append(call)
            self._calls_bytes += len(call.body)
            if len(self._calls) == 1:
                self._send_calls()
        else:
            self.send(call)
        return True

    def add_credit(self, pieces: int) -> None:
        """Send more: the other broker has taken so many pieces."""
        self._credit = min(self._credit + pieces, WINDOW_PIECES)
        self._send_calls()

    def _send_calls(self) -> None:
        """Send what waits, as far as the other broker takes it."""
        while self._calls:
            call = self._calls[0]
            if len(call.body) <= PIECE_BYTES:
                self.send(call)
            elif not self._send_in_pieces(call):
                return
            self._calls.popleft()
            self._calls_bytes -= len(call.body)

    def _send_in_pieces(self, call: f.Call) -> bool:
        """Send more of a large call; returns whether that was the end of it."""
        at = self._at
        if at is None:
            self.send(f.without_body(call))
            at = 0
        while self._credit and at < len(call.body):
            self._credit -= 1
            self.send(f.ChannelPiece(call.body[at : at + PIECE_BYTES]))
            at += PIECE_BYTES
        is_sent = at >= len(call.body)
        self._at = None if is_sent else at
        return is_sent


class Assembly:
    """The large call that comes from the other broker in pieces, of `most_bytes` at most."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._call: f.Call | None = None
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._taken = 0

    def begin(self, call: f.Call) -> None:
        """Take a call whose body comes in pieces. Raises Refused."""
        if self._call is not None:
            raise Refused("protocol-error", "a large call came before the former one had ended")
        if call.size > self._most_bytes or call.body:
            raise Refused(
                "protocol-error", f"a call of {call.size} bytes came; {self._most_bytes} are allowed"
            )
        self._call = call

    def take(self, piece: bytes) -> f.Call | None:
        """Take a piece; returns the call once it is whole. Raises Refused."""
        call = self._call
        if call is None or not 0 < len(piece) <= min(PIECE_BYTES, call.size - self._bytes):
            raise Refused("protocol-error", "a piece came that is none of a call")
        self._pieces.append(piece)
        self._bytes += len(piece)
        self._taken += 1
        if self._bytes < call.size:
            return None
        call.body = b"".join(self._pieces)
        self._call, self._pieces, self._bytes = None, [], 0
        return call

    def credit(self) -> int:
        """The pieces that were taken, once the other broker has to get credit for them."""
        if self._taken < WINDOW_PIECES // 2:
            return 0
        taken, self._taken = self._taken, 0
        return taken
