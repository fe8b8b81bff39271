"""The minutes that are not over: what a resident run has counted of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from mom_pipeline.jobs import statistics
from pyspark_mom.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVENTS: Final = arrow_schema(statistics.COLUMNS)
#: how often Spark adds up how many events before it is fast
_WARM_UP_ROUNDS, _WARM_UP_EVENTS = 6, 10_000


class OpenMinutes:
    """Rows of `stat_minute` to which events are added. All have a sketch, without which they could not be.

    Made without rows, after Spark has added up some events often enough to have compiled what it does, which
    takes seconds, before the first events wait.
    """

    def __init__(self, spark: SparkSession, since: datetime) -> None:
        self._spark = spark
        #: the position up to which the rows have the events
        self.end = 0
        event = {**dict.fromkeys(_EVENTS.names, 0), "broker": "", "destination": "", "event": "ACK"}
        table = pa.Table.from_pylist([{**event, "event_ts": since}] * _WARM_UP_EVENTS, _EVENTS)
        events = spark.createDataFrame(table).coalesce(1)
        self.rows = _counted(events, since).toArrow()
        for _ in range(_WARM_UP_ROUNDS):
            self.add(events, since)
        self.rows = self.rows.slice(0, 0)

    def add(self, events: DataFrame, since: datetime) -> None:
        """Add the events of the minutes from `since` on."""
        both = _counted(events, since).unionByName(self._spark.createDataFrame(self.rows))
        # In one partition, groups need no shuffle, which takes longer than to add them up.
        self.rows = statistics.merge(both.coalesce(1), "minute").drop("sketched").toArrow()

    def complete(self, end: datetime) -> pa.Table:
        """Take out the rows of the minutes before `end`, which have all their events."""
        over = pc.less(self.rows["minute"], pa.scalar(end, self.rows.schema.field("minute").type))
        rows, self.rows = self.rows.filter(over), self.rows.filter(pc.invert(over))
        sketches = pc.if_else(pc.greater_equal(rows["dequeued"], statistics.SKETCHED), rows["kll"], None)
        complete = {"kll": sketches, "final": pa.repeat(True, rows.num_rows)}
        for name, column in complete.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows


def _counted(events: DataFrame, since: datetime) -> DataFrame:
    return statistics.transform(events, since, final=False, sketched=1)
