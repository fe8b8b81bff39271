"""A message as the application sees it."""

import json
from collections.abc import Mapping
from typing import Any, Unpack

from .frame_sender import FrameSender
from .sending import SendOptions
from .stomp import Frame

__all__ = ["Message"]


class Message:
    """One delivery: what was sent, and the means to settle it."""

    __slots__ = ("_frame_sender", "epoch", "frame")

    def __init__(self, frame: Frame, frame_sender: FrameSender, epoch: int) -> None:
        self.frame = frame
        self._frame_sender = frame_sender
        self.epoch = epoch  # the connection it was received over, the only one over which it can be settled

    @property
    def body(self) -> bytes:
        return self.frame.body

    @property
    def text(self) -> str:
        """The body as UTF-8. Raises UnicodeDecodeError."""
        return self.frame.body.decode()

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.frame.body)

    @property
    def headers(self) -> Mapping[str, str]:
        """All headers as they came, the broker's own among them."""
        return self.frame.headers

    @property
    def id(self) -> str:
        return self.frame.headers.get("message-id", "")

    @property
    def destination(self) -> str:
        return self.frame.headers.get("destination", "")

    @property
    def is_current(self) -> bool:
        """True while there is the connection over which it was received."""
        keeper = self._frame_sender.keeper
        return keeper.connected and self.epoch == keeper.epoch

    @property
    def redelivered(self) -> bool:
        """True if it may have been delivered before."""
        return self.frame.headers.get("redelivered") == "true"

    @property
    def attempt(self) -> int:
        """The number of this delivery of the message, starting at 1."""
        attempt = self.frame.headers.get("attempt", "")
        return int(attempt) if attempt.isdecimal() else 1

    @property
    def seq(self) -> int | None:
        """Its place in the history of its topic, for subscriptions with a `start`: ``seq:<number>``."""
        seq = self.frame.headers.get("seq", "")
        return int(seq) if seq.isdecimal() else None

    @property
    def reply_to(self) -> str | None:
        return self.frame.headers.get("reply-to")

    @property
    def correlation_id(self) -> str | None:
        return self.frame.headers.get("correlation-id")

    async def ack(self, *, confirm: bool = False) -> None:
        """Acknowledge the message: it is not delivered again.

        With `confirm` waits until the broker has recorded this. A message that was received over a
        connection that was lost can no longer be settled, and is delivered again: without `confirm` this
        is ignored, with it ConnectionLost is raised.
        """
        await self._frame_sender.settle(self.frame, self.epoch, requeue=None, confirm=confirm)

    async def nack(
        self,
        *,
        requeue: bool = True,
        delay_s: float | None = None,
        reason: str = "",
        confirm: bool = False,
    ) -> None:
        """Return the message to its queue for another attempt, after `delay_s` if given; with
        `requeue=False` move it to the dead letters. Operators see the `reason` there."""
        headers = {} if delay_s is None else {"delay-s": f"{delay_s:.3f}"}
        if reason:
            headers["reason"] = reason
        await self._frame_sender.settle(
            self.frame, self.epoch, requeue=requeue, confirm=confirm, headers=headers
        )

    async def reply(self, body: bytes | str, **options: Unpack[SendOptions]) -> None:
        """Answer a request: send to its reply-to with its correlation-id; options as of `Client.send`."""
        if self.reply_to is None:
            raise ValueError(f"message {self.id} has no reply-to")
        options["correlation_id"] = self.correlation_id
        await self._frame_sender.send(self.reply_to, body, **options)

    def __repr__(self) -> str:
        return f"<Message {self.id} from {self.destination}, {len(self.body)} B>"
