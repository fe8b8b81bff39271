"""Pieces of the description: messages, channels, operations, and the parts that they make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker_app.net.rest.openapi.schemas import TEXT, TIME, Json, object_of

APPLICATION_JSON = "application/json"
CLOUDEVENTS = "application/cloudevents+json"
#: what an operation does, as the broker does it
SEND, RECEIVE = "send", "receive"


class DescriptionPart(NamedTuple):
    """The description of one way to the broker. The names of `messages` and `schemas` are those of
    components."""

    channels: Json
    operations: Json
    messages: Json
    schemas: Json


def reference(*names: str) -> Json:
    """A reference within the document."""
    return {"$ref": "#/" + "/".join(name.replace("~", "~0").replace("/", "~1") for name in names)}


def message(
    name: str, about: str, payload: Json, headers: Json | None = None, content_type: str = ""
) -> Json:
    """A message; without `content_type` it has any."""
    return {
        "name": name,
        "summary": about,
        **({"contentType": content_type} if content_type else {}),
        **({"headers": headers} if headers is not None else {}),
        "payload": payload,
    }


def channel(
    about: str, address: str | None, servers: Iterable[str], messages: Iterable[str], **others: Json
) -> Json:
    """A channel with these messages of components. Their names in it are what follows the first dot."""
    return {
        "summary": about,
        "address": address,
        "servers": [reference("servers", name) for name in servers],
        "messages": {name.partition(".")[2]: reference("components", "messages", name) for name in messages},
        **others,
    }


def operation(
    action: str,
    about: str,
    of_channel: str,
    messages: Iterable[str],
    replies: Iterable[str] = (),
    bindings: Json | None = None,
) -> Json:
    """An operation of the broker, with messages of its channel, and those that answer it."""
    answered = [reference("channels", of_channel, "messages", name) for name in replies]
    reply: Json = {"channel": reference("channels", of_channel), "messages": answered}
    return {
        "action": action,
        "summary": about,
        "channel": reference("channels", of_channel),
        "messages": [reference("channels", of_channel, "messages", name) for name in messages],
        **({"reply": reply} if answered else {}),
        **({"bindings": bindings} if bindings is not None else {}),
    }


def cloud_event(type_: str, data: Json) -> Json:
    """The payload of a message on a topic of the broker."""
    return object_of(
        {
            "specversion": {"const": "1.0"},
            "id": TEXT,
            "source": TEXT,
            "type": {"const": type_},
            "subject": TEXT,
            "time": TIME,
            "datacontenttype": {"const": "application/json"},
            "sequence": TEXT,
            "data": data,
            "missed": {"type": "integer", "description": "events that were left out before it"},
        },
        required=("specversion", "id", "source", "type", "subject", "time", "sequence", "data"),
    )


def http_operation(method: str, query: Json | None = None) -> Json:
    """The bindings of an operation over HTTP."""
    return {
        "http": {
            "method": method,
            **({"query": query} if query is not None else {}),
            "bindingVersion": "0.3.0",
        }
    }


def websocket_channel(subprotocols: Iterable[str]) -> Json:
    """The bindings of a WebSocket: the subprotocols that a client offers."""
    offered: Json = {"type": "string", "enum": list(subprotocols)}
    headers: Json = {"type": "object", "properties": {"Sec-WebSocket-Protocol": offered}}
    return {"ws": {"method": "GET", "headers": headers, "bindingVersion": "0.1.0"}}
