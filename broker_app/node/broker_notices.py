"""Notices of orders about the whole broker, for the event log."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.net.broker_state import QUIESCE_COMPLETE, BrokerState, Order
from broker_app.telemetry.event_log import BROKER, EventLog


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

    def ordered(self, event: str, order: Order) -> None:
        """An administrator has ordered something."""
        why = f": {order.reason}" if order.reason else ""
        self._events.note(BROKER, self._name, event, detail=f"by {order.user}{why}")

    def each_second(self) -> None:
        """Report once that no client is connected any more."""
        quiesced = self._state.quiesced
        if quiesced is None or quiesced is self._complete:
            return
        if self._state.shown_as(self._connections()) == QUIESCE_COMPLETE:
            self._complete = quiesced
            detail = "no client is connected any more"
            self._events.note(BROKER, self._name, "quiesce complete", detail=detail)
