"""Messages as server-sent events."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from functools import partial
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.config import MIB
from broker_app.net.http.routing import Operation, Route
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import RestLimits
from broker_app.net.rest.messages.arrival_stream import ArrivalStream
from broker_app.net.rest.messages.message_stream import MessageStream
from tests.rest.conftest import MakeRest, Rest, policy
from tests.support.loop_turns import Turns, loop_turns
from tests.support.patience import patient

EVENTS = "/api/v1/queues/a/events"


class Stream:
    """A bare ASGI client of one event stream; httpx waits for the end of a reply."""

    def __init__(
        self, rest: Rest, address: str, *headers: tuple[bytes, bytes], turns: Turns | None = None
    ) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = b""
        self.ended = False
        #: how much came in each of the `turns`
        self.bytes_of_turns: Counter[int] = Counter()
        self._turns = turns or Turns()
        self._arrived = asyncio.Event()
        self._gone: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._first = True
        path, _, query = address.partition("?")
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"authorization", b"Bearer mom_alice"), *headers],
        }
        self.task = asyncio.ensure_future(rest.rest_api(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            self._first = False
            return {"type": "http.request", "body": b""}
        return await asyncio.shield(self._gone)

    async def _send(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status, self.headers = event["status"], dict(event["headers"])
        else:
            self.text += event["body"]
            self.bytes_of_turns[self._turns.number] += len(event["body"])
            self.ended = not event.get("more_body", False)
        self._arrived.set()

    async def leave(self) -> None:
        self._gone.set_result({"type": "http.disconnect"})
        await self.task

    async def messages(self, count: int, event: str = "message") -> list[dict[str, Any]]:
        """Wait until `count` messages have arrived in total."""
        async with asyncio.timeout(patient(10)):
            while True:
                whole = self.text.decode().split("\n\n")[:-1]
                blocks = [block for block in whole if f"event: {event}" in block]
                if len(blocks) >= count:
                    return [json.loads(block.partition("data: ")[2]) for block in blocks]
                self._arrived.clear()
                await self._arrived.wait()


async def test_messages_are_pushed_and_settled_by_receipt(rest: Rest) -> None:
    stream = Stream(rest, f"{EVENTS}?credit=2")
    await rest.publish("a", "1", "two\nlines", "3")
    first, second = await stream.messages(2)
    assert (first["body"], second["body"]) == ("1", "two\nlines")
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert f"id: {first['id']}\nevent: message\ndata: ".encode() in stream.text
    assert rest.depth("a") == 1
    assert (await rest.alice.delete(f"/leases/{first['receipt']}")).status_code == 204
    assert (await stream.messages(3))[2]["body"] == "3"
    await stream.leave()


async def test_json_bodies_stay_in_one_line(rest: Rest) -> None:
    stream = Stream(rest, EVENTS)
    await rest.alice.post(
        "/queues/a/messages", content=b'{\r\n"a": [1,\n2]}', headers={"content-type": "application/json"}
    )
    (message,) = await stream.messages(1)
    assert message["body"] == {"a": [1, 2]}
    await stream.leave()


async def test_unsettled_messages_of_a_disconnected_client_return(rest: Rest) -> None:
    stream = Stream(rest, f"{EVENTS}?credit=5")
    await rest.publish("a", "1", "2")
    first, _ = await stream.messages(2)
    await stream.leave()
    await rest.engine.wait_idle()
    queue = rest.engine.broker.destinations.queues["/queue/a"]
    assert (queue.depth, queue.unsettled, len(queue.consumers)) == (2, 0, 0)
    assert (await rest.alice.delete(f"/leases/{first['receipt']}")).status_code == 409
    assert [item["redelivered"] for item in await rest.receive("a", max=2)] == [True, True]


async def test_a_stopping_plane_ends_streams(rest: Rest) -> None:
    stream = Stream(rest, EVENTS)
    await rest.until(lambda: stream.status == 200)
    rest.rest_api.stop()
    await stream.task
    assert stream.ended


async def test_the_stream_of_a_revoked_token_ends(rest: Rest) -> None:
    stream = Stream(rest, EVENTS)
    polling = asyncio.ensure_future(rest.alice.post("/queues/a/receive", json={"wait_s": 30}))
    await rest.until(lambda: len(rest.rest_api._waiting._waits) == 2 and stream.status == 200)
    rest.logins.reload(policy())
    rest.rest_api.policy_changed()
    assert not stream.task.done()
    rest.logins.reload(Policy())
    rest.rest_api.policy_changed()
    await stream.task
    assert stream.ended
    assert b"event: problem" in stream.text and b"not-authenticated" in stream.text
    assert (await polling).status_code == 401


async def test_requests_whose_subscription_the_broker_ends_get_the_reason(rest: Rest) -> None:
    stream = Stream(rest, EVENTS)
    polling = asyncio.ensure_future(rest.alice.post("/queues/b/receive", json={"wait_s": 30}))
    await rest.until(lambda: len(rest.rest_api._waiting._waits) == 2 and stream.status == 200)
    broker, client = rest.engine.broker, rest.rest_api.engine_client
    for name in ("a", "b"):
        (consumer,) = broker.destinations.queues[f"/queue/{name}"].consumers
        await client.inspect(partial(broker.subscriptions.end_overrun, consumer))
    await stream.task
    assert b"event: problem" in stream.text and b"slow-consumer" in stream.text
    reply = await polling
    assert reply.json()["type"] == "/docs/problems/slow-consumer"


async def test_a_silent_stream_is_kept_alive(rest: Rest) -> None:
    engine_client, rest_api = rest.rest_api.engine_client, rest.rest_api
    arrivals = ArrivalStream(engine_client, rest_api._waiting, rest.live)
    quick = MessageStream(
        *(engine_client, rest_api._waiting, rest.parts.rest.blocks, rest_api._limits, arrivals, rest.live),
        ping_s=0.001,
    )
    router = rest_api._dispatcher._routers[0]
    router._routes[Route.of("queues/{name}/events")]["GET"] = Operation(quick.stream)
    stream = Stream(rest, EVENTS)
    await rest.until(lambda: stream.text.count(b": ping\n\n") > 1)
    await stream.leave()


async def test_streams_are_bounded_and_need_a_login(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_waiting=1))
    assert (await rest.anonymous.get("/queues/a/events")).status_code == 401
    assert (await rest.alice.post("/queues/a/events")).headers["allow"] == "GET, HEAD, OPTIONS"
    assert (await rest.alice.head("/queues/a/events")).headers["content-type"] == "text/event-stream"
    assert not rest.engine.broker.destinations.queues
    assert (await rest.alice.get("/queues/a/events?credit=101")).status_code == 400
    assert (await rest.alice.head("/queues/a/events?mode=notify")).headers[
        "content-type"
    ] == "text/event-stream"
    stream = Stream(rest, EVENTS)
    await rest.until(lambda: stream.status == 200)
    refused = await rest.alice.get("/queues/a/events")
    assert (refused.status_code, refused.json()["type"]) == (503, "/docs/problems/busy")
    await stream.leave()


async def test_arrivals_are_notified_and_nothing_is_taken(rest: Rest) -> None:
    ids = await rest.publish("a", "1", "2")
    stream = Stream(rest, f"{EVENTS}?mode=notify")
    (first,) = await stream.messages(1, "arrived")
    assert (first["queue"], first["ids"], first["pending"], first["more"]) == ("a", ids, 2, False)
    assert f"-{first['seq']}\nevent: arrived\ndata: ".encode() in stream.text
    more = await rest.publish("a", "3")
    second = (await stream.messages(2, "arrived"))[1]
    assert (second["ids"], second["pending"]) == (more, 3)
    assert rest.depth("a") == 3
    await stream.leave()
    assert not rest.engine.broker.store.taps


async def test_a_stream_of_arrivals_continues_after_the_last_event(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    stream = Stream(rest, f"{EVENTS}?mode=notify")
    (first,) = await stream.messages(1, "arrived")
    await stream.leave()
    ids = await rest.publish("a", "3")
    by_browser = Stream(rest, f"{EVENTS}?mode=notify", (b"last-event-id", str(first["seq"]).encode()))
    by_program = Stream(rest, f"{EVENTS}?mode=notify&after={first['seq']}")
    for again in (by_browser, by_program):
        (found,) = await again.messages(1, "arrived")
        assert (found["ids"], found["pending"]) == (ids, 3)
        await again.leave()


async def test_a_stream_of_arrivals_after_an_event_of_another_broker_says_so_and_reports_what_waits(
    rest: Rest,
) -> None:
    ids = await rest.publish("a", "1", "2")
    events = f"{EVENTS}?mode=notify"
    for again in (
        Stream(rest, events, (b"last-event-id", b"abc-1")),
        Stream(rest, events, (b"last-event-id", b"90412")),
        Stream(rest, events, (b"last-event-id", b"of something else")),
        Stream(rest, f"{events}&after=90412"),
        Stream(rest, f"{events}&after=abc-1"),
    ):
        (found,) = await again.messages(1, "arrived")
        assert (found["ids"], found["unknown_position"]) == (ids, True)
        await again.leave()


async def test_a_stream_of_arrivals_continues_after_the_id_of_an_event(rest: Rest) -> None:
    await rest.publish("a", "1")
    events = f"{EVENTS}?mode=notify"
    stream = Stream(rest, events)
    await stream.messages(1, "arrived")
    await stream.leave()
    last = re.search(rb"^id: (.+)$", stream.text, re.MULTILINE)
    assert last is not None
    ids = await rest.publish("a", "2")
    for again in (
        Stream(rest, events, (b"last-event-id", last[1])),
        Stream(rest, f"{events}&after={last[1].decode()}"),
    ):
        (found,) = await again.messages(1, "arrived")
        assert found["ids"] == ids
        assert "unknown_position" not in found
        await again.leave()


async def test_a_notification_names_what_can_be_received(rest: Rest) -> None:
    stream = Stream(rest, f"{EVENTS}?mode=notify")
    await rest.publish("a", "1")
    (found,) = await stream.messages(1, "arrived")
    reply = await rest.alice.post("/queues/a/receive", json={"seqs": found["seqs"]})
    assert [item["id"] for item in reply.json()["items"]] == found["ids"]
    await stream.leave()


async def test_each_mode_has_parameters_of_its_own(rest: Rest) -> None:
    for query in ("mode=x", "mode=notify&credit=3", "mode=notify&selector=a", "after=3"):
        assert (await rest.alice.get(f"/queues/a/events?{query}")).status_code == 400, query


async def test_a_stream_of_arrivals_ends_when_its_right_is_lost(rest: Rest) -> None:
    stream = Stream(rest, f"{EVENTS}?mode=notify")
    await rest.publish("a", "1")
    await stream.messages(1, "arrived")
    rest.logins.reload(Policy())
    rest.rest_api.policy_changed()
    await stream.task
    assert b"event: problem" in stream.text


@pytest.mark.parametrize("content_type", ["application/octet-stream", "text/plain", "application/json"])
async def test_a_large_message_is_sent_in_pieces_each_in_a_turn_of_its_own(
    rest: Rest, content_type: str
) -> None:
    body = b'"%b"' % (b"x" * (8 * MIB))
    sent = await rest.alice.post("/queues/a/messages", content=body, headers={"content-type": content_type})
    assert sent.status_code == 201, sent.text
    async with loop_turns() as turns:
        stream = Stream(rest, EVENTS, turns=turns)
        await stream.messages(1)
    await stream.leave()
    assert len(stream.bytes_of_turns) > 8
    assert max(stream.bytes_of_turns.values()) < 2 * MIB


async def test_others_have_turns_while_a_client_takes_many_messages_at_once(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    for _ in range(50):
        await rest.publish("a", "x" * 1_000)
    async with loop_turns() as turns:
        stream = Stream(rest, f"{EVENTS}?credit=50", turns=turns)
        await stream.messages(50)
    await stream.leave()
    assert max(stream.bytes_of_turns.values()) < 2_000
