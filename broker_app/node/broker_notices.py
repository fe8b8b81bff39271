"""Notices of orders about the whole broker, for the event log."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.base.events import QUIESCED, Event
from broker_app.net.broker_state import QUIESCE_COMPLETE, BrokerState, Order
from broker_app.telemetry.event_log import EventLog


class BrokerNotices:
    """Writes into `events`. `connections` returns how many connections of clients there are."""

    def __init__(
        self, name: str, state: BrokerState, events: EventLog, connections: Callable[[], int]
    ) -> None:
        self._name = name
        self._state = state
        self._events = events
        self._connections = connections
        #: the order to quiesce that was seen to be complete
        self._complete: Order | None = None

    def ordered(self, event: Event, order: Order) -> None:
        """An administrator has ordered something."""
        detail = f"{order.user}: {order.reason}" if order.reason else order.user
        self._events.report(event, self._name, detail=detail)

    def each_second(self) -> None:
        """Report once that no client is connected any more."""
        quiesced = self._state.quiesced
        if quiesced is None or quiesced is self._complete:
            return
        if self._state.shown_as(self._connections()) == QUIESCE_COMPLETE:
            self._complete = quiesced
            self._events.report(QUIESCED, self._name)
