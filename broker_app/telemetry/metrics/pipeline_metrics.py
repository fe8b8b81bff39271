"""Metrics of the data pipeline: how far its jobs have come, and what they report.

The lag follows from the cursors that the journal keeps, so it grows when the job is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_app.journal.port import Journal
from broker_app.telemetry.metrics.families import Collected, Histogram, Labels, Samples


class RunFigures(NamedTuple):
    """The figures of a job in all of its runs: rows, batches by duration, and when it was successful last
    (seconds since 1970)."""

    job: str
    rows: int
    batches: Histogram
    success: float | None


class PipelineMetrics:
    """Reads the metrics of the jobs at the broker `name`. `runs` returns their figures; it blocks."""

    def __init__(self, journal: Journal, name: str, runs: Callable[[], Sequence[RunFigures]]) -> None:
        self._journal = journal
        self._name = name
        self._runs = runs

    async def collect(self) -> list[tuple[str, Samples]]:
        """All families that have samples."""
        return list(self._of(await asyncio.to_thread(self._runs)))

    def _of(self, runs: Sequence[RunFigures]) -> Collected:
        low, end = self._journal.span()
        positions = {self._labels(name): at.position for name, at in self._journal.cursors().items()}
        yield "mom_pipeline_lag_positions", {job: max(0, end - at) for job, at in positions.items()}
        yield "mom_pipeline_lost_positions", {job: max(0, low - at) for job, at in positions.items()}
        yield "mom_pipeline_rows_total", {self._labels(run.job): run.rows for run in runs}
        yield "mom_pipeline_batch_seconds", {self._labels(run.job): run.batches for run in runs}
        yield (
            "mom_pipeline_last_success_timestamp_seconds",
            {self._labels(run.job): run.success for run in runs if run.success is not None},
        )

    def _labels(self, job: str) -> Labels:
        return job, self._name
