"""Transactions: operations that are carried out together or not at all."""

from collections.abc import Iterable
from typing import Self, Unpack

from .activity import Activity
from .errors import ConnectionLost, Refused, TransactionInDoubt
from .frame_sender import FrameSender
from .message import Message
from .sending import SendOptions
from .stomp import frame as wire

__all__ = ["Transaction", "Transactions"]


class Transaction:
    """Made by `Client.transaction`. Leaving the block commits; an exception in it aborts.

    A refusal of any operation aborts the transaction and is raised at the end of the block. A lost connection
    raises ConnectionLost there: nothing was carried out then, unless the commit had been sent, which raises
    TransactionInDoubt.
    """

    def __init__(self, owner: "Transactions", id: str) -> None:
        self.id = id
        self._owner = owner
        self._epoch = 0
        #: of the acts, which are answered with the commit
        self._receipts: list[bytes] = []
        self._refusal: Refused | None = None

    async def __aenter__(self) -> Self:
        self._epoch = await self._owner.begin(self.id)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._owner.abort(self.id, self._epoch)
            else:
                await self._owner.commit(self.id, self._epoch)
        except Refused as refusal:
            # The broker has ended a transaction of which it refused an act: there was nothing to commit.
            raise self._refusal or refusal from None
        except ConnectionLost:
            if self._refusal is None:
                raise
            raise self._refusal from None  # the connection was ended because of it
        finally:
            self._owner.forget(self._receipts)

    def refused(self, refusal: Refused) -> None:
        """An act was refused; the first such reason counts."""
        self._refusal = self._refusal or refusal

    async def send(self, destination: str, body: bytes | str = b"", **options: Unpack[SendOptions]) -> None:
        """Send when the transaction commits; options as of `Client.send`."""
        await self._owner.wait_writable()
        self._receipts.append(self._owner.send(self, self._epoch, destination, body, options))

    def ack(self, message: Message) -> None:
        """Settle `message` when the transaction commits."""
        self._receipts.append(self._owner.settle(self, self._epoch, message, None))

    def nack(self, message: Message, *, requeue: bool = True, reason: str = "") -> None:
        """Give `message` back when the transaction commits; options as of `Message.nack`."""
        self._receipts.append(self._owner.settle(self, self._epoch, message, requeue, reason))


class Transactions:
    """The transactions of one client: their frames, and whose each receipt is."""

    def __init__(self, frame_sender: FrameSender, activity: Activity) -> None:
        self._frame_sender = frame_sender
        self._activity = activity
        #: by the receipts of sends and acknowledgements within them
        self._by_receipt: dict[bytes, Transaction] = {}

    async def wait_writable(self) -> None:
        """Wait until something may be sent."""
        await self._frame_sender.keeper.wait_writable()

    async def begin(self, id: str) -> int:
        """Begin a transaction. Returns the epoch of its connection."""
        keeper = self._frame_sender.keeper
        await keeper.wait_connected()
        epoch = keeper.epoch
        self._activity.begin()
        try:
            await self._frame_sender.send_command(wire.BEGIN, {"transaction": id})
        except BaseException:
            self._activity.end()
            raise
        return epoch

    async def commit(self, id: str, epoch: int) -> None:
        """Raises Refused, ConnectionLost if nothing has happened, or TransactionInDoubt."""
        try:
            self._frame_sender.keeper.live(epoch)
        except ConnectionLost as error:
            raise ConnectionLost(f"{error}; the broker has aborted the transaction") from error
        try:
            await self._frame_sender.send_command(wire.COMMIT, {"transaction": id})
        except ConnectionLost as error:
            raise TransactionInDoubt(f"{error}; whether the transaction was committed is unknown") from error

    def abort(self, id: str, epoch: int) -> None:
        """Abort, unless the broker has done so because the connection was lost."""
        keeper = self._frame_sender.keeper
        if keeper.connected and epoch == keeper.epoch:
            link = keeper.live()
            link.write(link.connection.encode(wire.ABORT, {"transaction": id}))

    def send(
        self, transaction: Transaction, epoch: int, destination: str, body: bytes | str, options: SendOptions
    ) -> bytes:
        """Send over the connection of the transaction, never again over another. Returns the receipt."""
        keeper = self._frame_sender.keeper
        link = keeper.live(epoch)
        receipt = keeper.unconfirmed.new_receipt()
        lines = f"transaction:{transaction.id}\nreceipt:{receipt.decode()}\n".encode()
        link.write(self._frame_sender.compose(destination, body, options, lines))
        self._by_receipt[receipt] = transaction
        return receipt

    def settle(
        self,
        transaction: Transaction,
        epoch: int,
        message: Message,
        requeue: bool | None,
        reason: str = "",
    ) -> bytes:
        """Settle `message` within a transaction. Returns the receipt."""
        self._frame_sender.keeper.live(epoch)
        headers = {"transaction": transaction.id} | ({"reason": reason} if reason else {})
        receipt = self._frame_sender.settle_nowait(message.frame, message.epoch, requeue, headers)
        self._by_receipt[receipt] = transaction
        return receipt

    def refused(self, receipt: bytes, refusal: Refused) -> bool:
        """Note a refusal. Returns False if the receipt is of no transaction."""
        transaction = self._by_receipt.get(receipt)
        if transaction is not None:
            transaction.refused(refusal)
        return transaction is not None

    def forget(self, receipts: Iterable[bytes]) -> None:
        """A transaction has ended: answers to its parts are not expected any more."""
        self._activity.end()
        for receipt in receipts:
            del self._by_receipt[receipt]
