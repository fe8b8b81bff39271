"""No parser of what others send takes more than time in proportion to its bytes, whatever they are."""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import uvicorn
from uvicorn.server import ServerState

from broker_app.base import deadline
from broker_app.base.refused import Refused
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.requests import LineCutter, elements
from broker_app.net.json import operations
from broker_app.net.json.splitter import ObjectSplitter
from broker_app.net.rest.messages import bulk_rows, cloudevents
from broker_app.net.rest.messages.ndjson import MessageLines
from broker_app.net.server.serve_http import connection_type
from broker_app.net.server.serve_websocket import websocket_type
from broker_app.reflex import cnf
from broker_app.zero import grammar
from broker_app.zero.errors import Errors
from broker_app.zero.positions import SourceText
from mom_client.connection import failover_uri
from mom_client.stomp.parser import Parser
from tests.support.samples import sample

KIB = 1024
#: at four times the size: 4 is linear, 16 is quadratic
MOST_GROWTH = 10
#: times below it are as long as others, in seconds
SHORT_S = 0.004

ADDRESS = "192.0.2.1", 1
Feed = Callable[[bytes], object]
Parser_ = Callable[[], Awaitable[Feed]]


class Worst(NamedTuple):
    """An input that costs a parser as much as possible: `begin`, `repeated` as often as it takes, `end`. It
    may take `ns` for each byte, which is several times what it takes. `parser` makes what is fed with it."""

    parser: Parser_
    ns: float
    repeated: bytes
    begin: bytes = b""
    end: bytes = b""
    size: int = 32 * KIB
    #: bytes that arrive at a time; all by default
    piece: int = 0

    def of_size(self, size: int) -> bytes:
        return self.begin + self.repeated * (size // len(self.repeated)) + self.end


# ---------------------------------------------------------------------- parsers


def whole(parse: Feed) -> Parser_:
    """A parser that keeps nothing."""

    async def make() -> Feed:
        return parse

    return make


async def splitter() -> Feed:
    objects = ObjectSplitter(64 * KIB)

    def feed(data: bytes) -> None:
        objects.put(data)
        while objects.has_unread:
            objects.take(1_000)

    return feed


async def stomp() -> Feed:
    return Parser().receive


async def stomp_client() -> Feed:
    return Parser(role="client").receive


async def lines() -> Feed:
    return LineCutter().cut


operation = whole(operations.parse)
ndjson = whole(partial(MessageLines(RestLimits()).read, "/queue/a"))
declarations = whole(lambda data: cnf.parse(data.decode()))
failover = whole(lambda data: failover_uri.parse(data.decode()))
rows = whole(lambda data: bulk_rows.parsed(len(data).to_bytes(4, "little") + data, RestLimits()))


@whole
def events(data: bytes) -> None:
    for event in elements(data, RestLimits().max_batch_items):
        with suppress(Refused):
            cloudevents.item_of(bytes(event))


@whole
def zero_config(data: bytes) -> None:
    grammar._statement.cache_clear()
    errors = Errors()
    source = errors.sources["a"] = SourceText("a", data.decode())
    grammar.parse(source, errors)


class Wire(asyncio.Transport):
    """Takes everything, and closes nothing."""

    def __init__(self) -> None:
        of = SimpleNamespace(fileno=lambda: 0, getsockname=lambda: ADDRESS, getpeername=lambda: ADDRESS)
        super().__init__({"socket": of})
        self.protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Accept a WebSocket; everything else is never answered."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
    with suppress(asyncio.CancelledError):
        await asyncio.Future()


async def _connection() -> Wire:
    config = uvicorn.Config(
        _app,
        loop="none",
        http=connection_type(64 * KIB, 10.0, None, None),
        ws=websocket_type(None),
        lifespan="off",
        log_config=None,
    )
    config.load()
    wire = Wire()
    connection = config.http_protocol_class
    wire.protocol = connection(config=config, server_state=ServerState(), app_state={})  # type: ignore[call-arg]
    wire.protocol.connection_made(wire)
    return wire


async def http() -> Feed:
    return (await _connection()).protocol.data_received  # type: ignore[no-any-return]


async def _websocket() -> Any:
    wire = await _connection()
    wire.protocol.data_received(UPGRADE)
    while not wire.protocol.handshake_complete:
        await asyncio.sleep(0)
    return wire.protocol


async def websocket() -> Feed:
    return (await _websocket()).data_received  # type: ignore[no-any-return]


async def closed_websocket() -> Feed:
    """One that the application has closed, and whose client goes on to send."""
    connection = await _websocket()
    await connection.send({"type": "websocket.close"})
    return connection.data_received  # type: ignore[no-any-return]


GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
UPGRADE = GET + (
    b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
ROW = b'{"destination":"/a"}'
EVENT = b'{"id":"1","source":"a","specversion":"1.0","type":"t"'

WORST = {
    # Copies of the rest are as fast as a parser until it is longer than this.
    "JSON: empty objects": Worst(splitter, 4_000, b"{}", size=512 * KIB),
    "JSON: nesting": Worst(splitter, 4_000, b"{", size=60 * KIB),
    "JSON: escapes": Worst(splitter, 500, rb"\"", b'{"', b'"}', size=60 * KIB),
    "JSON: an operation in pieces": Worst(splitter, 4_000, b'"a",', b"{", b"}", size=60 * KIB, piece=8),
    "JSON: a list": Worst(operation, 500, b"1,", b'{"op":"receive","queue":"a","seqs":[', b"1]}"),
    "JSON: an unknown operation": Worst(operation, 500, b"subscribe", b'{"op":"', b'"}'),
    "JSON: a number": Worst(operation, 500, b"1", b'{"op":"credit","id":"1","credit":', b"}"),
    "STOMP: short frames": Worst(stomp, 3_000, b"COMMIT\n\n\0"),
    "STOMP: ACK": Worst(stomp, 3_000, b"ACK\nid:\\c\n\n\0"),
    "STOMP: runs of ACK": Worst(stomp, 100, b"ACK\nid:1\n\n\0", size=256 * KIB),
    "STOMP: SEND with CRLF in its head": Worst(stomp, 3_000, b"SEND\nx:a\r\n\r\n\0", size=96 * KIB),
    "STOMP: a far empty line": Worst(stomp, 4_000, b"SEND\nx:a\r\n\r\n\0", end=b"SEND\n\n\0"),
    "STOMP: line feeds behind frames": Worst(stomp, 4_000, b"SEND\n\nx\0\n\n"),
    "STOMP: headers": Worst(stomp, 1_000, b"SEND\n" + b"a:\n" * 256 + b"\n\0"),
    "STOMP: escapes": Worst(stomp, 1_000, rb"\c", b"SEND\nx:", b"\n\n\0", size=15 * KIB),
    "STOMP: heart-beats": Worst(stomp, 100, b"\n", size=256 * KIB),
    "STOMP: heart-beats one by one": Worst(stomp, 20_000, b"\n", size=8 * KIB, piece=1),
    "STOMP: a head in pieces": Worst(stomp, 4_000, b"x:\n", b"SEND\n", size=60 * KIB, piece=8),
    "STOMP: another head in pieces": Worst(stomp, 4_000, b"x", b"SUBSCRIBE\nx:", size=15 * KIB, piece=4),
    "STOMP: a body in pieces": Worst(stomp, 4_000, b"x", b"SEND\n\n", size=60 * KIB, piece=8),
    "STOMP: receipts": Worst(stomp_client, 100, b"RECEIPT\nreceipt-id:1\n\n\0", size=256 * KIB),
    "STOMP: messages": Worst(stomp_client, 3_000, b"MESSAGE\nx:y\n\nx\0"),
    "HTTP: headers": Worst(http, 1_000, b"a:\r\n", GET, size=60 * KIB),
    "HTTP: requests": Worst(http, 1_500, GET + b"\r\n"),
    "HTTP: chunks": Worst(http, 1_500, b"1\r\nx\r\n", CHUNKED),
    "HTTP: trailers": Worst(http, 1_500, b"a:\r\n", CHUNKED + b"0\r\n"),
    "HTTP: a path": Worst(http, 1_000, b"%41", b"GET /"),
    "WebSocket: pings": Worst(websocket, 200, b"\x89\x80mask"),
    "WebSocket: short messages": Worst(websocket, 1_500, b"\x82\x81maskx\x81\x81mask\x15"),
    "WebSocket: fragments": Worst(websocket, 1_500, b"\x00\x81maskx", b"\x02\x81maskx"),
    "WebSocket: behind its end": Worst(closed_websocket, 1_000, b"\x82\x81maskx"),
    "NDJSON: lines": Worst(lines, 500, b"\n", size=256 * KIB),
    "NDJSON: a line in pieces": Worst(lines, 500, b"x", size=256 * KIB, piece=16),
    "NDJSON: headers": Worst(ndjson, 500, b'"x":"y",', b'{"body":"","headers":{', b'"x":""}}'),
    "NDJSON: escapes": Worst(ndjson, 500, rb"\u0041", b'{"body":"', b'"}'),
    "NDJSON: base64": Worst(ndjson, 500, b"AAAA", b'{"body_base64":"', b'"}'),
    "NDJSON: an unknown member": Worst(ndjson, 500, b"a", b'{"', b'":1}'),
    "rows: envelopes": Worst(rows, 1_000, ROW + b",", b'{"rows":0,"envelopes":[', ROW + b"]}"),
    "CloudEvents: events": Worst(events, 1_000, EVENT + b"},", b"[", EVENT + b"}]", size=12 * KIB),
    "CloudEvents: no events": Worst(events, 20_000, b"{},", b"[", b"{}]", size=720),
    "CloudEvents: attributes": Worst(events, 500, b',"a":1', b"[" + EVENT, b"}]"),
    "CloudEvents: nesting": Worst(events, 500, b"["),
    "CNF: words": Worst(declarations, 15_000, b" e f", b"S a b", size=8 * KIB),
    "CNF: options": Worst(declarations, 5_000, b" x=1", b"S a b c d", size=8 * KIB),
    "CNF: JSON": Worst(declarations, 5_000, b" x=[1]", b"S a b c d", size=8 * KIB),
    "CNF: nested JSON": Worst(declarations, 500, b"[", b"S a b c d x="),
    "CNF: quotes": Worst(declarations, 500, b'""', b'S "'),
    "CNF: lines": Worst(declarations, 15_000, b"X\n", size=8 * KIB),
    "zero.config: keys": Worst(zero_config, 20_000, b"/a/b = 1\n", size=4 * KIB),
    "zero.config: an array": Worst(zero_config, 30_000, b"1,", b"/a = [", b"1]", size=4 * KIB),
    "zero.config: nesting": Worst(zero_config, 15_000, b"[", b"/a = ", size=4 * KIB),
    "zero.config: references": Worst(zero_config, 5_000, b"${a}", b'/a = "', b'"', size=8 * KIB),
    "zero.config: a string without end": Worst(zero_config, 1_000, rb"\a", b'/a = "'),
    "zero.config: errors": Worst(zero_config, 20_000, b"/a = x\n", size=4 * KIB),
    "zero.config: spaces": Worst(zero_config, 1_000, b" ", end=b"x"),
    "failover: addresses": Worst(failover, 5_000, b",stomp://h:1", b"failover:(ws://h", b")", size=8 * KIB),
    "failover: an address": Worst(failover, 2_000, b"a", b"failover:(stomp://", b":1)", size=16 * KIB),
    "failover: parentheses": Worst(failover, 1_000, b"(", b"failover:", size=16 * KIB),
    "failover: commas": Worst(failover, 2_000, b",", b"failover:(", b")", size=16 * KIB),
    "failover: no list": Worst(failover, 5_000, b"&a=b", b"failover:stomp://h:1?", size=16 * KIB),
}  # fmt: skip


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size or len(data)))


async def seconds(worst: Worst, data: bytes) -> float:
    """The CPU time of one parse; the shortest of several."""
    found = []
    for _ in range(3):
        feed = await worst.parser()
        pieces = list(pieces_of(data, worst.piece or len(data)))
        began = time.thread_time()
        with suppress(Refused, Refused, ValueError):
            for piece in pieces:
                feed(piece)
        found.append(time.thread_time() - began)
        if found[-1] < SHORT_S:
            break
    return min(found)


def grows_too_fast(short: float, long: float) -> bool:
    return long > MOST_GROWTH * max(short, SHORT_S / MOST_GROWTH)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def loop_ends() -> AsyncIterator[None]:
    """Requests that are never answered end with the test."""
    yield
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@pytest.mark.parametrize("name", sample(WORST, len(WORST) // 3))
@pytest.mark.usefixtures("no_collection", "loop_ends")
async def test_time_grows_no_faster_than_the_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "TURN_S", math.inf)  # nothing is left for a later turn, unmeasured
    worst = WORST[name]
    small, large = (worst.of_size(size) for size in (worst.size // 4, worst.size))
    await seconds(worst, small)  # prepares what is prepared once
    short, long = await seconds(worst, small), await seconds(worst, large)
    print(f"{name}: {long * 1e3:.1f} ms, {long / len(large) * 1e9:.0f} ns a byte, x {long / short:.1f}")
    assert long < SHORT_S or long <= worst.ns * 1e-9 * len(large)
    assert not grows_too_fast(short, long)


def joined(template: bytes, count: int, by: bytes = b"") -> bytes:
    return by.join(template % number for number in range(count))


#: tables of names, where each new one may be compared with those that were before
NAMES: dict[str, tuple[Parser_, Callable[[int], bytes]]] = {
    "failover options": (failover, lambda n: b"failover:(stomp://h:1)?" + joined(b"nested.%d=1", n, b"&")),
    "STOMP header blocks": (stomp, lambda n: joined(b"SEND\nx:%d\n\nx\0", n)),
    "CNF options": (declarations, lambda n: b"S a b c d" + joined(b" x%d=1", n)),
    "headers of NDJSON": (ndjson, lambda n: b'{"headers":{%b}}' % joined(b'"h%d":""', n, b",")),
    "members of a zero.config": (zero_config, lambda n: b"/a = {%b}" % joined(b'"k%d":1', n // 8, b",")),
}


@pytest.mark.parametrize("name", sample(NAMES, 2))
@pytest.mark.usefixtures("no_collection")
async def test_neither_does_it_with_names_that_are_all_different(name: str) -> None:
    parser, make = NAMES[name]
    worst = Worst(parser, 0.0, b"")
    short, long = await seconds(worst, make(1_000)), await seconds(worst, make(4_000))
    print(f"{name}: {long * 1e3:.1f} ms, x {long / short:.1f}")
    assert not grows_too_fast(short, long)
