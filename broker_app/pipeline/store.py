"""The store of the pipeline, as a node reads it (`telemetry.pipeline_store`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, connections

from broker_app.base.reply_types import Facts
from broker_app.pipeline import history, runs
from broker_app.pipeline.database import PIPELINE
from broker_app.telemetry.metrics.pipeline_metrics import RunFigures
from broker_app.telemetry.pipeline_store import NoPipeline, StoredHistory

_Found = TypeVar("_Found")

_log = logging.getLogger(__name__)


class DatabaseStore(NoPipeline):
    """Reads the database from threads of the node, each with a connection of its own."""

    def figures(self) -> Sequence[RunFigures]:
        """See `PipelineStore.figures`."""
        return _answer("the metrics", runs.figures, super().figures)

    def runs(self) -> Sequence[Facts]:
        """See `PipelineStore.runs`."""
        return _answer("the runs", partial(runs.health_of_runs, datetime.now(UTC)), super().runs)

    def history(self, broker: str, destination: str, t0: int, step_s: int, steps: int) -> StoredHistory:
        """See `PipelineStore.history`."""
        asked = broker, destination, t0, step_s, steps
        nothing = partial(super().history, *asked)
        return _answer("the statistics", partial(history.of_destination, *asked), nothing)


def _answer(what: str, read: Callable[[], _Found], nothing: Callable[[], _Found]) -> _Found:
    """The result of `read`, or `nothing` while the database cannot be read, which is logged."""
    try:
        with closing(connections[PIPELINE]):
            return read()
    except DatabaseError as error:
        _log.warning("%s of the pipeline cannot be read: %s", what, error)
        return nothing()
