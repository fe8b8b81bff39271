"""Reconciliation of store and forward: what one broker forwarded against what another received.

A message is identified by its position in the journal of its origin, which the receiver keeps with it. Each
has one state:

| state | meaning |
|---|---|
| ok | the receiver has it once |
| in-flight | it waits at the origin, or was confirmed after the end of the receiver's events |
| lost | the receiver confirmed it and does not have it |
| doubled | the receiver has it more than once |
| foreign | the receiver has it from this origin, which does not know it |
| expired | it expired at the origin before it was forwarded |
| refused | it is a dead letter of the origin, because the receiver refused it |
| removed | it was discarded, purged or moved at the origin before it was forwarded |

A message without an event that ends it still waits at its origin, however old it is: it is not lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SENT_COLUMNS = (
    "broker", "position", "event", "event_ts", "destination", "message_id", "message_position", "enqueued_ts",
    "reason", "peer_broker",
)  # fmt: skip
RECEIVED_COLUMNS = (
    "broker",
    "position",
    "event",
    "event_ts",
    "message_id",
    "origin_broker",
    "origin_position",
)

OK, IN_FLIGHT, LOST, DOUBLED = "ok", "in-flight", "lost", "doubled"
FOREIGN, EXPIRED, REFUSED, REMOVED = "foreign", "expired", "refused", "removed"
STATES = (OK, IN_FLIGHT, LOST, DOUBLED, FOREIGN, EXPIRED, REFUSED, REMOVED)
#: states that are errors of forwarding
DIFFERENCES = (LOST, DOUBLED, FOREIGN)

#: event that ended a message at the origin → its state, when the receiver does not have it
_ENDED = {"EXPIRE": EXPIRED, "DEADLETTER": REFUSED, "DISCARD": REMOVED, "PURGE": REMOVED, "MOVE": REMOVED}


def transform(
    sent: DataFrame,
    received: DataFrame,
    *,
    origin: str,
    bridges: Sequence[str],
    received_until: datetime,
    grace: timedelta = timedelta(minutes=1),
    start: int = 0,
    end: int | None = None,
) -> DataFrame:
    """A row for each message: origin_broker, origin_position, state, message_id, destination (its
    store-and-forward queue), enqueued_ts, ended_ts, ended_as and reason at the origin, receiver, arrivals,
    first_position and last_position there, received_ts.

    `sent` are events of the broker `origin`, `received` those of the receiver, complete up to
    `received_until` by its clock; `bridges` are the names of the receiver at the origin. Only messages whose
    position at the origin is in [start, end) are compared: `sent` has their events up to now, and `received`
    begins before the first of them was sent, or messages would look lost. A message that was confirmed within
    `grace` before `received_until` is in flight, since the clocks of brokers differ."""
    if not bridges:
        raise ValueError("name the bridges of the origin that lead to the receiver; bridges is empty")
    if received_until.tzinfo is None:
        raise ValueError(f"received_until has no time zone: {received_until.isoformat()}")
    sides = _sent(sent, origin, bridges).unionByName(_received(received, origin))
    in_range = F.col("origin_position") >= start
    if end is not None:
        in_range &= F.col("origin_position") < end
    messages = (
        sides.filter(in_range).groupBy("origin_position").agg(*_facts()).filter("bridged or arrivals > 0")
    )
    confirmed_until = F.lit(received_until) - F.lit(grace)
    return messages.select(
        F.lit(origin).alias("origin_broker"),
        "origin_position",
        _state(confirmed_until).alias("state"),
        *("message_id", "destination", "enqueued_ts", "ended_ts", "ended_as", "reason"),
        *("receiver", "arrivals", "first_position", "last_position", "received_ts"),
    )


def summary(messages: DataFrame) -> DataFrame:
    """The number of messages in each state: origin_broker, state, messages."""
    return messages.groupBy("origin_broker", "state").agg(F.count("*").alias("messages"))


def report(messages: DataFrame) -> DataFrame:
    """The rows of all messages that are not ok."""
    return messages.filter(F.col("state") != OK)


def _sent(events: DataFrame, origin: str, bridges: Sequence[str]) -> DataFrame:
    """The events of messages in store-and-forward queues, those of all bridges: a message that another bridge
    forwarded to the same receiver is not foreign. Only these queues have a `peer_broker`, the name of the
    bridge."""
    ends = F.col("event").isin("FORWARD_ACK", "ACK", *_ENDED)
    return events.filter((F.col("broker") == origin) & F.col("peer_broker").isNotNull()).select(
        F.col("message_position").alias("origin_position"),
        F.lit(True).alias("known"),
        F.col("peer_broker").isin(*bridges).alias("bridged"),
        *("message_id", "destination", "enqueued_ts"),
        F.when(ends, F.struct("position", "event", "event_ts", "reason")).alias("ended"),
        F.lit(None).cast("struct<broker:string,position:bigint,event_ts:timestamp>").alias("arrival"),
    )


def _received(events: DataFrame, origin: str) -> DataFrame:
    return events.filter((F.col("event") == "RECEIVE") & (F.col("origin_broker") == origin)).select(
        "origin_position",
        F.lit(False).alias("known"),
        F.lit(False).alias("bridged"),
        "message_id",
        F.lit(None).cast("string").alias("destination"),
        F.lit(None).cast("timestamp").alias("enqueued_ts"),
        F.lit(None)
        .cast("struct<position:bigint,event:string,event_ts:timestamp,reason:string>")
        .alias("ended"),
        F.struct("broker", "position", "event_ts").alias("arrival"),
    )


def _facts() -> list[Column]:
    """The facts about a message, of the rows of both sides; its id at the origin goes before that at the
    receiver."""
    return [
        F.bool_or("known").alias("known"),
        F.bool_or("bridged").alias("bridged"),
        F.coalesce(F.max(F.when(F.col("known"), F.col("message_id"))), F.max("message_id")).alias(
            "message_id"
        ),
        F.max("destination").alias("destination"),
        F.min("enqueued_ts").alias("enqueued_ts"),
        F.max("ended")["event"].alias("ended_as"),
        F.max("ended")["event_ts"].alias("ended_ts"),
        F.max("ended")["reason"].alias("reason"),
        F.max("arrival.broker").alias("receiver"),
        F.count("arrival").alias("arrivals"),
        F.min("arrival.position").alias("first_position"),
        F.max("arrival.position").alias("last_position"),
        F.min("arrival.event_ts").alias("received_ts"),
    ]


def _state(confirmed_until: Column) -> Column:
    state = (
        F.when((F.col("arrivals") > 0) & ~F.col("known"), FOREIGN)
        .when(F.col("arrivals") > 1, DOUBLED)
        .when(F.col("arrivals") == 1, OK)
    )
    for event, ended in _ENDED.items():
        state = state.when(F.col("ended_as") == event, ended)
    confirmed = F.col("ended_as").isin("FORWARD_ACK", "ACK") & (F.col("ended_ts") <= confirmed_until)
    return state.when(confirmed, LOST).otherwise(IN_FLIGHT)
