"""Taps: what comes to a destination, for who watches. As many as the credit covers; of others, the number."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.core.message import Message


class Tap:
    """Notes up to `credit` messages until they are taken; `wake` is called at the first of them."""

    __slots__ = ("_wake", "credit", "messages", "skipped")

    def __init__(self, credit: int, wake: Callable[[], None]) -> None:
        self.credit = credit
        self.messages: list[Message] = []
        self.skipped = 0
        self._wake = wake

    def note(self, message: Message) -> None:
        if len(self.messages) < self.credit:
            self.messages.append(message)
            if len(self.messages) == 1:
                self._wake()
        else:
            self.skipped += 1

    def take(self) -> tuple[list[Message], int]:
        """What was noted since it was last taken, and how many more there were."""
        taken = self.messages, self.skipped
        self.messages, self.skipped = [], 0
        return taken


class Taps(dict[str, list[Tap]]):
    """All taps, by address. It is empty as a rule: that is all that a message pays for them."""

    def add(self, address: str, tap: Tap) -> None:
        self.setdefault(address, []).append(tap)

    def remove(self, address: str, tap: Tap) -> None:
        self[address].remove(tap)
        if not self[address]:
            del self[address]

    def note(self, address: str, message: Message) -> None:
        """A message came to `address`."""
        for tap in self.get(address, ()):
            tap.note(message)
