"""Taps: watchers of the messages that arrive at a destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker_app.core.message import Message


class Watcher(Protocol):
    """Watches the messages of one destination. Its methods return True when it wants no more of them until it
    is added again."""

    def note(self, message: Message) -> bool:
        """A message arrived."""

    def note_returned(self, message: Message) -> bool:
        """A message that was delivered waits again."""


class Tap:
    """Collects up to `credit` messages until they are taken, and counts those beyond; `notify` is called for
    the first of them."""

    __slots__ = ("_notify", "credit", "messages", "skipped")

    def __init__(self, credit: int, notify: Callable[[], None]) -> None:
        self.credit = credit
        self.messages: list[Message] = []
        self.skipped = 0
        self._notify = notify

    def note(self, message: Message) -> bool:
        """Collect or count a message."""
        if len(self.messages) < self.credit:
            self.messages.append(message)
            if len(self.messages) == 1:
                self._notify()
        else:
            self.skipped += 1
        return False

    def note_returned(self, message: Message) -> bool:
        """Do nothing: the message was collected when it arrived."""
        return False

    def take(self) -> tuple[list[Message], int]:
        """The messages since the last call, and the number of those beyond the credit."""
        taken = self.messages, self.skipped
        self.messages, self.skipped = [], 0
        return taken


class Taps(dict[str, dict[Watcher, None]]):
    """All taps, by address. Few destinations have any, so that most messages pay only for a look into the
    table."""

    def add(self, address: str, tap: Watcher) -> None:
        """Add a tap of a destination."""
        self.setdefault(address, {})[tap] = None

    def remove(self, address: str, tap: Watcher) -> None:
        """Remove a tap, which may have wanted no more messages before."""
        taps = self.get(address, {})
        taps.pop(tap, None)
        if not taps:
            self.pop(address, None)

    def note(self, address: str, message: Message) -> None:
        """Pass a message to the taps of `address`, which has some."""
        for tap in [tap for tap in self[address] if tap.note(message)]:
            self.remove(address, tap)

    def note_returned(self, address: str, message: Message) -> None:
        """Pass a message that waits again to the taps of `address`, which has some."""
        for tap in [tap for tap in self[address] if tap.note_returned(message)]:
            self.remove(address, tap)
