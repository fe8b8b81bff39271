"""A connection to the origin: JSON over WebSocket (docs/protocol.md), as any client speaks it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, WebSocketException
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from broker_app.base.refused import Refused
from broker_app.features.callback_broker import origin_events
from broker_app.features.services.origin import Origin
from mom_client.connection.transport import tls_context

#: seconds to connect and to log in, and for an answer
CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
#: seconds between pings, and to answer one: an origin that is gone is noticed within their sum
PING_S: Final = 5.0
#: bytes of messages in one answer, besides the last one, and of the rest of an event
_ANSWER: Final = 8 * 1024 * 1024
_FRAME: Final = 1024 * 1024
_CLOSE_S: Final = 1.0
_SUBPROTOCOL: Final = Subprotocol("mom.v1.json")


def longest_event(max_message: int) -> int:
    """The bytes of the longest event of an origin with messages of so many bytes: some of them, in Base64."""
    return (max_message + _ANSWER) * 4 // 3 + _FRAME


class OriginLost(ConnectionError):
    """The connection to the origin broke, or there is none."""


class WrongAnswer(OriginLost):
    """The connection was ended because the origin answered what no broker answers; it would do so again."""


class OriginLink:
    """One open connection. `on_event` is called with events that answer nothing."""

    def __init__(
        self, socket: ClientConnection, on_event: Callable[[dict[str, object]], None], max_event: int
    ) -> None:
        self._socket = socket
        self._max_event = max_event
        self._on_event = on_event
        self._numbers = itertools.count(1)
        #: operations without an answer
        self._open: dict[str, tuple[dict[str, object], asyncio.Future[dict[str, object]]]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._lost: OriginLost | None = None

    @classmethod
    async def open(
        cls, url: str, origin: Origin, on_event: Callable[[dict[str, object]], None], max_event: int
    ) -> Self:
        """Connect and log in; events have at most `max_event` bytes. Raises OriginLost, or Refused when the
        login is not accepted."""
        try:
            # The file that MOM_CA_FILE names may be missing: an error of this origin.
            tls = tls_context() if url.startswith("wss:") else None
            async with asyncio.timeout(CONNECT_S):
                socket = await connect(
                    url,
                    subprotocols=[_SUBPROTOCOL],
                    additional_headers=_authorization(origin),
                    ssl=tls,
                    compression=None,
                    proxy=None,
                    max_size=max_event,
                    ping_interval=PING_S,
                    ping_timeout=PING_S,
                    close_timeout=_CLOSE_S,
                    open_timeout=None,
                )
                try:
                    ready = _decode(await socket.recv())
                except BaseException:
                    await socket.close()
                    raise
        except TimeoutError:
            raise OriginLost(f"no answer within {CONNECT_S:g} s") from None
        except InvalidHandshake as error:
            raise OriginLost(f"it refuses a WebSocket: {error}") from error
        except (OSError, WebSocketException) as error:
            raise _lost(error, max_event) from error
        if ready.get("op") != "ready":
            await socket.close()
            raise _refusal(ready)
        return cls(socket, on_event, max_event)

    @property
    def is_lost(self) -> bool:
        """True if the connection has ended, or will in a moment."""
        return self._lost is not None

    async def run(self) -> None:
        """Read until the connection ends. Raises OriginLost with the reason."""
        try:
            async for data in self._socket:
                self._take(_decode(data))
            raise OriginLost("the origin closed the connection")
        except (OSError, WebSocketException) as error:
            lost = _lost(error, self._max_event)
            self._fail(lost)
            raise lost from error

    def ask(self, operation: str, **members: Any) -> asyncio.Future[dict[str, object]]:
        """Send an operation at once; the future has its answer. It raises Refused or OriginLost."""
        answer: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        # An answer that is not awaited, because its caller has ended, is no error.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._lost is not None:
            answer.set_exception(self._lost)
            return answer
        ref = str(next(self._numbers))
        asked = {"op": operation, "ref": ref, **members}
        self._open[ref] = asked, answer
        sending = asyncio.create_task(self._send(asked))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return answer

    async def call(self, operation: str, **members: Any) -> dict[str, object]:
        """Send an operation; returns its answer. Raises Refused or OriginLost."""
        answer = self.ask(operation, **members)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise OriginLost(f"no answer to {operation} within {ANSWER_S:g} s") from None

    async def close(self) -> None:
        """End the connection, and fail what waits for an answer."""
        self._fail(OriginLost("the connection to the origin was closed"))
        with contextlib.suppress(OSError, WebSocketException):
            await self._socket.close()

    async def _send(self, operation: dict[str, object]) -> None:
        # When it fails, `run` meets the same end.
        with contextlib.suppress(OSError, WebSocketException):
            await self._socket.send(msgspec.json.encode(operation), text=True)

    def _take(self, event: dict[str, object]) -> None:
        asked, answer = self._open.pop(str(event.get("ref") or ""), ({}, None))
        if answer is None:
            if event.get("op") == "closed":
                raise OriginLost(f"the origin ended the connection: {event.get('detail', '')}")
            self._on_event(event)
        elif not answer.done():
            if event.get("op") == "problem":
                answer.set_exception(_refusal(event))
            else:
                try:
                    answer.set_result(origin_events.answer(asked, event))
                except ValueError as error:
                    lost = WrongAnswer(str(error))
                    answer.set_exception(lost)
                    raise lost from None

    def _fail(self, lost: OriginLost) -> None:
        self._lost = self._lost or lost
        open_, self._open = self._open, {}
        for _, answer in open_.values():
            if not answer.done():
                answer.set_exception(lost)


def _authorization(origin: Origin) -> dict[str, str]:
    if not origin.login:
        return {}
    if origin.login == "token":
        return {"Authorization": f"Bearer {origin.passcode}"}
    pair = base64.b64encode(f"{origin.login}:{origin.passcode}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def _decode(data: str | bytes) -> dict[str, object]:
    """One event. Raises OriginLost for what is none."""
    try:
        return origin_events.decode(data)
    except ValueError as error:
        raise OriginLost(str(error)) from None


def _lost(error: Exception, max_event: int) -> OriginLost:
    """The end of a connection, with its reason."""
    if isinstance(error, OriginLost):
        return error
    if isinstance(error, ConnectionClosed) and error.sent and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
        return OriginLost(
            f"the origin sent an event of more than {max_event:,} bytes, which no message needs"
        )
    return OriginLost(str(error) or type(error).__name__)


def _refusal(problem: dict[str, object]) -> Refused:
    """The problem of the origin, for its clients here."""
    code = str(problem.get("type", "")).rpartition("/")[2] or "internal"
    return Refused(code, str(problem.get("detail") or "the origin gave no reason"))
