"""Large messages on their way to receivers of webhooks."""

from __future__ import annotations

import base64
import json
import time

import pytest
import standardwebhooks

from broker_app.features.callbacks.webhooks.callback import BINARY, STRUCTURED
from broker_app.features.callbacks.webhooks.cloud_event import Event
from broker_app.features.callbacks.webhooks.push_log import PushLog
from broker_app.features.callbacks.webhooks.push_totals import PushTotals
from broker_app.features.callbacks.webhooks.sender import Sender
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest
from tests.callback.webhooks.hooks import SECRET, callback
from tests.support.loop_turns import loop_turns

JSON = b"[%b]" % b",".join([b'{"n":1,"text":"\\u00e4\\n"}'] * 400_000)


class Poster:
    """Keeps the requests, and answers that all is well."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpAnswer:
        self.requests.append(request)
        return HttpAnswer(204, {}, b"")

    async def close(self) -> None:
        """Nothing is open."""


def event(data: bytes, content_type: str = "application/json") -> Event:
    return Event("id-1", {"specversion": "1.0", "id": "id-1", "type": "t"}, [], content_type, data)


async def pushed(given: Event) -> HttpRequest:
    """The request of a structured event."""
    poster = Poster()
    await sender_to(poster, STRUCTURED).push(given, 1)
    return poster.requests[0]


def sender_to(poster: Poster, content: str) -> Sender:
    return Sender(callback("http://127.0.0.1/", content=content), poster, PushLog(PushTotals()))


@pytest.mark.parametrize("content", [BINARY, STRUCTURED])
@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
async def test_the_request_of_a_large_message_is_made_off_the_loop(content: str, content_type: str) -> None:
    poster = Poster()
    sender = sender_to(poster, content)
    given = event(JSON, content_type)
    began = time.thread_time()
    sender._request(given, 1)
    once_s = time.thread_time() - began
    async with loop_turns() as turns:
        await sender.push(given, 1)
    assert turns.longest_s < once_s / 2
    (request,) = poster.requests
    standardwebhooks.Webhook(SECRET).verify(request.body, dict(request.headers))


@pytest.mark.parametrize("data", [JSON, b'{"a":1,"a":2}', b"[\r\n1]"], ids=["large", "twice", "lines"])
async def test_json_is_the_data_of_a_structured_event_as_it_was_written(data: bytes) -> None:
    request = await pushed(event(data))
    assert b', "data": ' + data + b"}" in request.body
    assert json.loads(request.body)["data"] == json.loads(data)


@pytest.mark.parametrize(
    "data",
    [b"[1,]", b"NaN", b'"\\ud800"', b'"\xff"', b'"' + b"\xc3\xa4" * 1_000_000 + b'\xc3"', b""],
    ids=["no JSON", "not a number", "half a character", "no UTF-8", "no UTF-8 at the end", "empty"],
)
async def test_what_is_no_json_is_in_base64(data: bytes) -> None:
    found = json.loads((await pushed(event(data))).body)
    assert found["datacontenttype"] == "application/json" and "data" not in found
    assert base64.b64decode(found["data_base64"]) == data
