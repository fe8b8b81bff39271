"""The channel: composes frames of a client, sends them, and waits for their receipts."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Unpack

from .errors import Timeout
from .keeper import ConnectionKeeper
from .sending import Composer, SendOptions
from .stomp import Frame

__all__ = ["Channel"]


class Channel:
    """The interface of the client for messages, subscriptions and transactions."""

    def __init__(self, keeper: ConnectionKeeper, composer: Composer) -> None:
        self.keeper = keeper
        self._composer = composer

    def perform(self, command: bytes, headers: Mapping[str, str]) -> "asyncio.Future[None]":
        """Send a frame that makes sense on this connection only. Raises ConnectionLost."""
        link = self.keeper.live()
        receipt = self.keeper.unconfirmed.new_receipt()
        link.write(link.connection.encode(command, {**headers, "receipt": receipt.decode()}))
        return self.keeper.unconfirmed.expect(receipt)

    def forwards(self, destination: str) -> bool:
        """True if what is sent to `destination` is forwarded to another broker."""
        return self._composer.forwards(destination)

    def compose(self, destination: str, body: bytes | str, options: SendOptions, lines: bytes) -> bytes:
        """A SEND frame; `lines` are further header lines."""
        if isinstance(body, str):
            body = body.encode()
            options.setdefault("content_type", "text/plain; charset=utf-8")
        head = self._composer.head(destination, options, self.keeper.version)
        return b"%b%bcontent-length:%d\n\n%b\0" % (head, lines, len(body), body)

    async def send(
        self,
        destination: str,
        body: bytes | str = b"",
        *,
        confirm: bool = True,
        timeout_s: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """See `Client.send`."""
        keeper = self.keeper
        await keeper.wait_room()
        if not confirm:
            await keeper.wait_connected()
            frame = self.compose(destination, body, options, b"")
            keeper.live().write(frame)
            return None
        answer = self.send_nowait(destination, body, options)
        if timeout_s is None:
            return await answer
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Timeout(f"no receipt for a message to {destination} within {timeout_s:g} s") from None

    def send_nowait(
        self, destination: str, body: bytes | str, options: SendOptions
    ) -> "asyncio.Future[None]":
        """See `Client.send_nowait`."""
        keeper = self.keeper
        keeper.check_end()
        receipt = keeper.unconfirmed.new_receipt()
        frame = self.compose(destination, body, options, b"receipt:%b\n" % receipt)
        if keeper.link is not None:
            keeper.link.write(frame)
        return keeper.unconfirmed.expect(receipt, frame)

    async def settle(
        self,
        message: Frame,
        epoch: int,
        *,
        requeue: bool | None,
        confirm: bool,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """ACK `message` (requeue None) or NACK it."""
        keeper = self.keeper
        if confirm:
            await keeper.unconfirmed.expect(self.settle_nowait(message, epoch, requeue, headers))
        elif keeper.connected and epoch == keeper.epoch and keeper.link is not None:
            keeper.link.write(keeper.link.connection.settle(message, requeue, headers))
            await keeper.link.drain()

    def settle_nowait(
        self, message: Frame, epoch: int, requeue: bool | None, headers: Mapping[str, str]
    ) -> bytes:
        """Settle with a receipt. Returns the receipt's name; raises ConnectionLost."""
        link = self.keeper.live(epoch)
        receipt = self.keeper.unconfirmed.new_receipt()
        link.write(link.connection.settle(message, requeue, {**headers, "receipt": receipt.decode()}))
        return receipt
