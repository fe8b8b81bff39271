"""One conversation, many pipes: what the client may expect of every transport."""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from mom_client.connection.transport import (
    TLS_PART,
    WEBSOCKET_MESSAGE,
    PipeTransport,
    TlsTransport,
    Transport,
    WebSocketTransport,
    open_transport,
)
from tests.support.loop_turns import Turns, loop_turns
from tests.support.patience import patient

REAL_TIME = True

#: Sends everything back, and ends when it gets these bytes.
GOODBYE = b"goodbye"
Opener = Callable[[], Awaitable[Transport]]


def certificate(directory: Path) -> Path:
    """A certificate of 127.0.0.1 and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), False)
        .sign(key, hashes.SHA256())
    )
    file = directory / "broker.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return file


async def echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while (data := await reader.read(65536)) and data != GOODBYE:
        writer.write(data)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def echo_websocket(websocket: ServerConnection) -> None:
    assert websocket.subprotocol == "v12.stomp"
    async for message in websocket:
        if message == GOODBYE:
            return
        await websocket.send(
            message.decode() if message == b"text" and isinstance(message, bytes) else message
        )


class EchoPipe:
    def __init__(self) -> None:
        self._echo: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        await self._echo.put(b"" if data == GOODBYE else data)

    async def receive(self) -> bytes:
        return await self._echo.get()

    async def close(self) -> None:
        await self._echo.put(b"")


@contextlib.asynccontextmanager
async def tcp_opener(tmp_path: Path) -> AsyncIterator[Opener]:
    async with await asyncio.start_server(echo_stream, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield lambda: open_transport(f"stomp://127.0.0.1:{port}")


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a broker and of a client that trusts it."""
    file = certificate(directory)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(file)
    return ours, ssl.create_default_context(cafile=file)


@contextlib.asynccontextmanager
async def tls_opener(tmp_path: Path) -> AsyncIterator[Opener]:
    ours, theirs = contexts(tmp_path)
    async with await asyncio.start_server(echo_stream, "127.0.0.1", 0, ssl=ours) as server:
        port = server.sockets[0].getsockname()[1]
        yield lambda: open_transport(f"stomp+tls://127.0.0.1:{port}", theirs)


@contextlib.asynccontextmanager
async def websocket_opener(tmp_path: Path) -> AsyncIterator[Opener]:
    protocols = ["v12.stomp"]
    async with serve_websocket(echo_websocket, "127.0.0.1", 0, subprotocols=protocols) as server:  # type: ignore[arg-type]
        port = next(iter(server.sockets)).getsockname()[1]
        yield lambda: open_transport(f"ws://127.0.0.1:{port}/ws")


@contextlib.asynccontextmanager
async def pipe_opener(tmp_path: Path) -> AsyncIterator[Opener]:
    async def open_pipe() -> Transport:
        return PipeTransport(EchoPipe())

    yield open_pipe


@pytest.fixture(params=[tcp_opener, tls_opener, websocket_opener, pipe_opener])
async def opener(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    async with request.param(tmp_path) as opened:
        yield opened


async def exactly(transport: Transport, size: int) -> bytes:
    data = b""
    async with asyncio.timeout(patient(10)):
        while len(data) < size:
            piece = await transport.receive()
            assert piece
            data += piece
    return data


async def test_bytes_come_in_order(opener: Opener) -> None:
    transport = await opener()
    for number in range(100):
        transport.write(b"%02d" % number)
    assert await exactly(transport, 200) == b"".join(b"%02d" % number for number in range(100))
    await transport.close()


async def test_text_is_bytes(opener: Opener) -> None:
    transport = await opener()
    transport.write(b"text")
    assert await exactly(transport, 4) == b"text"
    await transport.close()


async def test_drain_waits_for_room(opener: Opener) -> None:
    transport = await opener()
    reading = asyncio.ensure_future(exactly(transport, 8 << 20))
    for _ in range(8):
        transport.write(bytes(1 << 20))
        async with asyncio.timeout(patient(10)):
            await transport.drain()
    assert await reading == bytes(8 << 20)
    await transport.close()


async def test_the_end(opener: Opener) -> None:
    transport = await opener()
    transport.write(GOODBYE)
    async with asyncio.timeout(patient(10)):
        assert await transport.receive() == b""
    await transport.close()
    await transport.close()


async def test_written_bytes_are_sent_before_a_disconnect(opener: Opener) -> None:
    transport = await opener()
    transport.write(b"last words")
    await transport.close()


@pytest.mark.parametrize("scheme", ["stomp", "stomp+tls", "ws", "wss"])
async def test_nothing_listens_at_the_address(scheme: str, unused_tcp_port: int) -> None:
    with pytest.raises(OSError):  # noqa: PT011 -- which one is the system's choice
        await open_transport(f"{scheme}://127.0.0.1:{unused_tcp_port}/ws")


async def test_no_websocket_there() -> None:
    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match=r"no WebSocket at ws://.*404"):
            await open_transport(f"ws://127.0.0.1:{port}/ws")


async def test_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    async with await asyncio.start_server(echo_stream, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="its certificate is not trusted: self-signed certificate"):
            await open_transport(f"stomp+tls://127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def slow_server(
    kind: str, awake: asyncio.Event, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """The address of a server that takes nothing until it is `awake`, and then all."""

    async def take_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await awake.wait()
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass  # its client has ended it
        finally:
            writer.close()
            done.set()

    async def take_messages(websocket: ServerConnection) -> None:
        await awake.wait()
        with contextlib.suppress(ConnectionClosed):
            async for _ in websocket:
                pass

    done = asyncio.Event()
    server: asyncio.Server | Server
    if kind != "ws":
        server = await asyncio.start_server(take_stream, "127.0.0.1", 0, ssl=tls)
    else:
        subprotocols = [Subprotocol("v12.stomp")]
        options: Any = {"subprotocols": subprotocols, "max_queue": 1, "ping_interval": None}
        server = await serve_websocket(take_messages, "127.0.0.1", 0, **options)
    async with server:
        port = next(iter(server.sockets)).getsockname()[1]
        try:
            yield f"{kind}://127.0.0.1:{port}/ws"
        finally:
            awake.set()
        if kind != "ws":
            async with asyncio.timeout(patient(10)):
                await done.wait()


@pytest.mark.parametrize("kind", ["stomp", "ws"])
async def test_it_is_known_how_much_did_not_get_there_yet(kind: str) -> None:
    awake = asyncio.Event()
    size = 32 * 1024 * 1024
    async with slow_server(kind, awake) as address:
        transport = await open_transport(address)
        transport.write(bytes(size))
        for _ in range(100):  # as much has gone as goes
            await asyncio.sleep(0)
        assert size / 2 < transport.waiting_bytes <= size * 1.01
        awake.set()
        async with asyncio.timeout(patient(10)):
            while transport.waiting_bytes:
                await asyncio.sleep(0.01)
        await transport.close()
        assert transport.waiting_bytes == 0


@pytest.mark.parametrize("kind", ["stomp", "stomp+tls", "ws"])
async def test_a_close_that_is_cancelled_ends_the_connection_all_the_same(kind: str, tmp_path: Path) -> None:
    """The broker takes nothing: what is written waits for it."""
    awake = asyncio.Event()
    ours, theirs = contexts(tmp_path)
    async with slow_server(kind, awake, ours if kind == "stomp+tls" else None) as address:
        transport = await open_transport(address, theirs)
        transport.write(bytes(32 * 1024 * 1024))
        closing = asyncio.create_task(transport.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(patient(10)):
                assert await transport.receive() == b""


class TurnsOfWrites:
    """A stream that keeps what was written, with the turn of the loop in which that was."""

    waiting_bytes, has_room = 0, True

    def __init__(self, turns: Turns) -> None:
        self.written: list[tuple[int, bytes]] = []
        self._turns = turns

    def write(self, data: bytes) -> None:
        self.written.append((self._turns.number, data))

    async def drain(self) -> None:
        """There is room."""

    async def receive(self) -> bytes:
        return b""

    async def close(self) -> None:
        """Nothing is open."""


async def test_large_data_over_tls_is_written_in_parts_each_in_a_turn() -> None:
    large = bytes(8 * TLS_PART)
    async with loop_turns() as turns:
        stream = TurnsOfWrites(turns)
        transport = TlsTransport(stream)
        for data in (b"first", large, b"last"):
            transport.write(data)
        assert transport.waiting_bytes == len(large) + 4
        await transport.close()
    assert b"".join(data for _, data in stream.written) == b"first" + large + b"last"
    assert max(len(data) for _, data in stream.written) == TLS_PART
    assert len({turn for turn, _ in stream.written}) >= len(large) // TLS_PART


class TurnsOfMessages:
    """A WebSocket that takes all at once, and keeps what was sent with its turn."""

    def __init__(self, turns: Turns) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self._turns = turns

    async def send(self, data: bytes) -> None:
        self.sent.append((self._turns.number, data))

    async def close(self) -> None:
        """Nothing is open."""


async def test_large_data_over_a_web_socket_is_sent_in_messages_each_in_a_turn() -> None:
    large = bytes(8 * WEBSOCKET_MESSAGE)
    async with loop_turns() as turns:
        socket: Any = TurnsOfMessages(turns)
        transport = WebSocketTransport(socket)
        for data in (b"first", b"second", large, b"last"):
            transport.write(data)
        await transport.close()
    assert [data for _, data in socket.sent][:1] == [b"firstsecond"]
    assert b"".join(data for _, data in socket.sent) == b"firstsecond" + large + b"last"
    assert len({turn for turn, _ in socket.sent}) >= len(large) // WEBSOCKET_MESSAGE
