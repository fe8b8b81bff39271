"""JSON over WebSocket: the operations of clients and the events of the broker, made of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from broker_app.net.asyncapi.part import (
    APPLICATION_JSON,
    RECEIVE,
    SEND,
    DescriptionPart,
    channel,
    message,
    operation,
    websocket_channel,
)
from broker_app.net.json import events
from broker_app.net.json.operations import DELIVER, NOTIFY, OPERATIONS
from broker_app.net.rest.openapi.leases import SCHEMAS as LEASES
from broker_app.net.rest.openapi.schemas import Json, array_of, ref
from broker_app.net.server.subprotocols import JSON

_CHANNEL: Final = "json"
#: the schemas of a delivered message: as REST shows it, and byte for byte
MESSAGE, _EXACT = "ReceivedMessage", "ExactMessage"
#: the events that answer an operation; `done` answers all others, and `problem` each of them
_ANSWERS: Final = {
    "login": ("ready", "done"),
    "receive": ("received",),
    "register": ("registered",),
    "pending": ("pending",),
}
#: the events that come by themselves, by the name of what the broker does then
_UNASKED: Final = {
    "deliver": "message",
    "notify": "arrived",
    "endSubscription": "unsubscribed",
    "close": "closed",
}


def part(server: str, address: str) -> DescriptionPart:
    """The description of the subprotocol, at an address of a server."""
    asked, of_operations = _described(OPERATIONS)
    told, of_events = _described(events.EVENTS)
    asked = {f"json.op.{name}": schema for name, schema in asked.items()}
    told = {f"json.event.{name}": _completed(events.EVENTS[name], schema) for name, schema in told.items()}
    asked["json.op.subscribe"]["properties"]["mode"] = {"enum": [DELIVER, NOTIFY], "default": DELIVER}
    messages = {
        name: message(
            name.rpartition(".")[2], schema["description"], ref(name), content_type=APPLICATION_JSON
        )
        for name, schema in {**asked, **told}.items()
    }
    about = "JSON objects with the member `op`; at most 64 KiB each from clients"
    return DescriptionPart(
        {_CHANNEL: channel(about, address, (server,), messages, bindings=websocket_channel((JSON,)))},
        dict(_operations(messages)),
        messages,
        {**asked, **told, **of_operations, **of_events, **_of_messages()},
    )


def _described(kinds: Mapping[str, type[Any]]) -> tuple[Json, Json]:
    """The schemas of structs by `op`, and those of their parts by name."""
    template = "#/components/schemas/json.{name}"
    _, found = msgspec.json.schema_components(kinds.values(), ref_template=template)
    schemas = {op: found.pop(kind.__name__) for op, kind in kinds.items()}
    for op, schema in schemas.items():
        schema["properties"]["op"] = {"const": op}
        schema["description"] = " ".join(schema["description"].split())
    return schemas, {f"json.{name}": schema for name, schema in found.items()}


def _completed(kind: type[Any], schema: Json) -> Json:
    """The schema of an event with the members that its struct does not have."""
    if kind in events.PROBLEMS:
        return {"description": schema["description"], "allOf": [schema, ref("Problem")]}
    members, required = dict(schema["properties"]), list(schema["required"])
    if kind is events.Message:
        rendered = _rendered()
        members |= rendered["properties"]
        required += rendered["required"]
    elif kind is events.Received:
        members["items"] = array_of({"anyOf": [ref(MESSAGE), ref(_EXACT)]})
        required.append("items")
    return {**schema, "properties": members, "required": required, "additionalProperties": False}


def _rendered() -> Json:
    schema: Json = LEASES["Received"]["properties"]["items"]["items"]
    return schema


def _of_messages() -> Json:
    _, found = msgspec.json.schema_components([events.ExactMessage])
    return {MESSAGE: _rendered(), _EXACT: found["ExactMessage"]}


def _operations(messages: Json) -> Iterator[tuple[str, Json]]:
    for op in OPERATIONS:
        answers = [f"event.{event}" for event in (*_ANSWERS.get(op, ("done",)), "problem")]
        about = messages[f"json.op.{op}"]["summary"]
        yield f"json.{op}", operation(RECEIVE, about, _CHANNEL, (f"op.{op}",), answers)
    for name, event in _UNASKED.items():
        about = messages[f"json.event.{event}"]["summary"]
        yield f"json.{name}", operation(SEND, about, _CHANNEL, (f"event.{event}",))
