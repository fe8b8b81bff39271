"""A loop whose clock jumps, and a broker whose lines the test writes."""

import asyncio
import heapq
from collections.abc import Mapping
from typing import Any

import mom_client
from mom_client.connection.pace import Pace
from mom_client.connection.transport import PipeTransport, Transport
from mom_client.stomp import AckRun, Frame, Malformed, Parser, encode
from mom_client.stomp import frame as wire
from tests.support.patience import patient

ADDRESS = "stomp://one:1"


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when nothing is ready: an hour passes in no time."""

    _now = 0.0
    _timer_cancelled_count: int

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].cancelled():  # otherwise it would wait for the one after it
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1
        if not self._ready and timers:  # type: ignore[attr-defined]
            self._now = max(self._now, timers[0].when())
        super()._run_once()  # type: ignore[misc]


class FakeSession:
    """The broker's end of one connection: `expect` what the client sends, `say` what the broker answers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.beats = 0  # heart-beats that came
        self.closed = asyncio.Event()  # the client has left
        self._parser = Parser()
        self._heard: asyncio.Queue[Frame] = asyncio.Queue()
        self._to_client: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    # The client's end.

    async def send(self, data: bytes) -> None:
        self.beats += data == b"\n"
        for item in self._parser.receive(data):
            assert not isinstance(item, Malformed), item
            if isinstance(item, AckRun):
                for id in item.ids:
                    self._heard.put_nowait(Frame(wire.ACK, wire.Headers({"id": id.decode()})))
            else:
                self._heard.put_nowait(item)

    async def receive(self) -> bytes:
        item = await self._to_client.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def close(self) -> None:
        self._to_client.put_nowait(b"")
        self.closed.set()

    # The test's end.

    async def expect(self, command: bytes, **headers: str) -> Frame:
        """The next frame, which must be a `command` with these headers among others."""
        frame = await self.expect_any()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        assert (frame.command, {**frame.headers, **given}) == (command, frame.headers), frame
        return frame

    async def expect_any(self) -> Frame:
        """The next frame."""
        async with asyncio.timeout(3600):
            return await self._heard.get()

    @property
    def quiet(self) -> bool:
        """Return whether the client sent nothing unexpected."""
        return self._heard.empty()

    def say(self, command: bytes, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.say_bytes(encode(command, headers or {}, body))

    def say_bytes(self, data: bytes) -> None:
        self._to_client.put_nowait(data)

    def confirm(self, *frames: Frame) -> None:
        for frame in frames:
            assert frame.receipt is not None, frame
        receipts = [b"RECEIPT\nreceipt-id:%b\n\n\0" % frame.receipt for frame in frames if frame.receipt]
        self.say_bytes(b"".join(receipts))

    def deliver(self, subscription: str, number: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        fixed = {"subscription": subscription, "message-id": f"m-{number}", "ack": f"{number}"}
        self.say(wire.MESSAGE, {**fixed, **named}, body)

    def refuse(self, frame: Frame, code: str) -> None:
        """A refusal of a single act."""
        if frame.receipt is None:
            named = {"correlation-id": frame.headers["correlation-id"]}
        else:
            named = {"receipt-id": frame.receipt.decode()}
        headers = {"subscription": "$mom.refused", "message-id": "r", "destination": "/user/$mom.refused"}
        body = b'{"type": "/docs/problems/%b", "detail": "because"}' % code.encode()
        self.say(wire.MESSAGE, {**headers, **named}, body)

    def end(self, error: Exception | None = None) -> None:
        """The connection breaks."""
        self._to_client.put_nowait(error or b"")

    async def welcome(self, **headers: str) -> Frame:
        """Let the client in; its CONNECT."""
        connect = await self.expect(wire.CONNECT)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.say(wire.CONNECTED, {"version": "1.2", "heart-beat": "0,0", "session": "s", **named})
        return connect


class FakeBroker:
    """Opens pipes for clients; `accept` gives the broker's end of each, in order."""

    def __init__(self) -> None:
        self.down: set[str] = set()  # addresses without a broker
        self.attempts: list[tuple[float, str]] = []  # when and where the client tried
        self._sessions: asyncio.Queue[FakeSession] = asyncio.Queue()

    async def open(self, address: str) -> Transport:
        self.attempts.append((asyncio.get_running_loop().time(), address))
        if address in self.down:
            raise ConnectionRefusedError(f"nobody at {address}")
        session = FakeSession(address)
        self._sessions.put_nowait(session)
        return PipeTransport(session)

    async def accept(self) -> FakeSession:
        async with asyncio.timeout(3600):
            return await self._sessions.get()

    def connect(self, *addresses: str, **options: Any) -> mom_client.Client:
        """A client that has not connected yet."""
        options.setdefault("pace", Pace(jitter=0))
        return mom_client.connect(addresses or ADDRESS, opener=self.open, **options)

    async def client(self, *addresses: str, **options: Any) -> tuple[mom_client.Client, FakeSession]:
        """A client that is logged in, and the broker's end of its connection."""
        opening = asyncio.ensure_future(self.connect(*addresses, **options).open())
        session = await self.accept()
        await session.welcome()
        return await opening, session

    async def come_back(self, client: mom_client.Client) -> FakeSession:
        """The broker's end of the connection that `client` makes after it lost one."""
        session = await self.accept()
        await session.welcome()
        async with asyncio.timeout(patient(60)):
            while not client.connected:
                await asyncio.sleep(0.01)
        return session

    async def leave(self, client: mom_client.Client, session: FakeSession) -> None:
        """Close `client`, which must have nothing else to say."""
        closing = asyncio.ensure_future(client.close())
        session.confirm(await session.expect(wire.DISCONNECT))
        await closing
        assert session.quiet
