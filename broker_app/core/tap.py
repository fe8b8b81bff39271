"""Taps: watchers of the messages that arrive at a destination. Beyond the credit, messages are only
counted."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.core.message import Message


class Tap:
    """Collects up to `credit` messages until they are taken; `notify` is called for the first of them."""

    __slots__ = ("_notify", "credit", "messages", "skipped")

    def __init__(self, credit: int, notify: Callable[[], None]) -> None:
        self.credit = credit
        self.messages: list[Message] = []
        self.skipped = 0
        self._notify = notify

    def note(self, message: Message) -> None:
        """Collect or count a message."""
        if len(self.messages) < self.credit:
            self.messages.append(message)
            if len(self.messages) == 1:
                self._notify()
        else:
            self.skipped += 1

    def take(self) -> tuple[list[Message], int]:
        """The messages since the last call, and the number of those beyond the credit."""
        taken = self.messages, self.skipped
        self.messages, self.skipped = [], 0
        return taken


class Taps(dict[str, list[Tap]]):
    """All taps, by address. It is usually empty, so that messages pay only a check for taps."""

    def add(self, address: str, tap: Tap) -> None:
        """Add a tap of a destination."""
        self.setdefault(address, []).append(tap)

    def remove(self, address: str, tap: Tap) -> None:
        """Remove a tap."""
        self[address].remove(tap)
        if not self[address]:
            del self[address]

    def note(self, address: str, message: Message) -> None:
        """Pass a message to the taps of `address`."""
        for tap in self.get(address, ()):
            tap.note(message)
