"""STOMP over TCP and TLS."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from broker_app.base.process.fd_limits import has_room
from broker_app.base.refused import Refused
from broker_app.net.http.client_hangup import hung_up
from broker_app.net.policy.access import ConnectionInfo
from broker_app.net.stomp.rendering import Renderer
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.stomp.transports.part_writer import PART, TLS_PART, PartWriter
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import TlsListener
from broker_app.rules.event import STOMP

#: seconds for which a client that was disconnected may go on to send
LINGER_S = 0.5
_PLAIN = Refused("tls-required", "this port accepts only STOMP over TLS: connect with TLS")


class TcpConnection(asyncio.Protocol):
    """One accepted connection; the `Transport` of its session."""

    __slots__ = (
        "_certificates",
        "_lingers",
        "_registry",
        "_session",
        "_transport",
        "_writer",
        "connection_info",
        "peer_name",
    )

    def __init__(self, registry: SessionRegistry, certificates: Certificates | None = None) -> None:
        self.peer_name = "tcp"
        self.connection_info = ConnectionInfo(STOMP)
        self._registry = registry
        self._certificates = certificates
        #: nothing more is sent, and what comes is dropped
        self._lingers = False
        self._transport: asyncio.Transport
        self._writer: PartWriter
        #: created with the connection; a failed handshake has no session
        self._session: StompSession

    # from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        if address:
            self.peer_name = f"tcp {address[0]}:{address[1]}"
        encrypted = transport.get_extra_info("ssl_object") is not None
        self.connection_info = ConnectionInfo(STOMP, address[0] if address else None, encrypted)
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._transport.set_write_buffer_limits(high=self._registry.config.outbox_bytes)
        self._session = StompSession(self._registry, self)
        part = TLS_PART if encrypted else PART
        session = self._session
        self._writer = PartWriter(self._transport, part, session.congested, session.uncongested, _end)
        names = self._certificates.names_of(transport) if self._certificates is not None else ()
        self._session.admitted(names)
        if not has_room(connection):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._lingers:
            self._session.receive(data)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self._session.lost()

    # for the session

    def write(self, data: bytes) -> None:
        if self._lingers:
            return
        if len(data) <= TLS_PART and not self._writer.parts:  # a call less for each frame
            self._transport.write(data)
        else:
            self._writer.write(data)

    def close(self) -> None:
        """End the connection when the client has taken what is written.

        It is read for a moment more: TCP resets a connection that is closed with unread data, and then takes
        the last frames away from a client that still sends. TLS has no end of one direction.
        """
        if not (self._lingers or self._transport.is_closing()):
            self._transport.resume_reading()
            self._lingers = True
            self._writer.close()

    def abort(self) -> None:
        self._transport.abort()

    def authenticated(self) -> None:
        """Nothing to do: the session itself limits what it reads from a stream."""

    def hung_up(self) -> bool:
        return self._is_open and hung_up(self._transport)

    def pause_reading(self) -> None:
        if self._is_open:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_open:
            self._transport.resume_reading()

    @property
    def _is_open(self) -> bool:
        return not self._lingers and not self._transport.is_closing()


def _end(transport: asyncio.Transport) -> None:
    """End a connection whose client has taken what is written. It does not refer to the session, which would
    be freed later then."""
    try:
        transport.write_eof()
    except (NotImplementedError, OSError):  # of TLS, and of a client that is gone
        transport.close()
    else:
        asyncio.get_running_loop().call_later(LINGER_S, transport.close)


async def listen(registry: SessionRegistry, listener: socket.socket) -> asyncio.Server:
    """Accept STOMP clients on `listener`."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: TcpConnection(registry), sock=listener, backlog=2048)


def listen_tls(registry: SessionRegistry, listener: socket.socket, certificates: Certificates) -> TlsListener:
    """Accept STOMP clients over TLS on `listener`."""
    return TlsListener(
        listener,
        certificates,
        lambda: TcpConnection(registry, certificates),
        plain_answer=Renderer("1.2", registry.ids).error(_PLAIN, None),
        handshake_timeout_s=registry.config.connect_timeout,
    )
