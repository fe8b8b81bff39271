"""The archive: events, and messages with their bodies, as the tables and folders of `archive_tables`.

Folders are broker, date and hour, not the destination: there are thousands of those, and most are small. Rows
are in order of position; `destination` is a column with a dictionary, so a filter on it reads little else."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mom_pipeline import archive_tables
from pyspark_mom.events import WITH_BODY

_US_PER_HOUR = 3_600_000_000


def transform(events: DataFrame, table: str = archive_tables.EVENT) -> DataFrame:
    """The rows of a table of the archive, with `date` and `hour` (UTC, whatever the time zone of the
    session). `message` has those with a body, and needs a source with content=messages and includeHeaders."""
    if table == archive_tables.MESSAGE:
        events = events.filter(F.col("event").isin(*WITH_BODY) & F.col("body").isNotNull())
    hours = f"unix_micros(event_ts) div {_US_PER_HOUR}"
    return events.select(
        *archive_tables.names(table),
        F.expr(f"date_from_unix_date(int(({hours}) div 24))").alias("date"),
        F.expr(f"int(({hours}) % 24)").alias("hour"),
    )
