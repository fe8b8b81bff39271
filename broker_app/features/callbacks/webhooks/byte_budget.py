"""The bytes of bodies that are being pushed: of one callback, and of all together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MIB: Final = 1024 * 1024
#: beyond it a callback takes no more messages, until half of it is free; one message is always taken
MAX_OF_CALLBACK: Final = 8 * MIB
MAX_OF_ALL: Final = 64 * MIB


class ByteBudget:
    """The bytes of all callbacks together."""

    def __init__(self, most: int = MAX_OF_ALL) -> None:
        self._most = most
        self._used = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def exhausted(self) -> bool:
        """True if no more should be taken."""
        return self._used > self._most

    def take(self, size: int) -> None:
        """Count bytes."""
        self._used += size

    def give(self, size: int) -> None:
        """Count bytes that are free again, and resume those that wait when enough are."""
        self._used -= size
        if self._waiting and 2 * self._used <= self._most:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting:
                resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room."""
        self._waiting.setdefault(resume)

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)
