"""The number of messages that only this broker has, in memory: those that are not recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from broker_app.core.broker import Broker
from broker_app.core.model import Queue

#: seconds of the loop that one step takes
STEP_S: Final = 0.002


class UnrecordedCount:
    """Counts the queues of a broker in steps; `total` is that of the last round that is complete."""

    def __init__(self, broker: Broker) -> None:
        self._queues = broker.destinations.queues
        self._left: Iterator[Queue] = iter(())
        self._is_complete = True
        self._counted = 0
        self.total = 0

    def step(self, step_s: float = STEP_S) -> None:
        """Count for so long, and one queue at least."""
        if self._is_complete:
            self._left, self._counted, self._is_complete = iter(list(self._queues.values())), 0, False
        end = time.monotonic() + step_s
        for queue in self._left:
            self._counted += queue.unrecorded
            if time.monotonic() >= end:
                return
        self.total, self._is_complete = self._counted, True

    def count_all(self) -> None:
        """Count all queues at once, as they are now."""
        self.total, self._is_complete = sum(queue.unrecorded for queue in self._queues.values()), True
