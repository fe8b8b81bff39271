"""The connection of a JSON session: a WebSocket that is read and written in two tasks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.base.rate_limit import RateLimit
from broker_app.base.refused import Refused
from broker_app.net.http.large_body import parts
from broker_app.net.http.refusals import invalid
from broker_app.net.json import events
from broker_app.net.json.outbox import EventText, Outbox
from broker_app.net.json.session import Closed, JsonSession
from broker_app.net.json.splitter import Malformed, ObjectSplitter

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

#: bytes of one operation, and of the one that logs in
MAX_OPERATION: Final = 64 * 1024
MAX_LOGIN: Final = 4 * 1024
#: operations that are counted together for the rate limit
_TOGETHER: Final = 1_000
#: replies that wait for the client; it is read no further until they are sent
MAX_REPLIES: Final = 1_000
#: seconds in which a client must take what is sent
STUCK_S: Final = 60.0
#: seconds for the reason of the end to be sent
GOODBYE_S: Final = 2.0
#: WebSocket close codes
PROTOCOL_ERROR, POLICY, RESTART = 1002, 1008, 1012
_TOO_FAST_S = 10.0
_REPLIES_PAUSE_S = 0.01


class JsonConnection:
    """One WebSocket, from its acceptance to its end."""

    def __init__(self, session: JsonSession, outbox: Outbox, send: Send) -> None:
        self._session = session
        self._outbox = outbox
        self._send = send
        self._splitter = ObjectSplitter(MAX_LOGIN)
        self._deadline = Deadline(time.monotonic)
        config = session.config
        frames, bytes_ = config.max_frames_per_second, config.max_bytes_per_second
        self._rate = RateLimit(frames, bytes_, time.monotonic()) if frames or bytes_ else None
        self._ended: asyncio.Future[Closed] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()

    def close(self, refusal: Refused, code: int = POLICY) -> None:
        """End the connection with a reason."""
        if not self._ended.done():
            self._ended.set_result(Closed(refusal, code))

    async def wait_ended(self) -> None:
        """Wait until the client has left."""
        await self._left.wait()

    async def run(self, receive: Receive) -> None:
        """Serve the client until it leaves, or is refused."""
        writer = asyncio.create_task(self._write_all())
        reader = asyncio.create_task(self._read_all(receive))
        try:
            await asyncio.wait((reader, writer, self._ended), return_when=asyncio.FIRST_COMPLETED)
            closed = self._reason(reader, writer)
            reader.cancel()
            await asyncio.wait((reader,))
            await self._say_goodbye(writer, closed)
        finally:
            reader.cancel()
            writer.cancel()
            self._session.end()
            try:
                await self._session.end_registrations()
            finally:
                self._left.set()

    def _reason(self, reader: asyncio.Task[None], writer: asyncio.Task[None]) -> Closed:
        """The reason why the connection ends."""
        if self._ended.done():
            return self._ended.result()
        error = next(
            (error for task in (reader, writer) if task.done() and (error := task.exception())), None
        )
        if isinstance(error, Closed):
            return error
        if isinstance(error, Refused):  # the engine has ended
            return Closed(error, RESTART)
        if error is not None and not isinstance(error, OSError):
            internal_errors.note("a JSON session", error, self._session.user)
            return Closed(Refused("internal", "the node failed; its log has the details"), RESTART)
        return Closed()

    async def _say_goodbye(self, writer: asyncio.Task[None], closed: Closed) -> None:
        if closed.refusal is not None:
            self._outbox.put(events.with_problem(events.Closed(), closed.refusal))
        self._outbox.close()
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(GOODBYE_S):
                await asyncio.wait((writer,))
                await self._send({"type": "websocket.close", "code": closed.code})

    # ------------------------------------------------------------------ tasks

    async def _write_all(self) -> None:
        deadline = Deadline(time.monotonic)
        while found := await self._outbox.take():
            found.reverse()
            while found:
                async with asyncio.timeout(STUCK_S):
                    await self._send(_message_of(found.pop()))
                await self._in_turn(deadline)
            self._session.sent()

    async def _read_all(self, receive: Receive) -> None:
        self._session.enter()
        timeout_s = self._session.config.connect_timeout
        while True:
            try:
                async with asyncio.timeout(None if self._session.client is not None else timeout_s):
                    event = await receive()
            except TimeoutError:
                raise Closed(Refused("timeout", f"no login came within {timeout_s:g} s"), POLICY) from None
            if event["type"] != "websocket.receive":
                raise Closed
            await self._session.wait_served()
            data = event.get("bytes")
            await self._take(event["text"].encode() if data is None else data)

    async def _take(self, data: bytes) -> None:
        """Carry out what a message brings; other clients are served between."""
        self._splitter.put(data)
        size = len(data)
        while self._splitter.has_unread:
            operations = self._next_operations()
            await self._keep_pace(len(operations), size)
            size = 0
            for operation in operations:
                await self._in_turn(self._deadline)
                await self._session.do(operation)
                while self._outbox.replies > MAX_REPLIES:
                    await asyncio.sleep(_REPLIES_PAUSE_S)
            await self._in_turn(self._deadline)

    def _next_operations(self) -> list[bytes]:
        """The next complete operations; before the login only the first, a short one. Raises Closed."""
        is_known = self._session.client is not None
        self._splitter.longest = MAX_OPERATION if is_known else MAX_LOGIN
        try:
            return self._splitter.take(_TOGETHER if is_known else 1)
        except Malformed as error:
            raise Closed(invalid("", str(error)), PROTOCOL_ERROR) from None

    @staticmethod
    async def _in_turn(deadline: Deadline) -> None:
        """Wait for the next turn of the loop if this one was long enough."""
        if deadline.passed:
            await asyncio.sleep(0)
            deadline.begin()

    async def _keep_pace(self, operations: int, size: int) -> None:
        if self._rate is None:
            return
        wait_s = self._rate.spend(operations, size, time.monotonic())
        if wait_s > _TOO_FAST_S:
            raise Closed(Refused("rate-limited", "too many operations in a second; send fewer"), POLICY)
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _message_of(event: EventText) -> Event:
    """The WebSocket message of an event; a large one is sent in fragments, as `serve_websocket` knows."""
    if isinstance(event, bytes):
        return {"type": "websocket.send", "text": event.decode()}
    return {"type": "websocket.send", "mom.fragments": parts(event)}
