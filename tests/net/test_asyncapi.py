"""The AsyncAPI document is valid, and has everything that the tables of the code have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from broker_app.base.events import DECLARED, OF_CAUSE
from broker_app.features.callbacks.webhooks import cloud_event
from broker_app.net import asyncapi
from broker_app.net.json.events import EVENTS
from broker_app.net.json.operations import OPERATIONS
from broker_app.net.rest import openapi
from broker_app.telemetry.event_log import EventLog
from mom_client.stomp.frame import CLIENT_COMMANDS, SERVER_COMMANDS
from tests.support.asyncapi import Described, official_schema
from tests.support.broker_process import ROOT

DOCUMENT = asyncapi.document()
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from references(one)


def found(reference: str) -> Any:
    """The part of the document that a reference names."""
    assert reference.startswith("#/"), reference
    value: Any = DOCUMENT
    for name in reference[2:].split("/"):
        value = value[name.replace("~1", "/").replace("~0", "~")]
    return value


def test_it_is_valid_by_the_official_schema() -> None:
    schema = official_schema(DOCUMENT["asyncapi"])
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(DOCUMENT)] == []
    broken = {**DOCUMENT, "channels": {"json": {"address": 7}}}
    assert not validator.is_valid(broken), "the schema refuses what is wrong"


def test_its_references_point_at_something() -> None:
    for reference in set(references(DOCUMENT)):
        assert found(reference), reference


def test_operations_have_messages_of_their_channels_only() -> None:
    for name, operation in DOCUMENT["operations"].items():
        reply = operation.get("reply", {"messages": []})
        for message in (*operation["messages"], *reply["messages"]):
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/"), name


def test_every_message_is_in_a_channel_and_in_an_operation() -> None:
    in_channels = {
        reference
        for channel in DOCUMENT["channels"].values()
        for reference in references(channel["messages"])
    }
    assert in_channels == {f"#/components/messages/{name}" for name in DOCUMENT["components"]["messages"]}
    in_operations = {
        found(reference)["$ref"]
        for reference in references(DOCUMENT["operations"])
        if reference.count("/") == 4
    }
    assert in_channels == in_operations


def test_schemas_are_valid_schemas() -> None:
    messages = DOCUMENT["components"]["messages"].values()
    for schema in (
        *DOCUMENT["components"]["schemas"].values(),
        *(message[part] for message in messages for part in ("payload", "headers") if part in message),
    ):
        jsonschema.Draft7Validator.check_schema(schema)


def test_it_has_every_frame_operation_event_and_type() -> None:
    described = Described(DOCUMENT)
    frames = {f"stomp.{command.decode()}" for command in (*CLIENT_COMMANDS, *SERVER_COMMANDS)}
    assert described.names("stomp") == {*frames, "stomp.REFUSAL", "stomp.BROWSER_END"}
    assert described.names("json") == {
        *(f"json.op.{name}" for name in OPERATIONS),
        *(f"json.event.{name}" for name in EVENTS),
    }
    types = {value for name, value in vars(cloud_event).items() if re.fullmatch("[A-Z]+_TYPE", name)}
    own = types - {cloud_event.MESSAGE_TYPE, cloud_event.STRUCTURED_TYPE}
    webhooks = [DOCUMENT["components"]["messages"][name] for name in described.names("webhook")]
    kinds = [
        message["headers"]["properties"].get("ce-type", {}) for message in webhooks if "headers" in message
    ]
    assert {kind["const"] for kind in kinds if "const" in kind} == own


def test_it_has_every_event_of_the_event_log() -> None:
    described = Described(DOCUMENT)
    log = EventLog(lambda: 1_750_000_000.0)
    for event in DECLARED:
        fields = {**dict.fromkeys(event.fields, 1.0), "detail": "why"}
        log.report(event, "west", code="BROKEN" if event.code == OF_CAUSE else "", **fields)
    names = [f"event.{event.kind}-{event.name.replace(' ', '-')}" for event in DECLARED]
    assert described.names("event") == set(names)
    logged = [cloud_event_of(one.shown()) for one in reversed(log.all())]
    for name, body in zip(names, logged, strict=True):
        described.check(name, body)
    assert not described.fits(names[0], logged[-1]), "one event is no other"
    surplus = {**logged[0], "data": {**logged[0]["data"], "facts": {"colour": "red"}}}
    assert not described.fits(names[0], surplus), "a fact that is not declared"


def cloud_event_of(data: Any) -> dict[str, Any]:
    """The body of a message of `$mom.event`."""
    return {
        "specversion": "1.0", "id": "1-1", "source": "mom://b1", "type": "mom.event", "subject": data["name"],
        "time": data["at"], "datacontenttype": "application/json", "sequence": "1", "data": data,
    }  # fmt: skip


def test_it_has_every_event_stream_of_rest() -> None:
    streams = {
        path
        for path, methods in openapi.document()["paths"].items()
        if "text/event-stream" in str(methods["get"]["responses"] if "get" in methods else "")
    }
    assert streams <= {channel["address"] for channel in DOCUMENT["channels"].values()}


@pytest.mark.parametrize("command", ["CONNECT", "SEND", "SUBSCRIBE"])
def test_it_has_the_headers_of_the_page(command: str) -> None:
    """The first column of a table of docs/protocol.md."""
    section = PROTOCOL.partition(f"\n### {command}\n")[2].partition("\n### ")[0]
    listed = {
        name
        for row in re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", row)
    }
    assert listed
    headers = DOCUMENT["components"]["messages"][f"stomp.{command}"]["headers"]["properties"]
    assert listed <= {*headers, "receipt"}


def test_it_names_the_path_below_which_a_broker_is() -> None:
    below = asyncapi.document("/mom")["servers"]
    assert {name: server.get("pathname", "") for name, server in below.items()} == {
        "stomp": "", "websocket": "/mom", "http": "/mom", "receiver": "",
    }  # fmt: skip
