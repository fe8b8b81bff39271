"""The listener of a TLS port: accepts connections and starts TLS if their first byte is that of a handshake.

Clients that do not use TLS get an answer in plain text; silent ones are disconnected after a timeout. The
first byte is peeked and stays in the socket, so that TLS can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from broker_app.base.log_limit import RareLog
from broker_app.base.process.fd_limits import has_room
from broker_app.base.process.task_supervisor import supervised
from broker_app.net.problems import MEDIA_TYPE, problem_json
from broker_app.net.tls.certificates import Certificates

log = logging.getLogger(__name__)

#: first byte of a TLS connection
HANDSHAKE = b"\x16"
#: seconds in which a client must take the plain answer
_ANSWER_S = 1.0
_OUT_OF_FILES_S = 0.5
#: concurrent handshakes; each costs a few kilobytes and a millisecond
MAX_HANDSHAKES = 1_000


def _plain_http_answer() -> bytes:
    body = problem_json("tls-required", "this port accepts only https and wss")
    head = (
        f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


#: the answer to plain HTTP on the web port
PLAIN_HTTP_ANSWER = _plain_http_answer()


class TlsListener:
    """Serves `listener` until `close`. `make_protocol` creates the protocol of a connection after its
    handshake; `plain_answer` is sent to clients without TLS; `handshake_timeout_s` limits a handshake.
    """

    def __init__(
        self,
        listener: socket.socket,
        certificates: Certificates,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        *,
        plain_answer: bytes,
        handshake_timeout_s: float,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._certificates = certificates
        self._make_protocol = make_protocol
        self._plain_answer = plain_answer
        self._handshake_timeout_s = handshake_timeout_s
        self._port = listener.getsockname()[1]
        self._handshakes: set[asyncio.Task[None]] = set()
        self._log = RareLog(log)
        self._accepting = asyncio.create_task(supervised(f"port {self._port}", self._accept_all))

    def close(self) -> None:
        """Accept no more connections. Those with a finished handshake stay."""
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
                log.warning("port %d: cannot accept connections: %s", self._port, error.strerror)
                await asyncio.sleep(_OUT_OF_FILES_S)
                continue
            if len(self._handshakes) >= MAX_HANDSHAKES or not has_room(connection):
                connection.close()
                continue
            handshake = asyncio.create_task(self._handshake(connection, address))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _handshake(self, connection: socket.socket, address: tuple[str, int]) -> None:
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                first = await _first_byte(connection)
            if first == HANDSHAKE:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._make_protocol,
                    connection,
                    ssl=self._certificates.context,
                    ssl_handshake_timeout=self._handshake_timeout_s,
                )
                return
            if first:
                await self._send_plain_answer(connection)
                self._log_failure(address, "the client does not speak TLS")
        except TimeoutError:
            self._log_failure(address, "the client was silent")
        except OSError as error:
            self._log_failure(address, _reason(error))
        except asyncio.CancelledError:
            connection.close()
            raise
        connection.close()

    async def _send_plain_answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_ANSWER_S):
                await asyncio.get_running_loop().sock_sendall(connection, self._plain_answer)
            # Unread data would turn the close into a reset, which discards the answer.
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(BlockingIOError):
                while connection.recv(65536):
                    pass

    def _log_failure(self, address: tuple[str, int], reason: str) -> None:
        self._log.log("port %d: no TLS with %s:%d: %s", self._port, address[0], address[1], reason)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error)


async def _first_byte(connection: socket.socket) -> bytes:
    """The first byte, left in the socket; empty at the end of the connection."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)
