"""Statistics, now and in the past."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.net.rest.openapi.operations import QUEUE, TOPIC, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    COUNT,
    FULLNESS,
    NAME,
    OPTIONAL_TIME,
    RATE,
    SECONDS,
    STATE,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)
from broker_app.telemetry import pipeline_store
from broker_app.telemetry.node_totals import NODE_LAYOUT
from broker_app.telemetry.timeseries import COLUMNS

_NODE_FIGURES = object_of(
    {
        "name": TEXT,
        "version": TEXT,
        "connections": COUNT,
        "in_rate": RATE,
        "out_rate": RATE,
        "published": COUNT,
        "delivered": COUNT,
        "discarded": {**COUNT, "description": "messages that were accepted and not kept, of all"},
        "backlog": {**COUNT, "description": "messages that wait, dead letters not among them"},
        "unsettled": COUNT,
        "oldest_s": {**SECONDS, "description": "age of the oldest of the backlog"},
        "dead": {**COUNT, "description": "dead letters"},
        "memory_bytes": COUNT,
        "memory_level": {
            "enum": ["green", "yellow", "orange", "red"],
            "description": "how much of the memory for non-persistent messages is used",
        },
        "resource_alarm": {
            "type": ["string", "null"],
            "description": "why the node takes no messages now: store-full, queue-full, busy",
        },
        "blocked_bytes": {**COUNT, "description": "messages that wait for room in full queues"},
        "journal_bytes": COUNT,
        "job_bytes": {**COUNT, "description": "files of finished jobs, in addition to the journal"},
        "destinations": COUNT,
        "internal_errors": {
            **COUNT,
            "description": "faults of the broker itself that were contained; its log has their tracebacks",
        },
        "loop_lag_s": {
            **SECONDS,
            "description": "by how much the event loop's latest timer was late in the last second",
        },
        "loop_lag_1m_s": {**SECONDS, "description": "the same of the last minute"},
        "loop_blocked_1m_s": {
            **SECONDS,
            "description": "the longest that the broker itself held up its event loop in the last minute: "
            "lag without the time for which it waited for a processor; more than 0.1 s is in the log",
        },
        "loop_busy_1m_s": {
            **SECONDS,
            "description": "the most processor time that its own thread used at a stretch in the last minute",
        },
    }
)
_BRIEF_FIGURES = object_of(
    {
        "name": {**TEXT, "description": "an address, such as /queue/orders"},
        "kind": {"enum": ["queue", "topic", "temp-queue"]},
        "depth": {**COUNT, "description": "messages that wait"},
        "unsettled": {**COUNT, "description": "messages handed out and not settled"},
        "delayed": {**COUNT, "description": "messages that are not due yet"},
        "consumers": COUNT,
        "in_rate": RATE,
        "out_rate": RATE,
        "oldest_s": {**SECONDS, "description": "age of the message that waits longest"},
    }
)
_PERCENTILES = object_of(
    {
        **{name: {"type": ["number", "null"], "minimum": 0} for name in ("p50", "p95", "p99")},
        "samples": COUNT,
    }
)
_FULL_FIGURES: Json = {
    **_BRIEF_FIGURES["properties"],
    "state": STATE,
    **FULLNESS,
    **dict.fromkeys(("acked_rate", "dead_rate", "expired_rate"), RATE),
    **dict.fromkeys(("published", "delivered", "acknowledged", "dead", "expired"), COUNT),
    "wait_s": {**_PERCENTILES, "description": "from arrival to delivery, sampled, of the last minute"},
    "hold_s": {**_PERCENTILES, "description": "from delivery to acknowledgement, sampled"},
}
_PAST_REPLY = json_reply("the past, up to the last second", ref("DestinationStatistics"))
_WINDOW = [
    parameter("window_s", whole(1, 86_400, 600), "how far back"),
    parameter("step_s", whole(1, 3_600), "length of a step; made longer where the past is coarser"),
]
_HISTORY_REPLY = json_reply("the past, up to now", ref("StoredHistory"))
_STORED = [
    parameter("window_s", whole(60, 7_776_000, 86_400), "how far back"),
    parameter("step_s", whole(1, 86_400), "length of a step; made longer to whole minutes, and 1,440 steps"),
]


def _window(columns: Sequence[str]) -> Json:
    """A piece of the past."""
    return {
        "t0": {"type": "integer", "description": "when the first step begins, seconds since 1970"},
        "step_s": {**COUNT, "description": "length of a step"},
        "series": {
            "type": "object",
            "required": list(columns),
            "properties": {name: array_of({"type": ["number", "null"]}, 1_441) for name in columns},
            "description": "a number for each step, null where nothing is known",
        },
    }


SCHEMAS: Json = {
    "Statistics": object_of(
        {
            "time": TIME,
            "node": _NODE_FIGURES,
            "destinations": array_of(_BRIEF_FIGURES, 1000),
            "bridges": {**array_of(ref("BridgeStatus")), "description": "with their flows"},
        }
    ),
    "DestinationStatistics": object_of(
        {
            "name": NAME,
            "now": {
                **object_of(_FULL_FIGURES),
                "type": ["object", "null"],
                "description": "null when it is gone",
            },
            **_window(COLUMNS),
        }
    ),
    "StoredHistory": object_of(
        {
            "name": NAME,
            **_window(pipeline_store.COLUMNS),
            "stored_from": {**OPTIONAL_TIME, "description": "first minute that is stored; null without one"},
            "stored_to": {**OPTIONAL_TIME, "description": "end of the last minute; null without one"},
        }
    ),
    "NodeStatistics": object_of({"time": TIME, "node": _NODE_FIGURES, **_window(NODE_LAYOUT.columns)}),
}

PATHS: Json = {
    "/queues/{name}/stats": {
        "get": operation(
            "get_queue_statistics", "The past of a queue, as columns", {"200": _PAST_REPLY}, 404,
            parameters=[QUEUE, *_WINDOW],
        ),
    },
    "/topics/{name}/stats": {
        "get": operation(
            "get_topic_statistics", "The past of a topic, as columns", {"200": _PAST_REPLY}, 404,
            parameters=[TOPIC, *_WINDOW],
        ),
    },
    "/queues/{name}/history": {
        "get": operation(
            "get_queue_history", "Minutes of a queue that the data pipeline has stored, as columns",
            {"200": _HISTORY_REPLY}, parameters=[QUEUE, *_STORED],
        ),
    },
    "/topics/{name}/history": {
        "get": operation(
            "get_topic_history", "Minutes of a topic that the data pipeline has stored, as columns",
            {"200": _HISTORY_REPLY}, parameters=[TOPIC, *_STORED],
        ),
    },
    "/node/stats": {
        "get": operation(
            "get_node_statistics", "The past of the node, as columns",
            {"200": json_reply("the past, up to the last second", ref("NodeStatistics"))}, parameters=_WINDOW,
        ),
    },
    "/stats": {
        "get": operation(
            "get_statistics", "What the node does now",
            {"200": json_reply("the content of /topic/$mom.stats, without bridges", ref("Statistics"))},
        ),
    },
    "/stats/stream": {
        "get": operation(
            "stream_statistics", "What the node does, as a server-sent event a second",
            {"200": {"description": "a stream", "content": {"text/event-stream": {"schema": TEXT}}}}, 503,
            parameters=[
                parameter("destinations", TEXT, "only of these: up to 50 names, separated by commas")
            ],
        ),
    },
}  # fmt: skip
