"""Busy polling: keep the event loop awake for a moment when the next command is likely to come within it.

A client that waits for a reply before it sends again leaves the loop idle for some tens of microseconds.
To suspend and resume the thread costs more than that, above all in a virtual machine. So after a reply the
loop polls for input for a moment without sleeping. Where the next command usually arrives later, it soon
stops polling, and tries again once in a while.
"""

from __future__ import annotations

import asyncio
import time

#: how long to stay awake for the next command
MOMENT_S = 100e-6
#: successes that outweigh as many failures
TRUST = 8
#: without trust, one in so many occasions is tried
RARELY = 64


class BusyPoll:
    """Keeps `loop` awake. The engine calls `start` when it has answered and is idle, and `hit` when a
    command arrives while `awake`."""

    __slots__ = ("_loop", "_occasions", "_trust", "_until", "awake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._trust = 0
        self._occasions = 0
        self._until = 0.0
        self.awake = False

    def start(self) -> None:
        """A client was answered; its next command may follow at once."""
        if self.awake:
            return
        if not self._trust:
            self._occasions += 1
            if self._occasions % RARELY:
                return
        self.awake = True
        self._until = time.perf_counter() + MOMENT_S
        self._loop.call_soon(self._poll)

    def hit(self) -> None:
        """A command arrived in time."""
        self.awake = False
        if self._trust < TRUST:
            self._trust += 2

    def _poll(self) -> None:
        if not self.awake:
            return
        if time.perf_counter() < self._until:
            self._loop.call_soon(self._poll)  # the loop takes input between two calls
            return
        self.awake = False
        if self._trust:
            self._trust -= 1
