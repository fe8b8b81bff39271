"""Requests that wait for messages: how many there may be, and what ends them early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker_app.core.destination import Destination
from broker_app.core.errors import Refused
from broker_app.net.access import Access, Client
from broker_app.net.login import Identity
from broker_app.net.rest.refusals import busy
from broker_app.rules.event import RECEIVE


class Wait:
    """One waiting request, for what comes to `source` if to anything. `woken` is set when something arrived,
    and when it was `ended`; `refusal` is why, where its client lost the right to wait."""

    __slots__ = ("client", "ended", "refusal", "source", "woken")

    def __init__(self, client: Client, source: Destination | None) -> None:
        self.client = client
        self.source = source
        self.woken = asyncio.Event()
        self.ended = False
        self.refusal: Refused | None = None

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

    def enter(self, client: Client, source: Destination | None = None) -> Wait:
        """Refusal when too many wait. Whoever enters leaves."""
        if len(self._waits) >= self._most:
            raise busy(f"{self._most} requests wait for messages already")
        wait = Wait(client, source)
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

    def look_again(self, access: Access, still_known: Callable[[Identity], bool]) -> None:
        """End the waits of those who may not log in any more, or not receive from there."""
        for wait in self._waits:
            identity = wait.client.identity
            if not still_known(identity):
                wait.refusal = Refused(
                    "not-authenticated", f"the login of {identity.user} is no longer valid"
                )
                wait.end()
            elif wait.source is not None:
                try:
                    access.check(wait.client, RECEIVE, wait.source)
                except Refused as refusal:
                    wait.refusal = refusal
                    wait.end()
