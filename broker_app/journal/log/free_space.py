"""The space that may still be written, known before a commit would fail.

A batch that finds no space has already changed the broker's memory. So new messages are refused while
there is still place for the records that settle the waiting ones, and for the snapshot that lets their
space come back. What counts is what is allocated already; free space of the file system is added as long as
the journal gets what it asks for, because others may take that at any moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.worker import CallSoon

TICK_S = 1.0


def free_bytes(files: Files) -> int | None:
    """The free bytes of a directory's file system; None if they cannot be measured."""
    try:
        return files.free_bytes()
    except JournalFailed:
        return None


class FreeSpace:
    """The level, with hysteresis: short when `keep` bytes are left, until there are twice as many."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.short = False
        self._free = 0  # bytes of the file system, when it was measured, less what was taken since

    def measured(self, free: int) -> None:
        """Update the free bytes of the file system."""
        self._free = free

    def take(self, size: int) -> None:
        """Bytes of the file system were allocated."""
        self._free = max(0, self._free - size)

    def left(self, allocated: int, largest: int, *, starved: bool) -> int:
        """Bytes that new messages may take in one batch, 0 while short.

        `allocated` are the journal's own and not written yet, `largest` those of them in one file; `starved`:
        when it asked for more, it got none.
        """
        free = 0 if starved else self._free
        left = allocated + free - self.keep
        self.short = left < self.keep if self.short else left <= 0
        return 0 if self.short else min(left, largest + free)


class SpaceMonitor:
    """Measures the free space every second in a thread of its own; without a loop, when `check` is called.

    `measure` returns the free bytes, or None if that cannot be known; `report` is called with them.
    """

    def __init__(
        self,
        measure: Callable[[], int | None],
        call_soon_threadsafe: CallSoon | None,
        report: Callable[[int | None], None],
    ) -> None:
        self._measure = measure
        self._call_soon = call_soon_threadsafe
        self._report = report
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Measure at once, and from now on."""
        self.check()
        if self._call_soon is not None:
            self._thread = threading.Thread(target=self._run, name="journal-watch", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Measure and report in the caller's thread."""
        self._report(self._measure())

    def close(self) -> None:
        """Stop measuring."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        assert self._call_soon is not None
        while not self._closing.wait(TICK_S):
            try:
                self._call_soon(self._report, self._measure())
            except RuntimeError:  # the loop is closed
                return
