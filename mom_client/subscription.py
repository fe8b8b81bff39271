"""A consumer's interest in a destination: an asynchronous iterator of messages."""

import asyncio
import collections
from typing import TYPE_CHECKING, Literal, Self

from .errors import ConnectionLost, Overrun, Timeout
from .message import Message

if TYPE_CHECKING:
    from .client import Client

__all__ = ["AckMode", "Subscription"]

AckMode = Literal["auto", "client", "client-individual"]

#: With ack="auto" the broker knows no credit; what waits here beyond this ends the subscription.
MAX_WAITING_BYTES = 256 * 1024 * 1024
_MESSAGE_BYTES = 1000  #: what a waiting message holds beside its body


class Subscription:
    """Made by `Client.subscribe`. Enter it to subscribe, leave it to unsubscribe, iterate it in between.

    It outlives connections: after a reconnect it is made again by itself, and messages that were
    delivered and not settled come again.
    """

    def __init__(self, client: "Client", headers: dict[str, str]) -> None:
        self.id = headers["id"]
        self.headers = headers  #: of the SUBSCRIBE frame
        self._client = client
        self._messages: collections.deque[Message] = collections.deque()
        self._waiting_bytes = 0
        self._last: Message | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: BaseException | None = None

    @property
    def destination(self) -> str:
        return self.headers["destination"]

    @property
    def waiting(self) -> int:
        """Messages that were delivered and not yet taken."""
        return len(self._messages)

    async def __aenter__(self) -> Self:
        await self._client._start_subscription(self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._client._end_subscription(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message. Iteration ends when the client is closed or the subscription was left."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError(f"two tasks wait on subscription {self.id}; give each its own")
            self._waiter = self._client._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._last = self._messages.popleft()
        self._waiting_bytes -= len(message.body) + _MESSAGE_BYTES
        return message

    async def get(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises Timeout, or ConnectionLost when the subscription has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(self)
        except TimeoutError:
            raise Timeout(f"no message on {self.destination} within {timeout_s} s") from None
        except StopAsyncIteration:
            raise ConnectionLost(f"the subscription to {self.destination} has ended") from None

    def _take(self, message: Message) -> None:
        self._messages.append(message)
        self._waiting_bytes += len(message.body) + _MESSAGE_BYTES
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._client._abandon(self)
            self._end(Overrun(f"{len(self._messages)} messages of {self.destination} wait unread; "
                              "use ack='client-individual' or read faster"))  # fmt: skip
        self._wake()

    def _drop(self) -> None:
        """Forget what came over a lost connection and can no longer be settled: it comes again."""
        if self.headers["ack"] != "auto":
            self._messages.clear()
            self._waiting_bytes = 0

    def _go_on(self) -> None:
        """Let the next connection begin in history behind what this one has brought."""
        newest = self._messages[-1] if self._messages else self._last
        if "from" in self.headers and newest is not None and newest.seq is not None:
            self.headers["from"] = f"seq:{newest.seq + 1}"

    def _end(self, error: BaseException | None = None) -> None:
        self._ended = True
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
