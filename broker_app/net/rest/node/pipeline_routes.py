"""Routes of the data pipeline. The data plane serves the journal, its cursors and stored statistics; the
control plane serves what jobs report."""

from __future__ import annotations

from typing import Final

from broker_app.net.http.routing import Route, Router
from broker_app.net.rest.destinations.stored_history import StoredHistoryEndpoint
from broker_app.net.rest.journal.cursors import CursorEndpoints
from broker_app.net.rest.journal.frames import JournalEndpoints, add_journal

_CURSORS: Final = (b"pipeline", b"cursors")
_RUNS: Final = (b"pipeline", b"runs")
#: methods of the control plane
_DELEGATED: Final = (
    (("GET",), Route(_RUNS)),
    (("POST",), Route(_RUNS, (b"report",), True)),
    (("POST",), Route(_RUNS, (b"stop",), True)),
    (("GET", "PUT"), Route(_RUNS, (b"reconciliation",), True)),
    (("GET", "PUT", "DELETE"), Route(_RUNS, (), True)),
    (("GET", "POST"), Route((b"pipeline", b"statistics"))),
)


def add_pipeline(
    router: Router,
    journal: JournalEndpoints,
    cursors: CursorEndpoints,
    history: StoredHistoryEndpoint,
    *,
    control: bool,
) -> None:
    """Add the routes; with `control`, those of the control plane are left to it."""
    add_journal(router, journal)
    router.add("GET", Route(_CURSORS), cursors.all)
    router.add("GET", Route(_CURSORS, (), True), cursors.one)
    router.add("PUT", Route(_CURSORS, (), True), cursors.put)
    router.add("DELETE", Route(_CURSORS, (), True), cursors.drop)
    router.add("GET", Route((b"queues",), (b"history",), True, "queue"), history.of_queue)
    router.add("GET", Route((b"topics",), (b"history",), True, "topic"), history.of_topic)
    if control:
        for methods, route in _DELEGATED:
            router.delegate(methods, route)
