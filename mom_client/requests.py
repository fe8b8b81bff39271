"""Requests: messages whose reply comes over a private temporary queue."""

import asyncio
import itertools

from .activity import Activity
from .connection.link import Link
from .errors import ConnectionLost, Refused, Timeout
from .frame_sender import FrameSender
from .message import Message
from .sending import SendOptions
from .stomp.encode import encode_headers

__all__ = ["Requests"]

REPLIES = "/temp-queue/replies"


class Requests:
    """The requests of one client that wait for their replies."""

    def __init__(self, frame_sender: FrameSender, activity: Activity) -> None:
        self._frame_sender = frame_sender
        self._activity = activity
        self._numbers = itertools.count(1)
        self._replies: dict[str, asyncio.Future[Message]] = {}  # by correlation-id
        #: the connection of the last request, the beginning of its ids, and that as the beginning of a line
        self._named: tuple[Link | None, str, bytes] = None, "", b""

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
        if not keeper.is_writable:
            await self.wait_writable()
        correlation_id = self._address(options)
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

    @property
    def is_writable(self) -> bool:
        """True if a request can be sent now."""
        return self._frame_sender.keeper.is_writable

    async def wait_writable(self) -> None:
        """Wait until a request can be sent. Raises ConnectionLost."""
        await self._frame_sender.keeper.wait_writable()
        await self._frame_sender.keeper.wait_connected(sending=True)

    def ask(self, destination: str, body: bytes, lines: bytes = b"") -> tuple[str, "asyncio.Future[Message]"]:
        """Send a request without a receipt: for a destination where each is answered, or refused by its
        correlation id. Returns that, and the reply to come; `forget` it in the end. `lines` are further
        header lines. Raises ConnectionLost."""
        link = self._frame_sender.keeper.live()
        number, (prefix, line) = next(self._numbers), self._names(link)
        correlation_id = f"{prefix}{number}"
        lines = b"%b%d\n%b" % (line, number, lines)
        link.write(self._frame_sender.compose(destination, body, {"reply_to": REPLIES}, lines))
        reply = self._replies[correlation_id] = asyncio.get_running_loop().create_future()
        self._activity.begin()
        return correlation_id, reply

    def forget(self, correlation_id: str) -> None:
        """Take no reply to a request of `ask` any more."""
        del self._replies[correlation_id]
        self._activity.end()

    def _address(self, options: SendOptions) -> str:
        """Have the reply to a message come to this client; returns its new correlation id."""
        prefix, _ = self._names(self._frame_sender.keeper.live())
        correlation_id = options["correlation_id"] = f"{prefix}{next(self._numbers)}"
        options["reply_to"] = REPLIES
        options.setdefault("persistent", False)
        return correlation_id

    def _names(self, link: Link) -> tuple[str, bytes]:
        """The beginning of the ids of a connection's requests, and of their header lines."""
        if self._named[0] is not link:
            prefix = f"{link.connection.headers.get('session', '')}-"
            line = encode_headers([("correlation-id", prefix)], self._frame_sender.keeper.version)
            self._named = link, prefix, line.removesuffix(b"\n")
        return self._named[1:]

    def refused(self, correlation_id: str, refused: Refused) -> bool:
        """Fail a request. Returns False if none with this id waits."""
        reply = self._replies.get(correlation_id)
        if reply is None or reply.done():
            return False
        reply.set_exception(refused)
        return True

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
