"""Statistics of each destination and minute: counts, bytes, and percentiles of the time in the queue."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
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


def _events(names: tuple[str, ...]) -> str:
    return f"event IN ({', '.join(map(repr, names))})"


def _bytes(names: tuple[str, ...]) -> str:
    return f"coalesce(sum(CASE WHEN {_events(names)} THEN bigint(body_size) END), 0)"


def _ended_deliveries(attempt: int) -> str:
    """The number of events that end a delivery of a message that was delivered `attempt` times or more.
    Acknowledgements of old journals do not know how often; each ends one delivery."""
    attempts = f"coalesce(delivery_count, CASE WHEN {_events(DEQUEUED)} THEN 1 ELSE 0 END)"
    return f"count_if({_events(DELIVERED)} AND {attempts} >= {attempt})"


# In SQL, since a resident run makes them again each time: each function of PySpark asks Java several times.
_SUMS = {
    "enqueued": f"count_if({_events(ENTERED)})",
    "dequeued": f"count_if({_events(DEQUEUED)})",
    "delivered": _ended_deliveries(1),
    "redelivered": _ended_deliveries(2),
    "expired": f"count_if({_events(('EXPIRE',))})",
    "dead_lettered": f"count_if({_events(('DEADLETTER',))})",
    "discarded": f"count_if({_events(('DISCARD',))})",
    "bytes_in": _bytes(ENTERED),
    "bytes_out": _bytes(DEQUEUED),
}
_QUEUE_TIME = f"CASE WHEN {_events(DEQUEUED)} THEN queue_time_us END"
# Null where no time in the queue is known, since an empty sketch has no percentiles.
_QUANTILES = (
    f"CASE WHEN queue_time_us_max IS NOT NULL AND kll_sketch_get_n_bigint(kll) > 0 "
    f"THEN kll_sketch_get_quantile_bigint(kll, array({', '.join(f'{rank}D' for rank in _RANKS)})) END"
)
_PERCENTILES = tuple(
    f"({_QUANTILES})[{place}] AS queue_time_us_p{round(100 * rank)}" for place, rank in enumerate(_RANKS)
)


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
    sums = groups.agg(
        *(F.expr(f"{how} AS {name}") for name, how in _SUMS.items()),
        F.expr(f"max({_QUEUE_TIME}) AS queue_time_us_max"),
        F.expr(f"kll_sketch_agg_bigint({_QUEUE_TIME}) AS kll"),
    )
    return sums.selectExpr(
        *("broker", "destination", "window.start AS minute", *_SUMS, *_PERCENTILES, "queue_time_us_max"),
        f"CASE WHEN dequeued >= {sketched} THEN kll END AS kll",
        f"{str(final).lower()} AS final",
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
    sums = groups.agg(
        *(F.expr(f"sum({name}) AS {name}") for name in _SUMS),
        F.expr("max(queue_time_us_max) AS queue_time_us_max"),
        F.expr("coalesce(sum(CASE WHEN kll IS NOT NULL THEN dequeued END), 0) AS sketched"),
        F.expr("kll_merge_agg_bigint(kll) AS kll"),
        F.expr("bool_and(final) AS final"),
    )
    return sums.selectExpr(
        *("broker", "destination", "minute", *_SUMS, *_PERCENTILES, "queue_time_us_max"),
        "CASE WHEN sketched > 0 THEN kll END AS kll",
        *("final", "sketched"),
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
