"""The door of a TLS port: takes connections, looks at their first byte, and lets in who speaks TLS.

Whoever speaks something else is told so in the plain, and who says nothing is sent away in time. The first
byte is looked at and left where it is, so TLS itself begins as if nobody had looked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from broker_app.net.descriptors import has_room
from broker_app.net.log_limit import RareLog
from broker_app.net.problems import MEDIA_TYPE, problem_json
from broker_app.net.tls.certificates import Certificates
from broker_app.task_supervisor import supervised

log = logging.getLogger(__name__)

#: how a TLS connection begins
HANDSHAKE = b"\x16"
#: how long a connection that is told why it ends may take to take it
_TELL_S = 1.0
_OUT_OF_FILES_S = 0.5
#: handshakes that may be under way; each costs a few kilobytes and a millisecond
MAXHANDSHAKES = 1_000


def _plain_http_answer() -> bytes:
    body = problem_json("tls-required", "this port speaks https and wss alone")
    head = (
        f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


#: what plain HTTP is told on the web port
PLAIN_HTTP_ANSWER = _plain_http_answer()


class TlsListener:
    """Serves `listener` from now on until `close`. `make_protocol` gets connections whose handshake is done;
    `plain_answer` is what whoever does not begin with TLS is told; `patience_s` is the time for a handshake.
    """

    def __init__(
        self,
        listener: socket.socket,
        certificates: Certificates,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        *,
        plain_answer: bytes,
        patience_s: float,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._certificates = certificates
        self._make_protocol = make_protocol
        self._plain_answer = plain_answer
        self._patience_s = patience_s
        self._port = listener.getsockname()[1]
        self._handshakes: set[asyncio.Task[None]] = set()
        self._log = RareLog(log)
        self._accepting = asyncio.create_task(supervised(f"port {self._port}", self._accept_all))

    def close(self) -> None:
        """Take no more connections. Those that are through stay."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)
        self._listener.close()

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("port %d: no connection can be taken: %s", self._port, error.strerror)
                await asyncio.sleep(_OUT_OF_FILES_S)
                continue
            if len(self._handshakes) >= MAXHANDSHAKES or not has_room(connection):
                connection.close()
                continue
            handshake = asyncio.create_task(self._let_in(connection, address))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _let_in(self, connection: socket.socket, address: tuple[str, int]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                first = await _first_byte(connection)
            if first == HANDSHAKE:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._make_protocol,
                    connection,
                    ssl=self._certificates.context,
                    ssl_handshake_timeout=self._patience_s,
                )
                return
            if first:
                await self._tell(connection)
                self._say(address, "the client does not speak TLS")
        except TimeoutError:
            self._say(address, "the client was silent")
        except OSError as error:
            self._say(address, _reason(error))
        except asyncio.CancelledError:
            connection.close()
            raise
        connection.close()

    async def _tell(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_TELL_S):
                await asyncio.get_running_loop().sock_sendall(connection, self._plain_answer)
            # What was never read would turn the end of the connection into a reset that eats the answer.
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(BlockingIOError):
                while connection.recv(65536):
                    pass

    def _say(self, address: tuple[str, int], why: str) -> None:
        self._log.say("port %d: no TLS with %s:%d: %s", self._port, address[0], address[1], why)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error)


async def _first_byte(connection: socket.socket) -> bytes:
    """The first byte that comes, still to be read; nothing at the end of the connection."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)
