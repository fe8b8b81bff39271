"""The contract of the store of the data pipeline: what its jobs have reported and computed.

A database keeps it (`broker_app.pipeline.store`); a node asks from a thread, because the answers take time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from broker_app.base.reply_types import Facts
from broker_app.telemetry.metrics.pipeline_metrics import RunFigures

#: columns of stored minutes: messages within a step
COUNTS: Final = ("in", "out", "acked", "redelivered", "dead", "expired", "discarded")
#: times in the queue of acknowledged messages, in seconds: the largest of a minute of the step
TIMES: Final = ("queue_p50_s", "queue_p95_s", "queue_p99_s", "queue_max_s")
#: the part of a step of which something is known, from 0 to 1
COMPUTED: Final = "computed"
COLUMNS: Final = (*COUNTS, *TIMES, COMPUTED)
MINUTE_S: Final = 60


class StoredHistory(NamedTuple):
    """Stored minutes of a destination in steps; `t0` and `step_s` in seconds, the first since 1970. A step of
    which nothing is known has 0 in the column COMPUTED and None in the others; a step in part has the counts
    of that part. `first_s` is the first minute that is stored, `end_s` the end of the last; both are None if
    there is none."""

    t0: int
    step_s: int
    series: dict[str, list[float | None]]
    first_s: int | None
    end_s: int | None


class PipelineStore(Protocol):
    """Runs and statistics. All methods block; they return nothing while the database cannot be read."""

    def figures(self) -> Sequence[RunFigures]:
        """The figures of all jobs, for metrics."""

    def runs(self) -> Sequence[Facts]:
        """Name, health and error of each run."""

    def history(self, broker: str, destination: str, t0: int, step_s: int, steps: int) -> StoredHistory:
        """Minutes of a destination of a broker, in so many steps of whole minutes from `t0` on."""


class NoPipeline:
    """The store of a broker without a database."""

    def figures(self) -> Sequence[RunFigures]:
        return ()

    def runs(self) -> Sequence[Facts]:
        return ()

    def history(self, broker: str, destination: str, t0: int, step_s: int, steps: int) -> StoredHistory:
        series: dict[str, list[float | None]] = {name: [None] * steps for name in COLUMNS}
        series[COMPUTED] = [0] * steps
        return StoredHistory(t0, step_s, series, None, None)
