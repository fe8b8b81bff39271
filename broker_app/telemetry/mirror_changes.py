"""The status of mirrors for its system topic: at once when a state changes, figures every few seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_app.base.reply_types import Facts

#: seconds between two reports of figures
PAUSE_S: Final = 5.0


class MirrorChanges:
    """Remembers the last report. `read` returns the status, None if the journal is not shared."""

    def __init__(self, read: Callable[[], Facts | None]) -> None:
        self.read = read
        self._state: Any = None
        self._at_s = 0.0

    def due(self, now_s: float) -> Facts | None:
        """The status if it is to be published now, which is then remembered as published."""
        status = self.read()
        if status is None:
            return None
        state = _state(status)
        if state == self._state and now_s - self._at_s < PAUSE_S:
            return None
        self._state, self._at_s = state, now_s
        return status

    def forget(self) -> None:
        """There are no subscribers any more."""
        self._state = None


def _state(status: Facts) -> Any:
    """The part of the status that is reported at once."""
    lease = status["lease"]
    brokers = [(one["id"], one["state"], one["in_step"]) for one in status["brokers"]]
    return status["state"], status["successor"], lease and lease["epoch"], brokers
