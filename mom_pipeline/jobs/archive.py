"""The archive: events, and messages with their bodies, as the tables of `archive_tables`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mom_pipeline import archive_tables
from pyspark_mom.events import WITH_BODY


def transform(events: DataFrame, table: str = archive_tables.EVENT) -> DataFrame:
    """The rows of a table of the archive. `message` has those with a body, and needs a source with
    content=messages and includeHeaders."""
    if table == archive_tables.MESSAGE:
        events = events.filter(F.col("event").isin(*WITH_BODY) & F.col("body").isNotNull())
    return events.select(*archive_tables.names(table))
