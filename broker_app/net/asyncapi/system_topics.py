"""The topics of the broker itself, apart from the event log: one channel for each that is declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker_app.base.system_topics import EVENT, STATS, TOPICS, SystemTopic, type_of
from broker_app.net.asyncapi.part import (
    APPLICATION_JSON,
    CLOUDEVENTS,
    SEND,
    DescriptionPart,
    channel,
    cloud_event,
    message,
    operation,
)
from broker_app.net.rest.openapi.schemas import Json, ref

#: plain JSON is described where it is a reply, too
_STATISTICS: Final = ref("LatestStatistics")


def part(*servers: str) -> DescriptionPart:
    """The description of all topics of the broker but `$mom.event`."""
    channels: Json = {}
    operations: Json = {}
    messages: Json = {}
    for topic in TOPICS:
        if topic.name == EVENT:
            continue
        name = _name(topic)
        described = {f"topic.{key}": one for key, one in _messages(topic)}
        channels[name] = _channel(topic, servers, described)
        keys = (key.partition(".")[2] for key in described)
        operations[f"{name}.publish"] = operation(SEND, f"Publish {topic.address}", name, keys)
        messages |= described
    return DescriptionPart(channels, operations, messages, {})


def _channel(topic: SystemTopic, servers: Iterable[str], messages: Iterable[str]) -> Json:
    if not topic.rest:
        return channel(topic.about, f"/topic/{topic.name}", servers, messages)
    parameters: Json = {topic.rest: {"description": f"the {topic.rest} of what it is about"}}
    address = f"/topic/{topic.name}.{{{topic.rest}}}"
    return channel(topic.about, address, servers, messages, parameters=parameters)


def _name(topic: SystemTopic) -> str:
    """The name of its channel: `mom-dest-full`; with a rest, `mom-stats-of`."""
    name = type_of(topic.name).replace(".", "-")
    return f"{name}-of" if topic.rest else name


def _messages(topic: SystemTopic) -> Iterator[tuple[str, Json]]:
    """Its messages by their names."""
    if topic.is_plain:
        payload = _STATISTICS if topic.name == STATS and not topic.rest else {}
        yield _name(topic), message(_name(topic), topic.about, payload, content_type=APPLICATION_JSON)
    for one in topic.types:
        name = one.replace(".", "-")
        payload = cloud_event(one, {"type": "object"})
        yield name, message(name, topic.about, payload, content_type=CLOUDEVENTS)
