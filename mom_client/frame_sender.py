"""The frame sender: composes frames of a client, sends them, and waits for their receipts."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Unpack

from .connection.keeper import ConnectionKeeper
from .errors import Timeout
from .sending import Composer, SendOptions
from .stomp import Frame
from .tracked import TrackedSends
from .unsettled import Unsettled

__all__ = ["FrameSender"]


class FrameSender:
    """The interface of the client for messages, subscriptions and transactions."""

    def __init__(
        self,
        keeper: ConnectionKeeper,
        composer: Composer,
        *,
        dedup: str = "",
        tracked: TrackedSends | None = None,
        unsettled: Unsettled | None = None,
    ) -> None:
        self.keeper = keeper
        #: the deliveries that have to be settled, if they are counted
        self.unsettled = unsettled
        self._composer = composer
        self._dedup = dedup  # prefix of the dedup-ids of messages that have none of their own
        self._tracked = tracked  # messages that are sent without waiting, if they are kept

    def send_command(self, command: bytes, headers: Mapping[str, str]) -> "asyncio.Future[None]":
        """Send a frame that is valid on this connection only. Raises ConnectionLost."""
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
        if not keeper.is_writable:
            await keeper.wait_writable()
            if not confirm:
                await keeper.wait_connected(sending=True)
        if not confirm:
            self._send_unconfirmed(destination, body, options)
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
        receipt, frame = self._compose_repeatable(destination, body, options)
        link = keeper.link
        if link is not None:
            link.write(frame)
        return keeper.unconfirmed.expect(receipt, frame, was_sent=link is not None)

    def _compose_repeatable(
        self, destination: str, body: bytes | str, options: SendOptions
    ) -> tuple[bytes, bytes]:
        """A receipt, and a SEND frame that may be sent again: the broker stores it once."""
        receipt = self.keeper.unconfirmed.new_receipt()
        if self._dedup and options.get("dedup_id") is None:
            options["dedup_id"] = f"{self._dedup}-{receipt.decode()}"
        return receipt, self.compose(destination, body, options, b"receipt:%b\n" % receipt)

    def _send_unconfirmed(self, destination: str, body: bytes | str, options: SendOptions) -> None:
        keeper = self.keeper
        link = keeper.live()
        if self._tracked is None:
            link.write(self.compose(destination, body, options, b""))
        else:
            receipt, frame = self._compose_repeatable(destination, body, options)
            link.write(frame)
            self._tracked.keep(keeper.unconfirmed, receipt, frame)

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
            self._note_settled(message)
            await keeper.link.drain()

    def settle_nowait(
        self, message: Frame, epoch: int, requeue: bool | None, headers: Mapping[str, str]
    ) -> bytes:
        """Settle with a receipt. Returns the receipt's name; raises ConnectionLost."""
        link = self.keeper.live(epoch)
        receipt = self.keeper.unconfirmed.new_receipt()
        link.write(link.connection.settle(message, requeue, {**headers, "receipt": receipt.decode()}))
        self._note_settled(message)
        return receipt

    def _note_settled(self, message: Frame) -> None:
        if self.unsettled is not None:
            self.unsettled.settled(message)
