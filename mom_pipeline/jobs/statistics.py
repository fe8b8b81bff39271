"""Statistics of each destination and minute: counts, bytes, and percentiles of the time in the queue."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COLUMNS = ("broker", "destination", "event", "event_ts", "body_size", "delivery_count", "queue_time_us")

#: events by which a message enters a destination
ENTERED = ("ENQUEUE", "RECEIVE")
#: events by which a message leaves it as it should
DEQUEUED = ("ACK", "FORWARD_ACK")
#: events that end a delivery. DELIVER events cannot be counted: there is one for many messages
DELIVERED = (*DEQUEUED, "NACK")
#: fewest dequeued messages of a minute that has a sketch
SKETCHED = 100

_RANKS = (0.5, 0.95, 0.99)
_SUMS = (
    "enqueued", "dequeued", "delivered", "redelivered", "expired", "dead_lettered", "discarded", "bytes_in",
    "bytes_out",
)  # fmt: skip


def transform(
    events: DataFrame,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    final: bool = True,
    sketched: int = SKETCHED,
) -> DataFrame:
    """A row of `stat_minute` for each broker, destination and minute with events in [start, end), whose
    bounds are whole minutes: ValueError otherwise, because half a minute would replace the row of the whole
    one.

    `final` marks the rows as complete: the journals were read up to `end`. Rows have a sketch from `sketched`
    dequeued messages on.

    A stream of `watermarked` events gives each row once in append mode, a minute late and the last ones only
    when later events come; in update mode, with final=False, rows replace earlier ones of the same key."""
    # The watermark of a stream ends groups only if they have the whole window.
    window = F.window("event_ts", "1 minute")
    groups = _between(events, start, end).groupBy("broker", "destination", window.alias("window"))
    queue_time = F.when(_is(DEQUEUED), F.col("queue_time_us"))
    sums = groups.agg(
        F.count_if(_is(ENTERED)).alias("enqueued"),
        F.count_if(_is(DEQUEUED)).alias("dequeued"),
        F.count_if(_ended_delivery(1)).alias("delivered"),
        F.count_if(_ended_delivery(2)).alias("redelivered"),
        F.count_if(_is(("EXPIRE",))).alias("expired"),
        F.count_if(_is(("DEADLETTER",))).alias("dead_lettered"),
        F.count_if(_is(("DISCARD",))).alias("discarded"),
        _bytes(ENTERED).alias("bytes_in"),
        _bytes(DEQUEUED).alias("bytes_out"),
        F.max(queue_time).alias("queue_time_us_max"),
        F.kll_sketch_agg_bigint(queue_time).alias("kll"),
    )
    return sums.select(
        *("broker", "destination", F.col("window.start").alias("minute"), *_SUMS),
        *_percentiles(),
        F.when(F.col("dequeued") >= sketched, F.col("kll")).alias("kll"),
        F.lit(final).alias("final"),
    )


def watermarked(events: DataFrame, late: str = "1 minute") -> DataFrame:
    """A stream of events whose minutes end when events come that are `late` younger."""
    return events.withWatermark("event_ts", late)


def merge(minutes: DataFrame, unit: str) -> DataFrame:
    """Rows of `stat_minute` as rows of a longer `unit` ("hour", "day"); `minute` is its first one.

    Percentiles are those of the merged sketches, since percentiles cannot be averaged. Minutes without a
    sketch are not in them: `sketched` counts the dequeued messages that are. Without any sketch they are
    null."""
    groups = minutes.groupBy("broker", "destination", F.date_trunc(unit, "minute").alias("minute"))
    sketched = F.when(F.col("kll").isNotNull(), F.col("dequeued"))
    sums = groups.agg(
        *(F.sum(name).alias(name) for name in _SUMS),
        F.max("queue_time_us_max").alias("queue_time_us_max"),
        F.coalesce(F.sum(sketched), F.lit(0)).alias("sketched"),
        F.kll_merge_agg_bigint("kll").alias("kll"),
        F.bool_and("final").alias("final"),
    )
    return sums.select(
        *("broker", "destination", "minute", *_SUMS),
        *_percentiles(),
        F.when(F.col("sketched") > 0, F.col("kll")).alias("kll"),
        "final",
        "sketched",
    )


def _between(events: DataFrame, start: datetime | None, end: datetime | None) -> DataFrame:
    for bound, before in ((start, False), (end, True)):
        if bound is None:
            continue
        if bound.tzinfo is None or bound.second or bound.microsecond:
            raise ValueError(
                f"{bound.isoformat()} is not a whole minute with a time zone; 2026-11-21T03:00Z is one"
            )
        events = events.filter(F.col("event_ts") < bound if before else F.col("event_ts") >= bound)
    return events


def _is(events: tuple[str, ...]) -> Column:
    return F.col("event").isin(*events)


def _ended_delivery(attempt: int) -> Column:
    """True where an event ends a delivery of a message that was delivered `attempt` times or more.
    Acknowledgements of old journals do not know how often; each ends one delivery."""
    return _is(DELIVERED) & (F.coalesce("delivery_count", F.when(_is(DEQUEUED), 1).otherwise(0)) >= attempt)


def _bytes(events: tuple[str, ...]) -> Column:
    return F.coalesce(F.sum(F.when(_is(events), F.col("body_size").cast("bigint"))), F.lit(0))


def _percentiles() -> list[Column]:
    """p50, p95, p99 and max; null where no time in the queue is known, since an empty sketch has no
    percentiles."""
    ranks = F.array(*(F.lit(rank) for rank in _RANKS))
    known = F.col("queue_time_us_max").isNotNull() & (F.kll_sketch_get_n_bigint("kll") > 0)
    values = F.when(known, F.kll_sketch_get_quantile_bigint("kll", ranks))
    names = [f"queue_time_us_p{round(100 * rank)}" for rank in _RANKS]
    return [*(values[place].alias(name) for place, name in enumerate(names)), F.col("queue_time_us_max")]
