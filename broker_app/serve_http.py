"""uvicorn's HTTP connection, with bounds on a request's head and a short way for single messages.

A POST that a `Direct` takes is answered without a scope, a request cycle or a task. What it does not take is
handed to uvicorn as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import time

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker_app.net.certificates import Certificates
from broker_app.net.rest.direct import Caller, Direct
from broker_app.net.rest.replies import Header, Reply

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_NEVER = float("inf")


class _ShortCycle:
    """Stands where uvicorn keeps the request in hand, so that it treats what is pipelined behind it, the
    end of the connection and a shutdown as it always does."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()  # nobody waits for it; uvicorn sets it


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection."""

    longest_head = 64 * 1024
    direct: Direct | None = None
    certificates: Certificates | None = None
    #: the names in the client certificate
    certified: tuple[str, ...] = ()

    #: when the client began to ask; never, while it does not
    asking_since = _NEVER
    caller: Caller | None = None
    _head_bytes = 0
    #: the parts of a body that may go the short way, None for all others
    _parts: list[bytes] | None = None
    _short: _ShortCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.asking_since = time.monotonic()
        if self.certificates is not None:
            self.certified = self.certificates.names_of(transport)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.certified:
            self.scope["mom.certified"] = self.certified  # type: ignore[typeddict-unknown-key]
        self.asking_since = time.monotonic()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        if self.direct is not None and self._fits(self.direct):
            self._parts = []  # the client is still asking, and may not take for ever
        else:
            self.asking_since = _NEVER
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            self.asking_since = _NEVER
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            if self._take(body):
                return
            super().on_headers_complete()
            if body:
                super().on_body(body)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.asking_since is not _NEVER and self._parts is None:
            self._head_bytes += len(data)
            if self._head_bytes > self.longest_head:
                self.refuse_long()

    def refuse_long(self) -> None:
        self._refuse(_TOO_LONG)

    def refuse_slow(self) -> None:
        self._refuse(_TOO_SLOW)

    def _refuse(self, reply: bytes) -> None:
        """Answers without the application and closes."""
        self.asking_since = _NEVER
        if not self.transport.is_closing():
            self.transport.write(reply)
            self.transport.close()

    # ------------------------------------------------------------------ the short way

    def _fits(self, direct: Direct) -> bool:
        """Whether a request, by its head, is a short POST on a connection that is kept and otherwise idle."""
        if (
            self.parser.get_method() != b"POST"
            or self.expect_100_continue
            or (self.cycle is not None and not self.cycle.response_complete)
            or self.parser.should_upgrade()
            or self.parser.get_http_version() != "1.1"
            or (self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency)
        ):
            return False
        length = b""
        for name, value in self.headers:
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding" or (name == b"connection" and value.lower() != b"keep-alive"):
                return False
        return length.isdigit() and int(length[:15]) <= direct.max_body

    def _take(self, body: bytes) -> bool:
        assert self.direct is not None
        if not self.direct.take(self, self.url, self.headers, body):
            return False
        if self._short is None:
            self._short = _ShortCycle()
        self._short.response_complete = False
        self.cycle = self._short  # type: ignore[assignment]
        return True

    def answer(self, reply: Reply, own: list[Header]) -> None:
        """See `Connection`."""
        short = self._short
        assert short is not None
        short.response_complete = True
        if short.disconnected or self.transport.is_closing():
            return
        lines = [STATUS_LINE[reply.status]]
        for headers in (self.server_state.default_headers, own, reply.headers):
            for name, value in headers:
                lines += (name, b": ", value, b"\r\n")
        lines.append(b"content-type: %b\r\ncontent-length: %d\r\n" % (reply.content_type, len(reply.body)))
        if not short.keep_alive:
            lines.append(b"connection: close\r\n")
        lines += (b"\r\n", reply.body)
        self.transport.write(b"".join(lines))
        if not short.keep_alive:
            self.transport.close()
        self.on_response_complete()


def connection_type(
    longest_head: int, direct: Direct | None, certificates: Certificates | None
) -> type[HttpConnection]:
    """uvicorn makes connections by their class, so what they need to know is in the class."""
    known = {"longest_head": longest_head, "direct": direct, "certificates": certificates}
    return type("HttpConnection", (HttpConnection,), known)
