"""Replay: messages of the archive, chosen by a condition, as rows for the sink `mom`.

Rows are what the sender of a message gave: body, headers, content type, correlation id, priority and the
like. A replayed message is a new one: it has another id, does not expire, and its id for deduplication is
left out, since the broker would take it for the message that it had before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pyspark_mom import patterns

#: columns of rows: the place of the archived message, and what the sink takes
PLACE: Final = ("broker", "epoch", "position")
SENT: Final = (
    "destination", "headers", "content_type", "correlation_id", "type", "group", "reply_to", "priority",
    "persistent", "body",
)  # fmt: skip

#: columns of the sink by the headers that they stand for; of two names the first one counts
_OF_HEADERS: Final = {
    "content_type": ("content-type",),
    "correlation_id": ("correlation-id",),
    "type": ("type",),
    "group": ("group", "JMSXGroupID", "_AMQ_GROUP_ID", "message_group"),
    "reply_to": ("reply-to",),
}
#: headers that are no headers of the application: they became columns, or belong to the archived message
RESERVED: Final = (
    "ack", "attempt", "content-length", "content-type", "correlation-id", "destination", "expiration",
    "expires", "message-id", "persistent", "priority", "receipt", "redelivered", "reply-to", "subscription",
    "timestamp", "transaction", "ttl-s", "type", "ttl", "x-message-ttl", "delay-s", "AMQ_SCHEDULED_DELAY",
    "x-delay", "deliver-at", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY", "dedup-id", "_AMQ_DUPL_ID", "group",
    "message-deduplication-id", "JMSXGroupID", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULED_CRON", "_AMQ_GROUP_ID", "message_group", "resent", "seq", "mom-broker",
)  # fmt: skip
_FALSE: Final = ("false", "0", "")
#: addresses to which clients send
_SENDABLE: Final = "^/(queue|topic)/"


def choose(
    messages: DataFrame,
    condition: Column | str = "true",
    *,
    destinations: Sequence[str] = (),
    start: datetime | None = None,
    end: datetime | None = None,
) -> DataFrame:
    """The rows of the table `message` that a condition of SQL holds for, with event_ts in [start, end).
    `destinations` are patterns, as the data source takes them."""
    rows = messages.filter(condition)
    if destinations:
        fits = [F.col("destination").rlike(patterns.regex(pattern)) for pattern in destinations]
        rows = rows.filter(reduce(Column.__or__, fits))
    if start is not None:
        rows = rows.filter(F.col("event_ts") >= start)
    if end is not None:
        rows = rows.filter(F.col("event_ts") < end)
    return rows


def sendable(messages: DataFrame, to: str | None = None) -> DataFrame:
    """The messages that can be sent: all of them when `to` takes them, else those of queues and topics.
    Queues of subscriptions and temporary ones take none of clients."""
    return messages.filter(_is_sendable(to))


def transform(messages: DataFrame, to: str | None = None) -> DataFrame:
    """Rows of the table `message` as rows to send: the columns `PLACE` and `SENT`. `to` replaces the
    destination of all."""
    return messages.select(
        *PLACE,
        (F.col("destination") if to is None else F.lit(to)).alias("destination"),
        F.map_filter("headers", lambda name, _: ~name.isin(*RESERVED)).alias("headers"),
        *(
            F.coalesce(*(_header(name) for name in names)).alias(column)
            for column, names in _OF_HEADERS.items()
        ),
        "priority",
        (~F.lower(F.coalesce(_header("persistent"), F.lit("true"))).isin(*_FALSE)).alias("persistent"),
        "body",
    )


def counts(messages: DataFrame, to: str | None = None) -> DataFrame:
    """The counts of messages by broker and destination: messages, bytes, first_ts and last_ts, and `end`, the
    position behind the last one. Those of a broker that cannot be sent are one row without a destination."""
    destination = F.when(_is_sendable(to), F.col("destination")).alias("destination")
    return messages.groupBy("broker", destination).agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum(F.col("body_size").cast("bigint")), F.lit(0)).alias("bytes"),
        F.min("event_ts").alias("first_ts"),
        F.max("event_ts").alias("last_ts"),
        (F.max("position") + 1).alias("end"),
    )


def _is_sendable(to: str | None) -> Column:
    return F.lit(True) if to is not None else F.col("destination").rlike(_SENDABLE)


def limited(messages: DataFrame, most: int) -> DataFrame:
    """The ends of the first `most` messages, in order of broker and position: broker, end."""
    first = messages.select("broker", "position").orderBy("broker", "position").limit(most)
    return first.groupBy("broker").agg((F.max("position") + 1).alias("end"))


def within(
    messages: DataFrame, starts: Mapping[str, int], ends: Mapping[str, int] | None = None
) -> DataFrame:
    """The messages at or behind the start of their broker, if it has one, and before its end; without `ends`,
    all that follow, else those of no other broker."""
    for broker, start in starts.items():
        messages = messages.filter((F.col("broker") != broker) | (F.col("position") >= start))
    if ends is None:
        return messages
    planned = [(F.col("broker") == broker) & (F.col("position") < end) for broker, end in ends.items()]
    return messages.filter(reduce(Column.__or__, planned, F.lit(False)))


def sizes(messages: DataFrame, span: int) -> DataFrame:
    """The messages of each stretch of `span` positions that has some: broker, stretch, messages, bytes."""
    stretch = F.expr(f"position div {span}").alias("stretch")
    return messages.groupBy("broker", stretch).agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum(F.col("body_size").cast("bigint")), F.lit(0)).alias("bytes"),
    )


def _header(name: str) -> Column:
    return F.try_element_at("headers", F.lit(name))
