"""The state of the broker towards its clients: whether it takes new ones, and whether it serves any.

A quiesced broker refuses new clients and goes on with those it has. A paused one reads nothing from clients
and delivers nothing to them. Neither is kept over a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from broker_app.base.events import (
    PAUSE,
    QUIESCE,
    RESTART,
    RESUME,
    SHUTDOWN,
    SHUTDOWN_PLANNED,
    UNQUIESCE,
    Event,
)
from broker_app.base.internal_errors import EventListeners
from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339

#: as OpenMQ calls them. QUIESCE_COMPLETE: no client is connected any more
OPERATING, QUIESCE_STARTED, QUIESCE_COMPLETE, SHUTDOWN_STARTED = STATES = (
    "OPERATING",
    "QUIESCE_STARTED",
    "QUIESCE_COMPLETE",
    "SHUTDOWN_STARTED",
)
#: codes of refusals, and what an operation of the REST API is refused while
QUIESCED, PAUSED = "quiesced", "paused"
#: code of the refusals of new clients while the broker takes over from another one
TAKING_OVER = "taking-over"
#: code of the refusals of a broker that waits for the keeper of its cluster
MASTER_UNAVAILABLE = "master-unavailable"


class Order(NamedTuple):
    """User and reason of an order, and when it came (seconds since 1970)."""

    user: str
    reason: str
    at_s: float

    def shown(self) -> dict[str, Any]:
        """The order for the API."""
        return {"by": self.user, "reason": self.reason, "at": rfc3339(self.at_s)}


class PlannedShutdown(NamedTuple):
    """An order to shut the broker down at `due_s` (seconds since 1970)."""

    order: Order
    due_s: float
    no_failover: bool


class BrokerState:
    """Belongs to the loop. `name` is the broker's."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        self._name = name
        self._clock = clock
        #: the order by which new clients are refused; None while they are not
        self.quiesced: Order | None = None
        #: the order by which clients are not served; None while they are
        self.paused: Order | None = None
        #: the shutdown to come, until which the broker is quiesced
        self.planned: PlannedShutdown | None = None
        self.is_stopping = False
        #: returns why no client can be served yet; empty when they can
        self.waiting: Callable[[], str] = str
        #: returns why new clients are refused for a moment; empty when they are not
        self.taking_over: Callable[[], str] = str
        #: whether other brokers take over from this one when it stops, and whether they are not to do it
        self.is_taken_over = self.keeps_messages = False
        #: whether it starts again when it has stopped
        self.restarts = False
        #: returns the addresses of brokers to which new clients may go
        self.other_addresses: Callable[[], Sequence[str]] = tuple
        #: returns where one of them answers HTTP; empty if that is not known
        self.other_web: Callable[[], str] = str
        #: called with each order's event when it has happened, and with its order
        self.listeners: EventListeners[[Event, Order]] = EventListeners("the listeners of the broker's state")

    def shown_as(self, connections: int) -> str:
        """The state of a broker with so many connections of clients."""
        if self.is_stopping:
            return SHUTDOWN_STARTED
        if self.quiesced is None:
            return OPERATING
        return QUIESCE_STARTED if connections else QUIESCE_COMPLETE

    # ------------------------------------------------------------------ orders

    def quiesce(self, user: str, reason: str) -> None:
        """Refuse new clients from now on."""
        if self.quiesced is None:
            self.quiesced = self._order(user, reason)
            self.listeners(QUIESCE, self.quiesced)

    def unquiesce(self, user: str, reason: str) -> None:
        """Take new clients again. A shutdown that was planned is called off."""
        self.planned = None
        if self.quiesced is not None:
            self.quiesced = None
            self.listeners(UNQUIESCE, self._order(user, reason))

    def pause(self, user: str, reason: str) -> None:
        """Serve no clients from now on."""
        if self.paused is None:
            self.paused = self._order(user, reason)
            self.listeners(PAUSE, self.paused)

    def resume(self, user: str, reason: str) -> None:
        """Serve clients again."""
        if self.paused is not None:
            self.paused = None
            self.listeners(RESUME, self._order(user, reason))

    def plan_shutdown(
        self, user: str, reason: str, delay_s: float, *, no_failover: bool = False
    ) -> PlannedShutdown:
        """Quiesce the broker, which an operator wants to end in `delay_s`. It takes the place of a shutdown
        that was planned before. Raises Refused."""
        self._check_failover(no_failover=no_failover)
        if self.is_stopping:
            raise Refused("conflict", f"broker {self._name} stops already")
        order = self._order(user, reason)
        self.planned = PlannedShutdown(order, self._clock() + delay_s, no_failover)
        self.listeners(SHUTDOWN_PLANNED, order)
        self.quiesce(user, reason)
        return self.planned

    @property
    def left_s(self) -> float | None:
        """Seconds until the shutdown that is planned; None without one."""
        return max(0.0, self.planned.due_s - self._clock()) if self.planned is not None else None

    def stop(self, user: str, reason: str, *, restart: bool, no_failover: bool = False) -> None:
        """Note that an operator ends the broker; with `no_failover` none takes over. Raises Refused."""
        self._check_failover(no_failover=no_failover)
        self.planned = None
        self.is_stopping, self.restarts, self.keeps_messages = True, restart, no_failover
        self.listeners(RESTART if restart else SHUTDOWN, self._order(user, reason))

    def _check_failover(self, *, no_failover: bool) -> None:
        """Raise Refused if there are none that are to be kept from taking over."""
        if no_failover and not self.is_taken_over:
            raise Refused(
                "conflict",
                f"broker {self._name} is no member of an enhanced cluster, whose others would take over: "
                "leave no_failover out; `mom mirror pause` keeps a mirror from taking over",
            )

    def _order(self, user: str, reason: str) -> Order:
        return Order(user, reason, self._clock())

    # ------------------------------------------------------------------ refusals

    @property
    def is_refusing(self) -> bool:
        """True while new clients are refused."""
        ordered = self.quiesced is not None or self.paused is not None
        return ordered or self.waiting() != "" or self.taking_over() != ""

    def check(self, states: Container[str] = (PAUSED, QUIESCED)) -> None:
        """Raise Refused if the broker is in one of these states."""
        refusal = self.refusal(states)
        if refusal is not None:
            raise refusal

    def refusal(self, states: Container[str]) -> Refused | None:
        """The refusal of what is refused in these states; None if the broker is in none of them."""
        if self.paused is not None and PAUSED in states:
            return self._refusal(PAUSED, "serves no clients", "resume", self.paused)
        if self.quiesced is not None and QUIESCED in states:
            return self._refusal(QUIESCED, "takes no new clients", "unquiesce", self.quiesced)
        if QUIESCED in states and (why := self.taking_over()):
            return self.elsewhere(TAKING_OVER, f"broker {self._name} {why}", "connect again in a moment")
        if why := self.waiting():
            return self.elsewhere(MASTER_UNAVAILABLE, f"broker {self._name} {why}", "connect again later")
        return None

    def check_ready(self) -> None:
        """Raise Refused if load balancers should send clients elsewhere; the answer is for anybody."""
        for code, order in ((PAUSED, self.paused), (QUIESCED, self.quiesced)):
            if order is not None:
                raise Refused(code, f"the broker is {code} by an administrator")
        if self.taking_over():
            raise Refused(TAKING_OVER, "the broker takes over from another one")
        if self.waiting():
            raise Refused(MASTER_UNAVAILABLE, "the broker waits for the master broker of its cluster")

    def _refusal(self, code: str, does: str, end: str, order: Order) -> Refused:
        why = f" ({order.reason})" if order.reason else ""
        state = f"broker {self._name} is {code}{why} and {does}"
        return self.elsewhere(code, state, f"connect again later; `mom broker {end} {self._name}` ends it")

    def elsewhere(self, code: str, state: str, fix: str) -> Refused:
        """A refusal because of a `state`: with the addresses of other brokers, or a fix if there are none."""
        addresses = self.other_addresses()
        if not addresses:
            return Refused(code, f"{state}: {fix}")
        detail = f"{state}: connect to {' or '.join(addresses)}"
        web = self.other_web()
        return Refused(code, detail, active=",".join(addresses), **({"web": web} if web else {}))
