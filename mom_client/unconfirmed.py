"""Sends without a receipt."""

import asyncio
import itertools
import math
from collections.abc import Iterable, Iterator

__all__ = ["Unconfirmed"]

_SEND = b"SEND\n"
#: marks what a broker may have stored, so that another one, which does not know that, marks its copy
_SEND_AGAIN = b"SEND\nresent:true\n"


class _Pending:
    __slots__ = ("answer", "deadline", "frame", "was_sent")

    def __init__(
        self, answer: "asyncio.Future[None]", frame: bytes | None, deadline: float, was_sent: bool
    ) -> None:
        self.answer = answer
        self.frame = frame  # to be sent again after a reconnect; None: it makes sense on its connection only
        self.deadline = deadline
        self.was_sent = was_sent

    def to_resend(self) -> bytes:
        """The frame for the next connection; a message that a broker may have stored is marked."""
        frame = self.frame or b""
        if self.was_sent and frame.startswith(_SEND):
            frame = _SEND_AGAIN + frame.removeprefix(_SEND)
        self.was_sent = True
        return frame


class Unconfirmed:
    """Receipts waited for, in the order of sending, which is that of their deadlines too.

    A frame given to `expect` may be sent again until it was without a connection for `lifetime_s` (`expire`;
    None: for ever). `room` is set while fewer than `most` are waited for. Assumes a running loop.
    """

    def __init__(self, most: int, lifetime_s: float | None) -> None:
        self.lifetime_s = lifetime_s
        self.room = asyncio.Event()
        self.room.set()
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._pending: dict[bytes, _Pending] = {}
        self._suspect = b""  # see `suspect`

    def __len__(self) -> int:
        return len(self._pending)

    def new_receipt(self) -> bytes:
        """A name for the next receipt, unlike all before."""
        return b"%d" % next(self._numbers)

    def expect(
        self, receipt: bytes, frame: bytes | None = None, *, was_sent: bool = True
    ) -> "asyncio.Future[None]":
        """A future of `receipt`; with `frame` it survives the connection. `was_sent` is False if there was no
        connection to send it on."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._pending[receipt] = _Pending(answer, frame, self._deadline(), was_sent)
        if len(self._pending) >= self._most:
            self.room.clear()
        return answer

    def confirm(self, receipts: Iterable[bytes]) -> None:
        pending = self._pending
        for receipt in receipts:
            waiting = pending.pop(receipt, None)
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(None)
        self._make_room()

    def fail(self, receipt: bytes, error: Exception) -> bool:
        """Fail a receipt. Returns False if it was not expected."""
        waiting = self._pending.pop(receipt, None)
        if waiting is None:
            return False
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
        self._make_room()
        return True

    def fail_all(self, error: Exception) -> None:
        for receipt in list(self._pending):
            self.fail(receipt, error)

    def suspect(self, error: Exception) -> None:
        """The broker has ended the connection because of a frame that it did not name, after it had answered
        all before it. If that happens twice to the same first frame, this one fails with `error`."""
        first = next((receipt for receipt, one in self._pending.items() if one.frame is not None), b"")
        if first and first == self._suspect:
            self.fail(first, error)
        self._suspect = first

    def drop_frame(self, receipt: bytes) -> None:
        """Do not send it again."""
        if receipt in self._pending:
            self._pending[receipt].frame = None

    def connection_lost(self, error: Exception) -> None:
        """Fail what made sense on that connection only; the rest is without a connection from now on."""
        for receipt in [receipt for receipt, pending in self._pending.items() if pending.frame is None]:
            self.fail(receipt, error)
        for pending in self._pending.values():
            pending.deadline = self._deadline()

    def frames_to_resend(self) -> Iterator[bytes]:
        """The frames for the next connection; not those whose sender has cancelled them."""
        for receipt in [receipt for receipt, pending in self._pending.items() if pending.answer.cancelled()]:
            del self._pending[receipt]
        self._make_room()
        return (pending.to_resend() for pending in self._pending.values() if pending.frame is not None)

    async def expire(self, error: Exception) -> None:
        """Fail with `error` what reaches its deadline; ends by being cancelled."""
        while self.lifetime_s is not None:
            now = self._loop.time()
            for receipt, pending in list(self._pending.items()):
                if pending.deadline > now:
                    break
                self.fail(receipt, error)
            oldest = next(iter(self._pending.values()), None)
            await asyncio.sleep(self.lifetime_s if oldest is None else oldest.deadline - now)

    def _deadline(self) -> float:
        return self._loop.time() + (math.inf if self.lifetime_s is None else self.lifetime_s)

    def _make_room(self) -> None:
        if len(self._pending) < self._most:
            self.room.set()
