"""Several acts that happen together or not at all."""

import asyncio
from typing import TYPE_CHECKING, Any, Self, Unpack

from .message import Message
from .sending import SendOptions

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Transaction"]


class Transaction:
    """Made by `Client.transaction`. Leaving the block commits; an exception in it aborts.

    A refusal of any act aborts the whole and is raised at the end of the block. A connection lost in
    between raises ConnectionLost there: nothing has happened then, unless the commit itself was on its
    way, which the error says.
    """

    def __init__(self, client: "Client", id: str) -> None:
        self.id = id
        self._client = client
        self._epoch = 0
        self._acts: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        self._epoch = await self._client._begin(self.id)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outcomes: list[Any] = []
        if kind is None:
            outcomes = await asyncio.gather(*self._acts, return_exceptions=True)
        failure = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if kind is not None or failure is not None:
            for act in self._acts:
                act.add_done_callback(_look_at)
            self._client._abort(self.id, self._epoch)
            if failure is not None:
                raise failure
        else:
            await self._client._commit(self.id, self._epoch)

    async def send(self, destination: str, body: bytes | str = b"", **options: Unpack[SendOptions]) -> None:
        """Send when the transaction commits; options as of `Client.send`."""
        await self._client._wait_room()
        self._acts.append(self._client._send_within(self.id, self._epoch, destination, body, options))

    def ack(self, message: Message) -> None:
        """Settle `message` when the transaction commits."""
        self._acts.append(self._client._settle_within(self.id, self._epoch, message, None))

    def nack(self, message: Message, *, requeue: bool = True) -> None:
        """Give `message` back when the transaction commits."""
        self._acts.append(self._client._settle_within(self.id, self._epoch, message, requeue))


def _look_at(act: asyncio.Future[None]) -> None:
    """The outcome of an act of an aborted transaction interests nobody."""
    if not act.cancelled():
        act.exception()
