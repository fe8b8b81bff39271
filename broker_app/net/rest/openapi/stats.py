"""Statistics, now and in the past."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.net.rest.openapi.operations import QUEUE, TOPIC, json_reply, operation, parameter
from broker_app.net.rest.openapi.schemas import (
    COUNT,
    NAME,
    OPTIONAL_TIME,
    TEXT,
    TIME,
    Json,
    array_of,
    object_of,
    of_types,
    ref,
    whole,
)
from broker_app.telemetry import pipeline_store
from broker_app.telemetry.figures import AllFigures, DestinationFigures, DurationFigures, NodeFigures
from broker_app.telemetry.node_totals import NODE_LAYOUT
from broker_app.telemetry.timeseries import COLUMNS

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
    **of_types(NodeFigures, DestinationFigures, AllFigures, DurationFigures),
    "Statistics": object_of(
        {
            "time": TIME,
            "node": ref("NodeFigures"),
            "destinations": array_of(ref("DestinationFigures"), 1000),
            "bridges": {**array_of(ref("BridgeStatus")), "description": "with their flows"},
        }
    ),
    "DestinationStatistics": object_of(
        {
            "name": NAME,
            "now": {
                "anyOf": [ref("AllFigures"), {"type": "null"}],
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
    "NodeStatistics": object_of({"time": TIME, "node": ref("NodeFigures"), **_window(NODE_LAYOUT.columns)}),
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
