"""A connection to a receiver: one exchange after the other. Reading pauses while a piece is not parsed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from broker_app.base import causes
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.answer import AnswerReader
from broker_app.peers.http_client.exchange import HttpAnswer, Unanswered
from broker_app.peers.http_client.turn_share import TurnShare

#: bytes that are read, and parsed, at once
PIECE: Final = 4 * 1024
#: bytes that are written in one go
_PART: Final = 256 * 1024


class Closed(ConnectionError):
    """The connection ended before any byte of an answer."""


class HttpConnection(asyncio.BufferedProtocol):
    """Made for `create_connection`. `on_lost` is called when it has ended."""

    def __init__(self, share: TurnShare, on_lost: Callable[[HttpConnection], None]) -> None:
        self._share = share
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        # A view: TLS of asyncio writes into slices of it.
        self._buffer = memoryview(bytearray(PIECE))
        #: what came and is not parsed yet
        self._unparsed = bytearray()
        self._reading = True
        self._ended = False
        self._error: Exception | None = None
        #: set when something came, the connection has ended, or more can be written
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._expiry: asyncio.TimerHandle | None = None

    async def send(self, head: bytes, body: bytes) -> tuple[HttpAnswer, bool]:
        """The answer to a request, and whether another one may be sent over this connection. Raises Closed,
        OSError or Unanswered."""
        writing: asyncio.Task[None] | None = None
        if len(body) <= _PART:
            self._transport.write(head + body)
        else:  # the answer may come before the end of the body
            self._transport.write(head)
            writing = asyncio.create_task(self._write(memoryview(body)), name="the body of a request")
        try:
            reader = await self._read()
            written = writing is None or (writing.done() and writing.exception() is None)
        finally:
            if writing is not None:
                writing.cancel()
        keeps = written and reader.keeps_connection and not self._unparsed and not self._ended
        return reader.answer, keeps

    def keep(self, seconds: float) -> None:
        """Wait so long for another request; what comes before it ends the connection."""
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.close)

    def take(self) -> bool:
        """End the wait; False if the connection has ended meanwhile."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        return not self._ended and not self._unparsed and not self._transport.is_closing()

    def close(self) -> None:
        """End the connection; what is not written yet is dropped."""
        self.take()
        self._transport.abort()

    async def _write(self, body: memoryview) -> None:
        for start in range(0, len(body), _PART):
            await self._writable.wait()
            if self._ended:
                return
            self._transport.write(body[start : start + _PART])
            await asyncio.sleep(0)  # TLS encrypts each, and the socket may take them all

    async def _read(self) -> AnswerReader:
        reader, share = AnswerReader(), self._share
        while not reader.done:
            piece = await self._piece()
            if not piece:
                if not reader.has_begun:
                    raise Closed(str(self._error or "it sent nothing"))
                if self._error is not None:
                    raise self._error
                reader.end()
                break
            await share.wait()
            began = time.perf_counter()
            try:
                reader.take(piece)
            finally:
                share.spend(time.perf_counter() - began)
        return reader

    async def _piece(self) -> bytes:
        """The next bytes; none at the end."""
        while not self._unparsed and not self._ended:
            self._news.clear()
            await self._news.wait()
        piece = bytes(self._unparsed)
        self._unparsed.clear()
        if not self._reading and not self._ended:
            self._reading = True
            self._transport.resume_reading()
        return piece

    # ------------------------------------------------------------------ called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._unparsed += self._buffer[:nbytes]
        if self._expiry is not None:
            self.close()  # it answers no request
            return
        if len(self._unparsed) >= PIECE and self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self, error: Exception | None) -> None:
        self._error = self._error or error
        self._ended = True
        self._news.set()
        self._writable.set()


def reset(error: OSError) -> Unanswered:
    """The failure of an exchange whose connection broke."""
    return Unanswered(exchange.RESET, causes.UNANSWERED.format(why=error))
