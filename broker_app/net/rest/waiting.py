"""Requests that wait for messages: how many there may be, and what ends them early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker_app.net.login import Identity
from broker_app.net.rest.refusals import busy


class Wait:
    """One waiting request. `woken` is set when something arrived, and when it was `ended`."""

    __slots__ = ("ended", "identity", "woken")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.woken = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        """It waits no longer, whatever has arrived."""
        self.ended = True
        self.woken.set()


class Waiting:
    """All waiting requests of a plane, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waits: set[Wait] = set()
        self.stopped = False

    def enter(self, identity: Identity) -> Wait:
        """Refusal when too many wait. Whoever enters leaves."""
        if len(self._waits) >= self._most:
            raise busy(f"{self._most} requests wait for messages already")
        wait = Wait(identity)
        if self.stopped:
            wait.end()
        self._waits.add(wait)
        return wait

    def leave(self, wait: Wait) -> None:
        self._waits.discard(wait)

    def stop(self) -> None:
        """Nobody waits any longer, and who enters does not begin to."""
        self.stopped = True
        for wait in self._waits:
            wait.end()

    def end_unknown(self, still_known: Callable[[Identity], bool]) -> None:
        """End the waits of those who may not log in any more."""
        for wait in self._waits:
            if not still_known(wait.identity):
                wait.end()
