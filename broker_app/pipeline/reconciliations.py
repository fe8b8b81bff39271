"""Results of reconciliation: how many messages are in each state, and the ones that are not ok."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from broker_app.base import states
from broker_app.base.refused import Refused
from broker_app.pipeline import database, runs
from broker_app.pipeline.models import Reconciliation

#: as `mom_pipeline.jobs.reconcile` has them
STATES: Final = tuple(states.RECONCILED)
#: those that are errors of forwarding
DIFFERENCES: Final = ("lost", "doubled", "foreign")
#: messages in a report; the file of the run has all
MOST_ROWS: Final = 1_000


def store(
    name: str,
    run_id: str,
    states: Mapping[str, int],
    file: str,
    rows: Sequence[Mapping[str, Any]],
    now: datetime,
) -> Reconciliation:
    """Replace the result of a run. Raises Refused: not-found, or conflict when another run has the name."""
    run = runs.reporting(name, run_id)
    facts = {"states": dict(states), "file": file, "rows": [dict(row) for row in rows], "reported": now}
    found, _ = Reconciliation.objects.update_or_create(run=run, defaults=facts)
    return found


def find(name: str) -> Reconciliation:
    """The newest result under a name. Raises Refused("not-found")."""
    run = runs.find(name)
    found = Reconciliation.objects.filter(run=run).first()
    if found is None:
        raise Refused("not-found", f"no result of {name!r} was reported"[:300])
    return found


def counts() -> dict[str, dict[str, int]]:
    """By run the number of messages in each state."""
    if not database.is_created():
        return {}
    return dict(Reconciliation.objects.values_list("run__name", "states"))


def shown(found: Reconciliation) -> dict[str, object]:
    """A result as JSON."""
    return {
        "reported": found.reported.isoformat(),
        "states": found.states,
        "file": found.file,
        "rows": found.rows,
    }
