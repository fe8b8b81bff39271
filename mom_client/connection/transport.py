"""Byte pipes to a broker: TCP, TLS, WebSocket, and any object that can send and receive.

| address                | pipe                                |
|------------------------|-------------------------------------|
| stomp://host:61613     | TCP; also tcp://                    |
| stomp+tls://host:61614 | TLS; also stomps://, tls://, ssl:// |
| ws://host:8000/ws      | WebSocket, subprotocol v12.stomp …  |
| wss://host/ws          | the same over TLS                   |

TLS trusts the authorities of the system, or those in the file that the environment's MOM_CA_FILE names, and
shows the certificate, with its key, in the file of MOM_CERT_FILE.
"""

import asyncio
import contextlib
import os
import ssl
import sys
import urllib.parse
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from ..errors import Refused
from ..stomp.writes import in_writes

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = [
    "DEFAULT_ADDRESS",
    "Pipe",
    "PipeTransport",
    "Transport",
    "check_address",
    "is_encrypted",
    "open_transport",
    "tls_context",
]

DEFAULT_ADDRESS = "stomp://127.0.0.1:61613"
SUBPROTOCOLS = [Subprotocol("v12.stomp"), Subprotocol("v11.stomp"), Subprotocol("v10.stomp")]
#: How long a broker may take to take the rest when we leave.
CLOSE_S = 1.0
READ_BYTES = 256 * 1024
#: Bytes that may wait to be sent before `drain` waits.
HIGH_WATER = 1024 * 1024
#: What is encrypted at once.
TLS_PART = 256 * 1024
#: What we send in one WebSocket message; servers refuse more than a megabyte, or sixteen.
WEBSOCKET_MESSAGE = 512 * 1024
#: A WebSocket message of the broker may hold many frames.
MAX_WEBSOCKET_MESSAGE = 128 * 1024 * 1024

_PLAIN = {"stomp": 61613, "tcp": 61613, "ws": 80}
_SECURE = {"stomp+tls": 61614, "stomps": 61614, "tls": 61614, "ssl": 61614, "wss": 443}
_PORTS = {**_PLAIN, **_SECURE}


class Transport(Protocol):
    """A byte pipe. All but `close` raise OSError when it is broken."""

    def write(self, data: bytes) -> None:
        """Send `data` soon; never waits."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were written and did not get there yet, as far as that is known."""

    @property
    def has_room(self) -> bool:
        """True if `drain` need not be waited for."""

    async def drain(self) -> None:
        """Wait until there is room for more."""

    async def receive(self) -> bytes:
        """The next bytes, empty at the end."""

    async def close(self) -> None:
        """Send what was written, and end, also when it is cancelled. Twice is harmless."""


def check_address(address: str) -> str:
    """`address` itself. Raises ValueError saying what is wrong with it."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in _PORTS:
        known = ", ".join(f"{scheme}://" for scheme in _PORTS)
        raise ValueError(f"the address {address!r} must begin with one of {known}")
    if not parts.hostname:
        raise ValueError(f"the address {address!r} names no host")
    try:
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"the address {address!r} has no valid port: {error}") from None
    if parts.username or parts.password:
        raise ValueError("an address must not hold credentials: give login and passcode, or token")
    return address


def is_encrypted(address: str) -> bool:
    """True if what goes to `address` goes over TLS."""
    return urllib.parse.urlsplit(address).scheme in _SECURE


def tls_context(ca_file: str | None = None, cert_file: str | None = None) -> ssl.SSLContext:
    """The TLS context of a client: it trusts the authorities in `ca_file` (else MOM_CA_FILE, else those of
    the system) and shows the certificate in `cert_file` (else MOM_CERT_FILE, else none).

    Raises OSError that names the file that cannot be used.
    """
    ca_file = ca_file or os.environ.get("MOM_CA_FILE") or None
    cert_file = cert_file or os.environ.get("MOM_CERT_FILE") or None
    path = ca_file
    try:
        tls = ssl.create_default_context(cafile=ca_file)
        path = cert_file
        if cert_file is not None:
            tls.load_cert_chain(cert_file)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise OSError(f"{path} cannot be used for TLS: {reason or error}") from error
    return tls


async def open_transport(address: str, tls: ssl.SSLContext | None = None) -> Transport:
    """Connect to `address`. Raises OSError, or Refused when a mirror names the broker that serves."""
    try:
        return await _open(address, tls)
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not trusted: {error.verify_message} (MOM_CA_FILE names whom to trust)"
        raise OSError(why) from error
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            raise OSError("it does not speak TLS at this port") from error
        raise OSError(f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}") from error


async def _open(address: str, tls: ssl.SSLContext | None) -> Transport:
    parts = urllib.parse.urlsplit(check_address(address))
    secure = parts.scheme in _SECURE
    if secure and tls is None:
        tls = tls_context()
    if parts.scheme in ("ws", "wss"):
        return await _open_websocket(address, tls if secure else None)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    reader, writer = await asyncio.open_connection(host, port, ssl=tls if secure else None, limit=READ_BYTES)
    writer.transport.set_write_buffer_limits(high=HIGH_WATER)
    stream = StreamTransport(reader, writer)
    return TlsTransport(stream) if secure else stream


async def _open_websocket(address: str, tls: ssl.SSLContext | None) -> Transport:
    try:
        # STOMP's own heart-beats watch the connection; compression costs more than it saves.
        websocket = await connect_websocket(
            address,
            subprotocols=SUBPROTOCOLS,
            ssl=tls,
            compression=None,
            ping_interval=None,
            max_size=MAX_WEBSOCKET_MESSAGE,
            open_timeout=None,
            close_timeout=CLOSE_S,
        )
    except InvalidStatus as error:
        headers = {name.lower(): text for name, text in error.response.headers.raw_items()}
        refused = Refused.from_frame(headers, bytes(error.response.body or b""))
        if refused.active:  # a mirror, which names the broker that serves
            raise refused from error
        raise OSError(f"no WebSocket at {address}: {error}") from error
    except WebSocketException as error:
        raise OSError(f"no WebSocket at {address}: {error}") from error
    return WebSocketTransport(websocket)


def _unsent(transport: asyncio.WriteTransport) -> int:
    """Bytes that wait in `transport`, and unacknowledged ones in the kernel, if it reports them (Linux).
    Bytes that TLS has encrypted and not yet passed to the kernel are unknown."""
    waiting = transport.get_write_buffer_size()
    socket = transport.get_extra_info("socket")
    if sys.platform == "linux" and socket is not None:
        with contextlib.suppress(OSError, ValueError):  # it was closed
            waiting += int.from_bytes(fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return waiting


class StreamTransport:
    """TCP or TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
        except RuntimeError as error:  # uvloop raises it if the connection was closed in between
            raise ConnectionResetError(str(error)) from error

    @property
    def waiting_bytes(self) -> int:
        return _unsent(self._writer.transport)

    @property
    def has_room(self) -> bool:
        return self._writer.transport.get_write_buffer_size() <= HIGH_WATER

    async def drain(self) -> None:
        await self._writer.drain()

    async def receive(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                # Shielded: it waits for one future, which another task that closes too must find whole.
                await asyncio.shield(self._writer.wait_closed())
        except (OSError, asyncio.CancelledError) as error:
            # It is broken already, or the broker takes no more (TimeoutError), or nothing waits for that.
            self._writer.transport.abort()
            if isinstance(error, asyncio.CancelledError):
                raise


class _SendingTransport:
    """Turns a `send` that waits into a `write` that does not: one task sends what has gathered."""

    def __init__(self) -> None:
        self._outbox: list[bytes] = []
        self._waiting_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._broken: Exception | None = None

    async def _send(self, data: bytes) -> None:
        """Send, and take off `_waiting_bytes` what no longer waits."""
        raise NotImplementedError

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    def write(self, data: bytes) -> None:
        if self._broken is not None:
            raise ConnectionResetError(str(self._broken))
        self._outbox.append(data)
        self._waiting_bytes += len(data)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._outbox:
                outbox, self._outbox = self._outbox, []
                for data in in_writes(outbox):
                    await self._send(data)
        except (OSError, WebSocketException) as error:
            self._broken = error  # the reader meets the end of the connection and reports it
        finally:
            self._sender = None

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes <= HIGH_WATER

    async def drain(self) -> None:
        while self._waiting_bytes > HIGH_WATER and self._sender is not None:
            await asyncio.shield(self._sender)

    async def _flush(self) -> None:
        try:
            if self._sender is not None:
                await asyncio.wait([self._sender], timeout=CLOSE_S)
        finally:
            if self._sender is not None:
                self._sender.cancel()


class TlsTransport(_SendingTransport):
    """TLS, which encrypts at once whatever it is given: large data is written in parts, each in a turn."""

    def __init__(self, stream: Transport) -> None:
        super().__init__()
        self._stream = stream

    def write(self, data: bytes) -> None:
        if self._sender is None and len(data) <= TLS_PART:
            self._stream.write(data)
        else:
            super().write(data)

    async def _send(self, data: bytes) -> None:
        for start in range(0, len(data), TLS_PART):
            part = data[start : start + TLS_PART]
            self._waiting_bytes -= len(part)  # it waits in the stream from now on
            self._stream.write(part)
            await self._stream.drain()
            await asyncio.sleep(0)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes + self._stream.waiting_bytes

    @property
    def has_room(self) -> bool:
        return super().has_room and self._stream.has_room

    async def drain(self) -> None:
        await super().drain()
        await self._stream.drain()

    async def receive(self) -> bytes:
        return await self._stream.receive()

    async def close(self) -> None:
        try:
            await self._flush()
        finally:
            await self._stream.close()


class WebSocketTransport(_SendingTransport):
    """STOMP frames in binary WebSocket messages, as many in one as one turn of the loop wrote."""

    def __init__(self, websocket: ClientConnection) -> None:
        super().__init__()
        self._websocket = websocket

    async def _send(self, data: bytes) -> None:
        for start in range(0, len(data), WEBSOCKET_MESSAGE):
            piece = data[start : start + WEBSOCKET_MESSAGE]
            self._waiting_bytes -= len(piece)  # it waits in the socket from now on
            await self._websocket.send(piece)
            if len(data) > WEBSOCKET_MESSAGE:  # each is masked, and the socket may take them all
                await asyncio.sleep(0)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes + _unsent(self._websocket.transport)

    async def receive(self) -> bytes:
        try:
            message = await self._websocket.recv()
        except WebSocketException as error:
            if self._websocket.close_code in (1000, 1001):
                return b""
            raise ConnectionResetError(str(error)) from error
        return message.encode() if isinstance(message, str) else message

    async def close(self) -> None:
        try:
            await self._flush()
            await self._websocket.close()
        except asyncio.CancelledError:
            self._websocket.transport.abort()  # it would stay open: the broker need not end it
            raise


class Pipe(Protocol):
    """The interface of an in-process broker, or of a test."""

    async def send(self, data: bytes, /) -> Any: ...

    async def receive(self) -> bytes: ...

    async def close(self) -> Any: ...


class PipeTransport(_SendingTransport):
    """Any object that can send, receive and close."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    async def _send(self, data: bytes) -> None:
        await self._pipe.send(data)
        self._waiting_bytes -= len(data)

    async def receive(self) -> bytes:
        return await self._pipe.receive()

    async def close(self) -> None:
        try:
            await self._flush()
        finally:
            await self._pipe.close()
