"""CloudEvents over HTTP, in all three modes: they are stored alike."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.net.rest.messages import cloudevents
from tests.rest.conftest import Rest

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.made", "urgent": True}
STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.made"}
HEADERS |= {"ce-urgent": "true"}


async def stored(rest: Rest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await rest.alice.get("/queues/a/messages")).json()["items"]
    return found


async def test_a_structured_event_is_stored_as_a_binary_one(rest: Rest) -> None:
    binary = await rest.alice.post(
        "/queues/a/messages", content=b'{"n":1}', headers={**HEADERS, "content-type": "application/json"}
    )
    event = json.dumps({**EVENT, "data": {"n": 1}}, separators=(",", ":"))
    structured = await rest.alice.post(
        "/queues/a/messages", content=event, headers={**STRUCTURED, "mom-priority": "7"}
    )
    assert (binary.status_code, structured.status_code) == (201, 201), structured.text
    second, first = await stored(rest)
    same = ("headers", "body", "content_type")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert (second["headers"], second["body"], second["priority"]) == (HEADERS, {"n": 1}, 7)


@pytest.mark.parametrize(
    ("data", "body", "content_type"),
    [
        ({"data": "a text", "datacontenttype": "text/plain"}, b"a text", "text/plain"),
        ({"data": "a text"}, b'"a text"', "application/json"),
        ({"data_base64": "/wA=", "datacontenttype": "image/png"}, b"\xff\x00", "image/png"),
        ({}, b"", "application/json"),
    ],
)
async def test_data_is_the_body(rest: Rest, data: dict[str, str], body: bytes, content_type: str) -> None:
    sent = await rest.alice.post("/queues/a/messages", json={**EVENT, **data}, headers=STRUCTURED)
    whole = await rest.alice.get(f"/messages/{sent.json()['id']}/body?queue=a")
    assert (whole.content, whole.headers["content-type"]) == (body, content_type)


@pytest.mark.parametrize("path", ["/queues/a/messages", "/queues/a/messages/batch"])
async def test_each_event_of_a_batch_is_a_message(rest: Rest, path: str) -> None:
    events = [{**EVENT, "data": n} for n in range(2)] + [{**EVENT, "id": ""}]
    reply = await rest.alice.post(path, json=events, headers=BATCH)
    assert reply.status_code == 200, reply.text
    *good, wrong = reply.json()["results"]
    assert [item["id"] for item in await stored(rest)] == [result["id"] for result in good]
    assert [item["body"] for item in await stored(rest)] == [0, 1]
    assert wrong["error"]["errors"][0]["pointer"] == "/id"


async def test_a_batch_of_events_goes_to_a_topic(rest: Rest) -> None:
    reply = await rest.alice.post("/topics/t/messages", json=[EVENT], headers=BATCH)
    assert reply.status_code == 200
    assert len(reply.json()["results"]) == 1


@pytest.mark.parametrize(
    "event",
    [
        "[]",
        "{",
        "{}",
        json.dumps({**EVENT, "specversion": "0.3"}),
        json.dumps({**EVENT, "Source": "x"}),
        json.dumps({**EVENT, "extension": {"a": 1}}),
        json.dumps({**EVENT, "data_base64": 1}),
        json.dumps({**EVENT, "data": 1, "data_base64": base64.b64encode(b"x").decode()}),
        json.dumps({**EVENT, "data": {}, "datacontenttype": "text/plain"}),
        '{"a":' * 10_000,
    ],
)
async def test_an_invalid_event_is_refused(rest: Rest, event: str) -> None:
    refused = await rest.alice.post("/queues/a/messages", content=event, headers=STRUCTURED)
    assert (refused.status_code, refused.json()["type"]) == (400, "/docs/problems/invalid")


async def test_events_in_other_formats_are_refused(rest: Rest) -> None:
    headers = {"content-type": "application/cloudevents+avro"}
    refused = await rest.alice.post("/queues/a/messages", content=b"x", headers=headers)
    assert refused.status_code == 415


def test_an_event_with_very_many_attributes_is_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    monkeypatch.setattr(cloudevents, "_attribute", lambda name, _: read.append(name))
    event = json.dumps({**EVENT, **{f"a{number}": "" for number in range(10_000)}}).encode()
    with pytest.raises(Refused, match="members of the event"):
        cloudevents.item_of(event)
    assert read == []
