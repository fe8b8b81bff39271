"""The budget of bytes for messages that are read back: one for all who read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

#: bytes of messages that one reader reads in a turn; a larger message is read alone
READ_BYTES: Final = 8 * 1024 * 1024
#: messages that are chosen by their positions in a turn: each may be in a place of its own
READ_POSITIONS: Final = 64
#: bytes of messages that all readers together may be reading
NODE_BYTES: Final = 64 * 1024 * 1024


class _Waiting(NamedTuple):
    size: int
    begin: Callable[[], None]


class ReadBudget:
    """Those who want more than is left wait, and begin in the order in which they came. A message that is
    larger than the budget is read when nothing else is."""

    def __init__(self, limit: int = NODE_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[_Waiting] = deque()

    def take(self, size: int, begin: Callable[[], None]) -> None:
        """Call `begin` as soon as so many bytes may be read; `give_back` must follow."""
        self._waiting.append(_Waiting(size, begin))
        self._begin()

    def give_back(self, size: int) -> None:
        """Let others read: what was read is no longer needed, or has an owner who counts it."""
        self._used -= size
        self._begin()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait for so many bytes, and have them for the length of the `with` block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if turn.done():  # cancelled while it waited
                self.give_back(size)
            else:
                turn.set_result(None)

        self.take(size, begin)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had its turn already
                self.give_back(size)
            raise
        try:
            yield
        finally:
            self.give_back(size)

    def _begin(self) -> None:
        while self._waiting and (not self._used or self._used + self._waiting[0].size <= self._limit):
            size, begin = self._waiting.popleft()
            self._used += size
            begin()
