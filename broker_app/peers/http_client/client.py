"""The client: it connects only to addresses that the filter has checked, follows no redirects, keeps no
cookies, and reads no more of an answer than it needs.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from broker_app.base import causes
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.connection import Closed, HttpConnection, reset
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest, Unanswered
from broker_app.peers.http_client.name_resolver import NameResolver, Resolver
from broker_app.peers.http_client.turn_share import TurnShare

#: seconds for DNS, TCP and TLS
CONNECT_S: Final = 10.0
#: seconds after which the next address is tried too
_NEXT_ADDRESS_S: Final = 0.25
#: seconds for which an idle connection is kept
_KEEP_ALIVE_S: Final = 15.0
#: what would add lines to a head
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class _Refused(OSError):
    """The filter refuses an address."""


class _Url(NamedTuple):
    """A URL in the parts that an exchange needs; `authority` is that of the header `Host`."""

    secure: bool
    host: str
    port: int
    authority: str
    target: str


class HttpClient:
    """A poster. `resolver` finds addresses, by default the resolver of the operating system; `tls` is the
    context of connections, by default one that trusts the authorities of the operating system.

    Make it within the running loop; `close` it in the end.
    """

    def __init__(
        self,
        addresses: AddressFilter,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        self._resolver = resolver or NameResolver()
        self._tls = tls
        self._share = TurnShare()
        #: connections that wait for another request, the last used one at the end
        self._idle: dict[tuple[bool, str, int], list[HttpConnection]] = {}

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """The answer to a request. Raises Unanswered."""
        try:
            url = _parsed(request.url)
            head = _head(request, url)
        except ValueError as error:
            raise Unanswered(exchange.PROTOCOL, f"the request cannot be sent: {error}") from None
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._send(url, head, request)
        except TimeoutError:
            incomplete = causes.INCOMPLETE.format(seconds=f"{request.timeout_s:g}")
            raise Unanswered(exchange.TIMEOUT, incomplete) from None

    async def close(self) -> None:
        for connections in list(self._idle.values()):
            for connection in list(connections):
                connection.close()
        await asyncio.sleep(0)  # in which their transports end
        self._resolver.close()

    async def _send(self, url: _Url, head: bytes, request: HttpRequest) -> HttpAnswer:
        kept = self._kept(url)
        if kept is not None:
            try:
                return await self._exchange(kept, url, head, request)
            except Closed:
                # The receiver may have closed it just before; this is no failure of its own.
                pass
            except OSError as error:
                raise reset(error) from error
        try:
            return await self._exchange(await self._connect(url), url, head, request)
        except OSError as error:
            raise reset(error) from error

    async def _exchange(
        self, connection: HttpConnection, url: _Url, head: bytes, request: HttpRequest
    ) -> HttpAnswer:
        keeps = False
        try:
            answer, keeps = await connection.send(head, _body(request))
        finally:
            if keeps:
                connection.keep(_KEEP_ALIVE_S)
                self._idle.setdefault(url[:3], []).append(connection)
            else:
                connection.close()
        return answer

    # ------------------------------------------------------------------ connections

    def _kept(self, url: _Url) -> HttpConnection | None:
        """A connection that is open still."""
        connections = self._idle.get(url[:3], [])
        while connections:
            connection = connections.pop()
            if connection.take():
                return connection
            connection.close()
        return None

    def _lost(self, key: tuple[bool, str, int], connection: HttpConnection) -> None:
        connections = self._idle.get(key)
        if connections is not None:
            if connection in connections:
                connections.remove(connection)
            if not connections:
                del self._idle[key]

    async def _connect(self, url: _Url) -> HttpConnection:
        """A new connection. Raises Unanswered."""
        try:
            async with asyncio.timeout(CONNECT_S) as limit:
                return await self._connect_to_first(url, await self._checked(url))
        except TimeoutError as error:
            if not limit.expired():  # the operating system has given up
                raise _unconnected(error) from error
            not_accepted = causes.NOT_ACCEPTED.format(seconds=f"{CONNECT_S:g}")
            raise Unanswered(exchange.CONNECT, not_accepted) from None
        except (OSError, ValueError) as error:
            raise _unconnected(error) from error

    async def _checked(self, url: _Url) -> list[str]:
        """The addresses of a host, which all may be connected to. Raises OSError."""
        addresses = await self._resolver.resolve(url.host, url.port)
        for address in addresses:
            if refusal := self._addresses.refusal(url.host, address):
                raise _Refused(refusal)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "it has no address")
        return addresses

    async def _connect_to_first(self, url: _Url, addresses: list[str]) -> HttpConnection:
        """Connect to the first address that answers; each next one is tried a little later (RFC 8305)."""
        attempts: set[asyncio.Task[HttpConnection]] = set()
        error: BaseException | None = None
        left = list(addresses)
        try:
            while left or attempts:
                if left:
                    attempts.add(asyncio.create_task(self._connect_to(url, left.pop(0))))
                done, attempts = await asyncio.wait(
                    attempts,
                    timeout=_NEXT_ADDRESS_S if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for attempt in done:
                    error = error or attempt.exception()
                    if attempt.exception() is None:
                        return attempt.result()
            assert error is not None
            raise error
        finally:
            for attempt in attempts:
                attempt.cancel()
                attempt.add_done_callback(_close_late)

    async def _connect_to(self, url: _Url, address: str) -> HttpConnection:
        if url.secure and self._tls is None:
            # In a thread: it reads a hundred certificates.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: HttpConnection(self._share, partial(self._lost, url[:3])),
            address,
            url.port,
            ssl=self._tls if url.secure else None,
            server_hostname=url.host if url.secure else None,
        )
        return connection


def _close_late(attempt: asyncio.Task[HttpConnection]) -> None:
    """Close what has connected after another address had answered."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _body(request: HttpRequest) -> bytes:
    return request.body if request.method == "POST" else b""


def _parsed(text: str) -> _Url:
    """Raises ValueError for a URL that cannot be called."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isascii():
        raise ValueError(f"{text[:100]!r} is no URL like https://host/path, of ASCII")
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if " " in target or not target.isprintable():
        raise ValueError("its URL has blanks or control characters")
    authority = parts.netloc.rpartition("@")[2]
    return _Url(secure, parts.hostname, parts.port or (443 if secure else 80), authority, target)


def _head(request: HttpRequest, url: _Url) -> bytes:
    """Raises ValueError for headers that HTTP cannot have."""
    lines = [f"{request.method} {url.target} HTTP/1.1", f"Host: {url.authority}", "User-Agent: mom"]
    if request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}")
    lines += [f"{name}: {value}" for name, value in request.headers]
    if _CONTROL.search("".join(lines)):
        raise ValueError("a header has control characters")
    return "\r\n".join([*lines, "\r\n"]).encode(errors="replace")


def _unconnected(error: Exception) -> Unanswered:
    """The failure to connect, as a code and a sentence."""
    if isinstance(error, _Refused):
        return Unanswered(exchange.ADDRESS, str(error))
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return Unanswered(exchange.DNS, causes.UNRESOLVED_HOST.format(why=reason))
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unanswered(exchange.TLS, causes.UNTRUSTED.format(why=error))
    if isinstance(error, ssl.SSLError):
        return Unanswered(exchange.TLS, causes.TLS_FAILED.format(why=error))
    return Unanswered(exchange.CONNECT, causes.UNCONNECTED.format(why=reason))
