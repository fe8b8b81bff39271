"""The wish that a run should stop, by a signal or from the console."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """Ends work in the middle, because a stop was requested."""


class Stop:
    """Requested once; the run looks at it between batches, or is interrupted."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._interrupt: Callable[[], object] = lambda: None
        self.reason = ""

    @property
    def requested(self) -> bool:
        """Return whether the run should end."""
        return self._event.is_set()

    def request(self, reason: str) -> None:
        """Have the run end."""
        if not self.requested:
            self.reason = reason
            self._event.set()
            # A handler of a signal must not wait for what the interrupted thread holds.
            threading.Thread(target=self._interrupt, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for the request at most so long; return whether it came."""
        return self._event.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises Stopped as soon as a stop is requested, or when it was."""
        if self.wait(seconds):
            raise Stopped(self.reason)

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Have a request call `interrupt`, while work is done that cannot look at it."""
        self._interrupt = interrupt
        try:
            yield
        finally:
            self._interrupt = lambda: None

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as requests; the second one ends the process at once."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def handle(number: int, frame: FrameType | None) -> None:
            for each, handler in before.items():
                signal.signal(each, handler)
            self.request(signal.Signals(number).name)

        for number in before:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
