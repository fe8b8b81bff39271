"""One live connection: a transport, the conversation over it, and its heart-beats."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping

from ..errors import ConnectionLost, Refused
from ..stomp import AckRun, Frame, Malformed
from ..stomp import frame as wire
from ..stomp.connection import Connection, State
from ..stomp.writes import in_writes
from .transport import Transport

Opener = Callable[[str], Awaitable[Transport]]


class Link:
    """Assumes a running loop. Frames written in one turn of the loop leave in one write."""

    def __init__(self, transport: Transport, connection: Connection) -> None:
        self.connection = connection
        self.address = ""
        #: bytes that were to be sent since the login
        self.written = 0
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._outbox: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        #: came already: in the same bytes as CONNECTED, or with more frames than are given away at once
        self._early: list[Frame | AckRun] = []
        self._silent = False
        #: frames that are given away at once; what follows from them is sent before there are more
        self.most_frames = sys.maxsize

    @classmethod
    async def open(
        cls, address: str, opener: Opener, connection: Connection, headers: Mapping[str, str]
    ) -> "Link":
        """Connect and log in. Raises OSError, ConnectionLost or Refused."""
        link = cls(await opener(address), connection)
        link.address = address
        try:
            link._transport.write(connection.connect(headers, link._loop.time()))
            while connection.state is State.CONNECTING:
                link._early += await link._receive()
        except BaseException:
            await link.close()
            raise
        del link._early[0]  # CONNECTED
        link._watch()
        return link

    def write(self, frame: bytes) -> None:
        """Send a frame, or a part of one, with what else this turn of the loop has to send."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(frame)
        self.written += len(frame)

    @property
    def left(self) -> int:
        """The number of bytes of `written` that the other side has certainly received, without those that
        wait here, in the kernel or on the network."""
        return self.written - sum(map(len, self._outbox)) - self._transport.waiting_bytes

    def _flush(self) -> None:
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self.connection.on_sent(self._loop.time())
            with contextlib.suppress(OSError):  # `run` meets the same end, and reports it
                for data in in_writes(outbox):
                    self._transport.write(data)

    @property
    def is_to_mom(self) -> bool:
        """True if the broker is one of MOM, with what STOMP does not have."""
        return self.connection.headers.get("server", "").startswith("MOM/")

    @property
    def has_room(self) -> bool:
        """True if `drain` need not be waited for."""
        return self._transport.has_room

    async def drain(self) -> None:
        """Wait until the broker has taken enough of what was written."""
        with contextlib.suppress(OSError):
            await self._transport.drain()

    async def run(self, take: Callable[[list[Frame | AckRun]], None]) -> None:
        """Give all that comes to `take`; returns never. Raises ConnectionLost or, after an ERROR, Refused."""
        while True:
            take(await self.received())

    async def received(self) -> list[Frame | AckRun]:
        """The frames that came next. Raises ConnectionLost or, after an ERROR, Refused."""
        if self._early:
            await asyncio.sleep(0)
            frames, self._early = self._early, []
        else:
            frames = await self._receive()
        if len(frames) > self.most_frames:
            frames, self._early = frames[: self.most_frames], frames[self.most_frames :]
        return frames

    async def _receive(self) -> list[Frame | AckRun]:
        if self.connection.has_unread:
            await asyncio.sleep(0)  # however much comes, others have their turns
            data = b""
        else:
            data = await self._bytes()
        frames: list[Frame | AckRun] = []
        for item in self.connection.receive(data, self._loop.time()):
            if isinstance(item, Malformed):
                raise ConnectionLost(f"the broker broke the protocol: {item.detail}")
            if isinstance(item, Frame) and item.command is wire.ERROR:
                raise ErrorFrame(frames, item)
            frames.append(item)
        return frames

    async def _bytes(self) -> bytes:
        try:
            data = await self._transport.receive()
        except OSError as error:
            raise ConnectionLost(self._reason(str(error))) from error
        if not data:
            raise ConnectionLost(self._reason("the broker ended the connection"))
        return data

    def _reason(self, otherwise: str) -> str:
        return "the broker was silent for too long" if self._silent else otherwise

    def _watch(self) -> None:
        """Send heart-beats in time, and give a silent broker up."""
        now = self._loop.time()
        timeout_at = self.connection.timeout_at()
        if timeout_at is not None and now >= timeout_at:
            self._silent = True
            self._closing = asyncio.ensure_future(self._transport.close())
            return
        heart_beat_due = self.connection.heart_beat_due()
        if heart_beat_due is not None and now >= heart_beat_due:
            self.write(b"\n")
            self._flush()
            heart_beat_due = self.connection.heart_beat_due()
        due = [moment for moment in (timeout_at, heart_beat_due) if moment is not None]
        if due:
            self._timer = self._loop.call_at(min(due), self._watch)

    async def close(self) -> None:
        """Send what was written, and end."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        with contextlib.suppress(OSError):
            await self._transport.close()


class ErrorFrame(Refused):
    """The broker ended the connection with an ERROR; `before` came ahead of it in the same bytes."""

    def __init__(self, before: list[Frame | AckRun], frame: Frame) -> None:
        refused = Refused.from_frame(frame.headers, frame.body)
        super().__init__(refused.code, refused.detail, refused.problem)
        self.active = refused.active
        self.before = before
        self.receipt = frame.headers.get("receipt-id")
