"""Messages sent without waiting, kept until the broker has confirmed them (`trackMessages`)."""

import asyncio
import logging

from .unconfirmed import Unconfirmed

__all__ = ["TrackedSends"]

log = logging.getLogger("mom_client")


class TrackedSends:
    """Keeps frames of at most `most_bytes`: the oldest are left out, and then not sent again after a loss."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._sizes: dict[bytes, int] = {}  # by receipt, the oldest first

    def keep(self, unconfirmed: Unconfirmed, receipt: bytes, frame: bytes) -> None:
        """Send `frame` again after each loss of the connection, until `receipt` comes."""

        def settled(answer: "asyncio.Future[None]") -> None:
            self._bytes -= self._sizes.pop(receipt, 0)
            if not answer.cancelled() and answer.exception() is not None:
                log.warning("a message that was sent with confirm=False: %s", answer.exception())

        self._sizes[receipt] = len(frame)
        self._bytes += len(frame)
        unconfirmed.expect(receipt, frame).add_done_callback(settled)
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._sizes))
            self._bytes -= self._sizes.pop(oldest)
            unconfirmed.drop_frame(oldest)
