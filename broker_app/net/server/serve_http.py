"""uvicorn's HTTP connection, with bounds on what a client sends and how long it takes, and a fast path for
single messages.

The headers must arrive within `header_timeout_s`. A body has `BODY_TIMEOUT_FACTOR` times as long, and a
second more for each `BODY_RATE` bytes; time does not count while the application does not read. The rest of
a body after its response is read and discarded, within limits: a client that is disconnected while it sends
does not receive the response.

A POST that `FastPublish` takes is answered without a scope, a request cycle or a task. uvicorn receives
all others as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import time

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker_app.base.deadline import Deadline
from broker_app.base.process.fd_limits import has_room
from broker_app.net.http.replies import Header, Reply
from broker_app.net.rest.messages.fast_publish import Caller, FastPublish
from broker_app.net.tls.certificates import Certificates

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_PATH_TOO_LONG = b"HTTP/1.1 414 URI Too Long\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_OLD_WEBSOCKET = (
    b"HTTP/1.1 400 Bad Request\r\nsec-websocket-version: 13\r\ncontent-type: text/plain\r\n"
    b"content-length: 34\r\nconnection: close\r\n\r\nWebSocket needs HTTP/1.1 or later."
)
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_NEVER = float("inf")

#: a body may take so many times as long as a head
BODY_TIMEOUT_FACTOR = 4
#: bytes of a body for which a client gets a second more; as for the data plane (`RestLimits.upload_rate`)
BODY_RATE = 64 * 1024
#: bytes that are parsed between two looks at the clock
PIECE = 8 * 1024
#: bytes of a path: one of slashes alone costs Django milliseconds
LONGEST_PATH = 4096
#: bytes of a body that are thrown away after its answer
MAX_DISCARDED = 256 * 1024 * 1024
MAX_HEADERS = 300
#: requests that wait behind the one in hand
MAX_PIPELINED = 100


class _ShortCycle:
    """Stands where uvicorn keeps the request in hand, so that it treats what is pipelined behind it, the
    end of the connection and a shutdown as it always does."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()  # uvicorn sets it


class _LateClose:
    """The transport of a request: it is closed when the body has come, too."""

    __slots__ = ("_connection",)

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        self._connection.transport.write(data)

    def is_closing(self) -> bool:
        return self._connection.transport.is_closing()

    def close(self) -> None:
        self._connection.close_behind_body()


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection."""

    longest_head = 64 * 1024
    #: seconds for a head
    header_timeout_s = 10.0
    direct: FastPublish | None = None
    certificates: Certificates | None = None
    #: the names in the client certificate
    certified: tuple[str, ...] = ()

    #: when what the client sends must have come; never, while it is not its turn
    due = _NEVER
    caller: Caller | None = None
    #: whether a body went on, or a message ended, in what was read last
    _moved = False
    #: bytes that came since: of a head, of trailers, or of nothing
    _other_bytes = 0
    _in_body = False
    #: what may still come of a body that was answered
    _discardable = MAX_DISCARDED
    #: the body that is coming was answered before it is whole
    _answered_early = False
    #: the connection ends behind the body that is coming
    _closes = False
    #: nothing is read any more
    _refused = False
    #: another protocol has taken the transport over
    _is_websocket = False
    #: what is left of what was read, for the next turn of the loop
    _unread = b""
    _late_close: _LateClose | None = None
    #: the parts of a body that may take the fast path, None for all others
    _parts: list[bytes] | None = None
    _short: _ShortCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.due = time.monotonic() + self.header_timeout_s
        if self.certificates is not None:
            self.certified = self.certificates.names_of(transport)
        if not has_room(transport.get_extra_info("socket")):
            transport.abort()

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        super().on_message_begin()
        if self.certified:
            self.scope["mom.certified"] = self.certified  # type: ignore[typeddict-unknown-key]
        self.due = time.monotonic() + self.header_timeout_s
        self._other_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are ignored, and so is what makes a head too long.
        if not self._in_body and len(self.headers) <= MAX_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_body = True
        if self._refused:
            return
        if len(self.url) > LONGEST_PATH and len(self.url.partition(b"?")[0]) > LONGEST_PATH:
            self._refuse(_PATH_TOO_LONG)
        elif len(self.headers) > MAX_HEADERS or len(self.url) > self.longest_head:
            self._refuse(_TOO_LONG)
        elif len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(b"")
        elif self.direct is not None and self._fits(self.direct):
            self._parts = []  # it has no longer than its head
        else:
            self._begin()

    def _begin(self) -> None:
        """Have the application take the request."""
        self.due += (BODY_TIMEOUT_FACTOR - 1) * self.header_timeout_s
        former = self.cycle
        super().on_headers_complete()
        if self.cycle is not former:  # a WebSocket has none
            if self._late_close is None:
                self._late_close = _LateClose(self)
            self.cycle.transport = self._late_close  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._moved = True
        if self._parts is not None:
            self._parts.append(body)
        elif self._refused:
            return
        elif self.cycle.response_complete:
            self._discardable -= len(body)
            if self._discardable < 0:
                self._refuse(b"")
        else:
            self.due += len(body) / BODY_RATE
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._moved = True
        parts, self._parts = self._parts, None
        if self._refused:
            return
        if parts is not None:
            self.due = _NEVER
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            if self._take(body):
                return
            self._begin()
            if body:
                super().on_body(body)
        super().on_message_complete()
        self.due = _NEVER
        if self._closes:
            self._refuse(b"")  # requests that follow in the same read are not processed
        elif self._answered_early:
            # What came of the body ended the time that a connection may be idle.
            self._answered_early = False
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        if self._in_body:
            self._discardable = MAX_DISCARDED
            self.due = time.monotonic() + BODY_TIMEOUT_FACTOR * self.header_timeout_s
            self._answered_early = not self.pipeline
        super().on_response_complete()

    def close_behind_body(self) -> None:
        """Close when the body of the request in hand has come, or does not come."""
        if self._in_body and not self.pipeline:  # else it is the body of a later request
            self._closes = True
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._unread:
            self._unread += data
        elif len(data) <= PIECE:
            self._parse(data)
        else:
            self._parse_in_turns(data)

    def _parse_in_turns(self, data: bytes) -> None:
        """Parse what was read in pieces; when the deadline has passed, the rest waits for the next turn."""
        deadline = Deadline(time.monotonic)
        deadline.begin()
        for at in range(0, len(data), PIECE):
            if self._is_websocket or self.transport.is_closing():
                return
            if at and deadline.passed:
                self._unread = data[at:]
                self.transport.pause_reading()
                self.loop.call_soon(self._parse_on)
                return
            self._parse(data[at : at + PIECE])

    def _parse_on(self) -> None:
        """Go on with what was read, in a later turn of the loop."""
        data, self._unread = self._unread, b""
        if self.transport.is_closing():
            return
        self._parse_in_turns(data)
        if not (self._unread or self.flow.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        if not self._refused:
            self._moved = False
            super().data_received(data)
            self._bound_other_bytes(len(data))

    def _bound_other_bytes(self, size: int) -> None:
        """Refuse a connection that sends too much of what is neither head nor body."""
        if self._refused:
            return
        if self._moved:
            self._other_bytes = 0
            return
        self._other_bytes += size
        if self._other_bytes > self.longest_head:
            self._refuse(_TOO_LONG if self._awaits_answer else b"")
        elif self.due is _NEVER and self.cycle is not None and self.cycle.response_complete:
            # Empty lines between requests ended the time that a connection may be idle.
            self.due = time.monotonic() + self.header_timeout_s

    def look(self, now: float) -> None:
        """Send the client away when it has taken too long. Called once a second."""
        if now < self.due:
            return
        cycle = self.cycle
        wanted = self._in_body and self._parts is None and not cycle.response_complete
        if self.flow.read_paused or (wanted and cycle.body):
            self.due = now + BODY_TIMEOUT_FACTOR * self.header_timeout_s
        else:
            self._refuse(_TOO_SLOW if self._awaits_answer else b"")

    @property
    def _awaits_answer(self) -> bool:
        """True if an answer now would be taken for that to what the client is sending."""
        cycle = self.cycle
        if self._in_body and self._parts is None:
            return not cycle.response_started
        return cycle is None or cycle.response_complete

    def handle_websocket_upgrade(self) -> None:
        if self.parser.get_http_version() == "1.1":
            self._is_websocket = True
            super().handle_websocket_upgrade()
        else:
            self._refuse(_OLD_WEBSOCKET)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the midst of which the connection now is."""
        self.due = _NEVER
        self._refused = True
        super().send_400_response(msg)

    def _refuse(self, reply: bytes) -> None:
        """Close, after an answer that is not the application's."""
        self.due = _NEVER
        self._refused = True
        if not self.transport.is_closing():
            self.transport.write(reply)
            self.transport.close()

    # ------------------------------------------------------------------ the fast path

    def _fits(self, direct: FastPublish) -> bool:
        """True if a request, by its head, is a short POST on a connection that is kept and otherwise idle."""
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
    longest_head: int, header_timeout_s: float, direct: FastPublish | None, certificates: Certificates | None
) -> type[HttpConnection]:
    """uvicorn makes connections by their class, so what they need to know is in the class."""
    known = {
        "longest_head": longest_head,
        "header_timeout_s": header_timeout_s,
        "direct": direct,
        "certificates": certificates,
    }
    return type("HttpConnection", (HttpConnection,), known)
