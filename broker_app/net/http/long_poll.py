"""Requests that wait for messages: their limit, and what ends them early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.core.destination import Destination
from broker_app.net.auth.login import Identity
from broker_app.net.http.limits import RestLimits
from broker_app.net.policy.access import Access, Client
from broker_app.rules.event import RECEIVE


class WaitingRequest:
    """One waiting request; if it waits at `source`, its client needs `right` there. `woken` is set when
    something arrived, and when it was `ended`; `refusal` is the reason, if its client lost the right or the
    broker has ended its subscription."""

    __slots__ = ("client", "ended", "refusal", "right", "source", "woken")

    def __init__(self, client: Client, source: Destination | None, right: str) -> None:
        self.client = client
        self.source = source
        self.right = right
        self.woken = asyncio.Event()
        self.ended = False
        self.refusal: Refused | None = None

    def end(self, refusal: Refused | None = None) -> None:
        """End the wait, by `refusal` or because the node stops."""
        self.refusal = self.refusal or refusal
        self.ended = True
        self.woken.set()


class WaitingRequests:
    """All waiting requests of a REST API, as many as its limits allow. `is_admin` returns True for those who
    may use the reserve."""

    def __init__(self, limits: RestLimits, is_admin: Callable[[Identity], bool]) -> None:
        self._is_admin = is_admin
        self._shares = Shares(
            lambda: limits.max_waiting, "requests that wait for messages", "end some, or send it again later"
        )
        self._waits: set[WaitingRequest] = set()
        self.stopped = False
        #: why those that begin later end at once
        self._refusal: Refused | None = None

    def enter(
        self, client: Client, source: Destination | None = None, right: str = RECEIVE
    ) -> WaitingRequest:
        """Raises Refused when too many wait. Each `enter` needs a `leave`."""
        self._shares.take(client.identity.user, admin=self._is_admin(client.identity))
        wait = WaitingRequest(client, source, right)
        if self.stopped:
            wait.end(self._refusal)
        self._waits.add(wait)
        return wait

    def leave(self, wait: WaitingRequest) -> None:
        if wait in self._waits:
            self._waits.remove(wait)
            self._shares.add(wait.client.identity.user, -1)

    @property
    def receiving(self) -> int:
        """The number of those that wait to receive messages."""
        return sum(wait.right == RECEIVE and wait.source is not None for wait in self._waits)

    def end_receiving(self, refusal: Callable[[], Refused | None]) -> None:
        """End the waits to receive messages, each by a refusal of its own."""
        for wait in self._waits:
            if wait.right == RECEIVE and wait.source is not None:
                wait.end(refusal())

    def stop(self, refusal: Refused | None = None) -> None:
        """End all waits, and those that begin later, by `refusal` or because the node stops."""
        self.stopped, self._refusal = True, refusal
        for wait in self._waits:
            wait.end(refusal)

    @property
    def identities(self) -> Iterator[Identity]:
        """The identities of waiting requests."""
        return (wait.client.identity for wait in self._waits)

    def recheck_permissions(self, access: Access) -> None:
        """End the waits of clients that may not log in or not receive there any more."""
        for wait in self._waits:
            refusal = access.login_refusal(wait.client)
            if refusal is None and wait.source is not None:
                refusal = access.refusal(wait.client, wait.right, wait.source)
            if refusal is not None:
                wait.end(refusal)
