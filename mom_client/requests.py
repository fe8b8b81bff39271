"""Requests: messages whose reply comes over a private temporary queue."""

import asyncio
import itertools

from .activity import Activity
from .errors import ConnectionLost, Timeout
from .frame_sender import FrameSender
from .message import Message
from .sending import SendOptions

__all__ = ["Requests"]

REPLIES = "/temp-queue/replies"


class Requests:
    """The requests of one client that wait for their replies."""

    def __init__(self, frame_sender: FrameSender, activity: Activity) -> None:
        self._frame_sender = frame_sender
        self._activity = activity
        self._numbers = itertools.count(1)
        self._replies: dict[str, asyncio.Future[Message]] = {}  # by correlation-id

    async def request(
        self,
        destination: str,
        body: bytes | str,
        timeout_s: float,
        options: SendOptions,
    ) -> Message:
        """See `Client.request`."""
        if self._frame_sender.forwards(destination):
            raise ValueError(f"another broker cannot reply to a request: send to {destination}, or ask here")
        keeper = self._frame_sender.keeper
        await keeper.wait_writable()
        await keeper.wait_connected(sending=True)
        session = keeper.live().connection.headers.get("session", "")
        correlation_id = f"{session}-{next(self._numbers)}"
        options["correlation_id"], options["reply_to"] = correlation_id, REPLIES
        options.setdefault("persistent", False)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def pass_refusal(sent: "asyncio.Future[None]") -> None:
            if not sent.cancelled() and sent.exception() is not None and not reply.done():
                reply.set_exception(sent.exception() or ConnectionLost())

        self._replies[correlation_id] = reply
        try:
            async with asyncio.timeout(timeout_s):
                with self._activity:
                    receipt = keeper.unconfirmed.new_receipt()
                    frame = self._frame_sender.compose(destination, body, options, b"receipt:%b\n" % receipt)
                    keeper.live().write(frame)
                    keeper.unconfirmed.expect(receipt).add_done_callback(pass_refusal)
                    return await reply
        except TimeoutError:
            raise Timeout(f"no reply from {destination} within {timeout_s:g} s") from None
        finally:
            del self._replies[correlation_id]

    def take(self, message: Message) -> None:
        """Give a reply to its request, if that still waits."""
        reply = self._replies.get(message.correlation_id or "")
        if reply is not None and not reply.done():
            reply.set_result(message)

    def fail(self, error: Exception) -> None:
        """Fail all requests."""
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(error)
