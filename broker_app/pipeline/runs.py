"""Runs of jobs: a name is run once at a time; each run reports, and learns whether it should stop."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from broker_app.base.refused import Refused
from broker_app.pipeline import database
from broker_app.pipeline.models import DONE, IDLE, LIVE, LOST, STARTING, STOPPED, PipelineRun
from broker_app.telemetry.component_health import PIPELINE, health_of
from broker_app.telemetry.metrics.families import BATCH_BOUNDS_S, Histogram
from broker_app.telemetry.metrics.pipeline_metrics import RunFigures

#: without a report for so long, another run may take the name
LEASE_S: Final = 30.0
#: batches that are kept, for the charts
MOST_BATCHES: Final = 100
MOST_RUNS: Final = 1_000


def begin(
    name: str,
    job: str,
    run_id: str,
    host: str,
    parameters: Mapping[str, Any],
    now: datetime,
    command: str = "",
) -> PipelineRun:
    """Register a run, which `command` starts again. Raises Refused("conflict") while another one of this name
    reports."""
    database.create()
    with transaction.atomic(using=database.PIPELINE):
        former = PipelineRun.objects.select_for_update().filter(name=name).first()
        if former is not None and former.run_id != run_id and is_alive(former, now):
            raise Refused(
                "conflict",
                f"{name} runs already, on {former.host or 'another host'}; stop it with "
                f"mom pipeline stop {name}, or wait {LEASE_S:.0f} s if its process has ended",
            )
        if former is None and PipelineRun.objects.count() >= MOST_RUNS:
            raise Refused("too-many", f"{MOST_RUNS:,} runs are known, the limit; remove some of them")
        starts = 0 if former is None else former.starts
        found, _ = PipelineRun.objects.update_or_create(
            name=name,
            defaults={
                "job": job,
                "run_id": run_id,
                "host": host,
                "parameters": dict(parameters),
                "command": command,
                "starts": starts + (former is None or former.run_id != run_id),
                "state": STARTING,
                "started": now,
                "reported": now,
                "stop_requested": False,
                "rows": 0,
                "lag": None,
                "lag_s": None,
                "error": "",
                "batches": [],
            },
        )
    return found


def report(name: str, run_id: str, facts: Mapping[str, Any], batch: Any, now: datetime) -> PipelineRun:
    """Store what a run reports. Raises Refused: not-found, or conflict when another run has the name."""
    with transaction.atomic(using=database.PIPELINE):
        run = reporting(name, run_id)
        run.rows_total += max(0, facts.get("rows", run.rows) - run.rows)
        for field, value in facts.items():
            setattr(run, field, value)
        if batch is not None:
            run.batches = [*run.batches, batch][-MOST_BATCHES:]
            _count(run, batch["ms"])
        if batch is not None or run.state in (IDLE, DONE):
            run.succeeded = now
        run.reported = now
        run.save()
    return run


def reporting(name: str, run_id: str) -> PipelineRun:
    """The run that reports. Raises Refused: not-found, or conflict when another run has the name."""
    run = find(name)
    if run.run_id != run_id:
        raise Refused("conflict", f"another run of {name} has begun on {run.host}; this one must end")
    return run


def _count(run: PipelineRun, ms: int) -> None:
    """Count a batch by its duration."""
    counts = run.batch_counts or [0] * (len(BATCH_BOUNDS_S) + 1)
    counts[bisect_left(BATCH_BOUNDS_S, ms / 1000)] += 1
    run.batch_counts = counts
    run.batch_ms_total += ms


def request_stop(name: str) -> PipelineRun:
    """Have a run stop with its next report. Raises Refused("not-found")."""
    run = find(name)
    run.stop_requested = True
    run.save(update_fields=["stop_requested"])
    return run


def remove(name: str, now: datetime) -> None:
    """Forget a run that has ended. Raises Refused: not-found, or conflict while it reports."""
    run = find(name)
    if is_alive(run, now):
        raise Refused("conflict", f"{name} runs on {run.host}; stop it first")
    run.delete()


def known() -> list[PipelineRun]:
    """All runs by name."""
    return list(PipelineRun.objects.all()) if database.is_created() else []


def figures() -> list[RunFigures]:
    """The figures that jobs have reported, for metrics."""
    return [_figures(run) for run in known()]


def health_of_runs(now: datetime) -> list[dict[str, Any]]:
    """Name, health and error of each run."""
    if not database.is_created():
        return []
    rows = PipelineRun.objects.only("name", "state", "reported", "error")
    return [
        {"name": run.name, "health": health_of(PIPELINE, {"state": _state(run, now)}), "error": run.error}
        for run in rows
    ]


def _figures(run: PipelineRun) -> RunFigures:
    counts = run.batch_counts or [0] * (len(BATCH_BOUNDS_S) + 1)
    succeeded = None if run.succeeded is None else run.succeeded.timestamp()
    batches = Histogram(BATCH_BOUNDS_S, tuple(counts), run.batch_ms_total / 1000)
    return RunFigures(run.name, run.rows_total, batches, succeeded)


def find(name: str) -> PipelineRun:
    """The run of this name. Raises Refused("not-found")."""
    run = PipelineRun.objects.filter(name=name).first() if database.is_created() else None
    if run is None:
        raise Refused("not-found", f"there is no run {name!r} of the pipeline"[:300])
    return run


def is_alive(run: PipelineRun, now: datetime) -> bool:
    """Return whether a run reports."""
    return run.state in LIVE and now - run.reported < timedelta(seconds=LEASE_S)


def shown(run: PipelineRun, now: datetime) -> dict[str, Any]:
    """A run as JSON."""
    state = _state(run, now)
    return {
        "name": run.name,
        "job": run.job,
        "run_id": run.run_id,
        "host": run.host,
        "state": state,
        "health": health_of(PIPELINE, {"state": state}),
        "stop_requested": run.stop_requested and state not in (STOPPED, LOST),
        "started": run.started.isoformat(),
        "reported": run.reported.isoformat(),
        "parameters": run.parameters,
        "command": run.command,
        "starts": run.starts,
        "rows": run.rows,
        "rows_total": run.rows_total,
        "rows_per_s": _rate(run),
        "offsets": run.offsets,
        "lag": run.lag,
        "lag_s": run.lag_s,
        "error": run.error,
        "batches": run.batches,
    }


def _state(run: PipelineRun, now: datetime) -> str:
    """The state of a run; `lost` when one that has not ended no longer reports."""
    return LOST if run.state in LIVE and not is_alive(run, now) else run.state


def _rate(run: PipelineRun) -> float | None:
    """Rows a second of the newest batch."""
    newest = run.batches[-1] if run.batches else None
    return None if newest is None or not newest["ms"] else round(1000 * newest["rows"] / newest["ms"], 1)
