"""The HTTP client of webhooks, for receivers that may be slow, broken or hostile.

It connects only to addresses that the filter has checked, follows no redirects, keeps no cookies, and reads
no more of an answer than it needs.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextvars import ContextVar
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from broker_app.callback.webhooks import http_exchange as exchange
from broker_app.callback.webhooks.address_filter import AddressFilter
from broker_app.callback.webhooks.http_exchange import Answer, HttpRequest, Unanswered
from broker_app.callback.webhooks.name_resolver import NameResolver

#: bytes of an answer's body that are read
MAX_BODY: Final = 64 * 1024
#: seconds for DNS, TCP and TLS
CONNECT_S: Final = 10.0
#: bytes that are written in one go
_PART: Final = 256 * 1024
#: seconds for which an idle connection is kept
_KEEP_ALIVE_S: Final = 15.0


#: the host of the request in hand, as it is written in the URL
_host: ContextVar[str] = ContextVar("host")


class _Refused(OSError):
    """The filter refuses an address."""


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses those with an address that the filter refuses."""

    def __init__(self, addresses: AddressFilter, resolver: AbstractResolver) -> None:
        self._addresses = addresses
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`; connections go to these. Raises OSError."""
        found = await self._resolver.resolve(host, port, family)
        for result in found:
            if refusal := self._addresses.refusal(host, result["host"]):
                raise _Refused(refusal)
        return found

    async def close(self) -> None:
        await self._resolver.close()


class HttpClient:
    """A poster. `resolver` finds addresses, by default the resolver of the operating system; `tls` is the
    context of connections, by default one that trusts the authorities of the operating system.

    Make it within the running loop; `close` it in the end.
    """

    def __init__(
        self,
        addresses: AddressFilter,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        reuse = aiohttp.TraceConfig()
        reuse.on_connection_reuseconn.append(_note_reuse)
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(addresses, resolver or NameResolver()),
            use_dns_cache=False,
            limit=0,  # the callers have limits
            keepalive_timeout=_KEEP_ALIVE_S,
            socket_factory=self._checked_socket,
            ssl=tls or ssl.create_default_context(),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[reuse],
        )

    async def send(self, request: HttpRequest) -> Answer:
        """The answer to a request. Raises Unanswered."""
        try:
            url = URL(request.url)
            _host.set(url.raw_host or "")
            async with asyncio.timeout(request.timeout_s):
                return await self._send(url, request)
        except TimeoutError:
            raise Unanswered(
                exchange.TIMEOUT, f"there was no complete answer within {request.timeout_s:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unanswered(error) from error

    async def close(self) -> None:
        await self._session.close()

    def _checked_socket(self, found: aiohttp.AddrInfoType) -> socket.socket:
        """A socket for an address that may be connected to: also one that stands in the URL itself, which no
        resolver sees. Raises _Refused."""
        family, kind, protocol, _, address = found
        if refusal := self._addresses.refusal(_host.get(), str(address[0])):
            raise _Refused(refusal)
        return socket.socket(family, kind, protocol)

    async def _send(self, url: URL, request: HttpRequest) -> Answer:
        reuse = SimpleNamespace(happened=False)
        try:
            return await self._exchange(url, request, reuse)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not reuse.happened:
                raise
        # The receiver may have closed the kept connection just before; this is no failure of its own.
        return await self._exchange(url, request, SimpleNamespace(happened=False), fresh=True)

    async def _exchange(
        self, url: URL, request: HttpRequest, reuse: SimpleNamespace, *, fresh: bool = False
    ) -> Answer:
        headers = [*request.headers, ("User-Agent", "mom"), *((("Connection", "close"),) if fresh else ())]
        async with self._session.request(
            request.method,
            url,
            headers=headers,
            data=_data(request),
            skip_auto_headers=("Content-Type", "Accept", "Accept-Encoding"),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trace_request_ctx=reuse,
        ) as reply:
            body = await _first_bytes(reply.content)
            if not reply.content.at_eof():
                reply.close()  # the rest is of no interest
            fields = {name.lower(): value for name, value in reply.headers.items()}
            return Answer(reply.status, fields, body)


def _data(request: HttpRequest) -> bytes | BytesIO | None:
    """The body as aiohttp takes it: a large one in parts, so that it does not hold up the loop."""
    if request.method != "POST":
        return None
    return BytesIO(request.body) if len(request.body) > _PART else request.body


async def _first_bytes(content: aiohttp.StreamReader) -> bytes:
    found = bytearray()
    while len(found) < MAX_BODY:
        part = await content.read(MAX_BODY - len(found))
        if not part:
            break
        found += part
    return bytes(found)


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:
    context.trace_request_ctx.happened = True


def _unanswered(error: Exception) -> Unanswered:
    """The failure of a request as a code and a sentence."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, _Refused):
        return Unanswered(exchange.ADDRESS, str(error.os_error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Unanswered(exchange.DNS, f"the host name cannot be resolved: {error.os_error}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Unanswered(exchange.TLS, f"its certificate is not trusted: {error.certificate_error}")
    if isinstance(error, (aiohttp.ClientConnectorSSLError, ssl.SSLError)):
        return Unanswered(exchange.TLS, f"TLS failed: {error}")
    if isinstance(error, aiohttp.ServerTimeoutError):
        return Unanswered(exchange.TIMEOUT, f"it did not accept a connection within {CONNECT_S:g} s")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unanswered(exchange.CONNECT, f"it accepts no connection: {error.strerror or error}")
    if isinstance(
        error, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
    ):
        return Unanswered(exchange.RESET, f"it closed the connection before it had answered: {error}")
    return Unanswered(exchange.PROTOCOL, f"its answer is no valid HTTP: {error}"[:300])
