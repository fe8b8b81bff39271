"""`mom pipeline ls`, `lag` and `stop`: runs on any machine, as the broker knows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from broker_app.cli.base import invocation
from broker_app.cli.base.failures import FAILED, Failure

if TYPE_CHECKING:
    from broker_app.cli.base.rest import Rest

_RUNS = (
    "name", "job", "health", "state", "rows", "rows_per_s", "lag", "lag_s", "host", "started", "reported",
    "error",
)  # fmt: skip
_LAGS = ("name", "broker", "position", "lag", "lag_s", "reported", "state", "lost")
#: states of a run that has not ended
_LIVE = ("starting", "running", "idle", "stopping")
_POLL_S = 0.5
#: a batch that is running has 30 s to end, and a session some more
_STOP_S = 60.0


def list_runs(ctx: typer.Context) -> None:
    """List the runs of jobs: the newest of each name.

    The state is `lost` when a run has not reported for 30 seconds, such as one that was killed.
    """
    given = invocation.of(ctx)
    given.output.rows(_RUNS, given.rest().get("/pipeline/runs")["items"], whole=True)


def lag(ctx: typer.Context) -> None:
    """Show how far each run and cursor has read, and how many positions and seconds are behind it.

    A cursor keeps the journal for its program. `lost` are positions that it has not read in time.
    """
    given = invocation.of(ctx)
    given.output.rows(_LAGS, list(_lags(given.rest())))


def stop(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="name of the run")],
    wait: Annotated[bool, typer.Option("--wait", help="wait until it has ended")] = False,
) -> None:
    """Have a run end after its batch, on whatever machine it is."""
    given = invocation.of(ctx)
    rest = given.rest()
    path = f"/pipeline/runs/{quote(name, safe='')}"
    run = rest.call("POST", f"{path}/stop")
    end = time.monotonic() + _STOP_S
    while wait and run["state"] in _LIVE:
        if time.monotonic() > end:
            fix = f"see its output on {run['host']}"
            raise Failure(FAILED, f"{name} still runs after {_STOP_S:.0f} s", fix=fix)
        time.sleep(_POLL_S)
        run = rest.get(path)
    ended = run["state"] not in _LIVE
    given.output.done(f"{name} {'has ended: ' + run['state'] if ended else 'ends after its batch'}", run)


def _lags(rest: Rest) -> Iterator[dict[str, object]]:
    """The positions of runs, and of cursors that belong to none."""
    cursors = {cursor["name"]: cursor for cursor in rest.get("/pipeline/cursors")["items"]}
    for run in rest.get("/pipeline/runs")["items"]:
        cursor = cursors.pop(run["name"], None) or {}
        facts = {"name": run["name"], "state": run["state"], "reported": run["reported"]}
        for broker, place in run["offsets"].items():
            of_broker = cursor if cursor.get("position") == place["pos"] else {}
            yield {
                **facts,
                "broker": broker,
                "position": place["pos"],
                "lag": of_broker.get("lag", run["lag"]),
                "lag_s": of_broker.get("lag_s", run["lag_s"]),
                "lost": cursor.get("lost"),
            }
    for cursor in cursors.values():
        yield {**cursor, "reported": cursor["reported_at"]}
