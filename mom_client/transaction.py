"""Several acts that happen together or not at all."""

from typing import TYPE_CHECKING, Self, Unpack

from .errors import Refused
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
        #: of the acts, which are answered with the commit
        self._receipts: list[bytes] = []
        self._refusal: Refused | None = None

    async def __aenter__(self) -> Self:
        self._epoch = await self._client._begin(self.id)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._client._abort(self.id, self._epoch)
            else:
                await self._client._commit(self.id, self._epoch)
        except Refused as refusal:
            # The broker has ended a transaction of which it refused an act: there was nothing to commit.
            raise self._refusal or refusal from None
        finally:
            self._client._forget_acts(self._receipts)

    def _refused(self, refusal: Refused) -> None:
        """An act was refused; the first such reason counts."""
        self._refusal = self._refusal or refusal

    async def send(self, destination: str, body: bytes | str = b"", **options: Unpack[SendOptions]) -> None:
        """Send when the transaction commits; options as of `Client.send`."""
        await self._client._wait_room()
        self._receipts.append(self._client._send_within(self, self._epoch, destination, body, options))

    def ack(self, message: Message) -> None:
        """Settle `message` when the transaction commits."""
        self._receipts.append(self._client._settle_within(self, self._epoch, message, None))

    def nack(self, message: Message, *, requeue: bool = True) -> None:
        """Give `message` back when the transaction commits."""
        self._receipts.append(self._client._settle_within(self, self._epoch, message, requeue))
