"""Server-sent events: their `event` and `id` are the headers of a message, their `data` is its payload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_app.net.asyncapi.json_websocket import MESSAGE
from broker_app.net.asyncapi.part import (
    APPLICATION_JSON,
    SEND,
    DescriptionPart,
    channel,
    http_operation,
    message,
    operation,
)
from broker_app.net.asyncapi.schemas import NOTIFICATION
from broker_app.net.rest.openapi import leases, messages, stats
from broker_app.net.rest.openapi.schemas import COUNT, TEXT, Json, object_of, of_types, ref
from broker_app.telemetry.figures import DestinationFigures, LatestStatistics, NodeFigures

_PREFIX: Final = "/api/v1"
_PATHS: Final = {**leases.PATHS, **stats.PATHS}
_SEEN, _SKIPPED, _STATISTICS = "BrowsedMessage", "Skipped", "LatestStatistics"


class _Stream(NamedTuple):
    """One way to read a stream: the events that it has, and the parameters of its query."""

    channel: str
    path: str
    about: str
    events: tuple[str, ...]
    query: tuple[str, ...]
    mode: str = ""


_EVENTS, _QUEUE_TAIL, _TOPIC_TAIL = "/queues/{name}/events", "/queues/{name}/tail", "/topics/{name}/tail"
_STREAMS: Final = {
    "streamMessages": _Stream(
        "queueEvents", _EVENTS, "Deliver messages, which are settled by their receipts",
        ("message", "problem"), ("credit", "selector"), "deliver",
    ),
    "streamArrivals": _Stream(
        "queueEvents", _EVENTS, "Notify of the messages that begin to wait, and take none",
        ("arrived", "problem"), ("after",), "notify",
    ),
    "tailQueue": _Stream(
        "queueTail", _QUEUE_TAIL, "Show the messages that come into a queue, and take none",
        ("seen", "skipped", "problem"), ("credit",),
    ),
    "tailTopic": _Stream(
        "topicTail", _TOPIC_TAIL, "Show the messages that are sent to a topic",
        ("seen", "skipped", "problem"), ("credit",),
    ),
    "streamStatistics": _Stream(
        "statistics", "/stats/stream", "Report the figures of the node, once a second",
        ("stats", "problem"), ("destinations",),
    ),
}  # fmt: skip


def part(server: str) -> DescriptionPart:
    """The description of all event streams."""
    events = {
        "sse.message": _event("message", "A message is delivered", MESSAGE, id=True),
        "sse.arrived": _event("arrived", "Messages began to wait in a queue", NOTIFICATION, id=True),
        "sse.seen": _event("message", "A message was sent; it stays where it is", _SEEN, id=True),
        "sse.skipped": _event("skipped", "The number of further messages, which are not shown", _SKIPPED),
        "sse.stats": _event("stats", "The figures of the node", _STATISTICS),
        "sse.problem": _event("problem", "The stream ends, because a right was lost", "Problem"),
    }
    schemas = {
        _SEEN: messages.SCHEMAS[_SEEN],
        _SKIPPED: object_of({"count": COUNT}),
        **of_types(LatestStatistics, NodeFigures, DestinationFigures),
    }
    return DescriptionPart(dict(_channels(server)), dict(_operations()), events, schemas)


def _event(name: str, about: str, schema: str, *, id: bool = False) -> Json:
    headers = object_of({"event": {"const": name}, **({"id": TEXT} if id else {})})
    return message(name, about, ref(schema), headers, APPLICATION_JSON)


def _channels(server: str) -> Iterator[tuple[str, Json]]:
    for name in dict.fromkeys(stream.channel for stream in _STREAMS.values()):
        streams = [stream for stream in _STREAMS.values() if stream.channel == name]
        events = dict.fromkeys(f"sse.{event}" for stream in streams for event in stream.events)
        path = streams[0].path
        owner: Json = {"parameters": {"name": {"description": _owner(path)}}} if "{name}" in path else {}
        about = _PATHS[path]["get"]["summary"]
        yield name, channel(about, _PREFIX + path, (server,), events, **owner)


def _owner(path: str) -> str:
    (about,) = [one["description"] for one in _PATHS[path]["get"]["parameters"] if one["in"] == "path"]
    return str(about)


def _operations() -> Iterator[tuple[str, Json]]:
    for name, stream in _STREAMS.items():
        parameters = {one["name"]: one for one in _PATHS[stream.path]["get"]["parameters"]}
        query = {
            given: {"description": parameters[given]["description"], **parameters[given]["schema"]}
            for given in stream.query
        }
        if stream.mode:
            query["mode"] = {"const": stream.mode}
        bindings = http_operation("GET", object_of(query, required=()))
        yield f"sse.{name}", operation(SEND, stream.about, stream.channel, stream.events, bindings=bindings)
