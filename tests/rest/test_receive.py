"""Receiving and settling."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_app.config import MIB
from broker_app.core.delivery.unsettled import LARGE_BODY
from broker_app.core.inspection import views
from broker_app.core.limits import Limits
from broker_app.core.model import Delivery, Peer
from broker_app.engine.client import EngineClient
from broker_app.net.rest import RestLimits
from broker_app.net.rest.messages.chosen import NEVER_GIVEN, ChosenMessages
from tests.rest.conftest import MakeRest, Rest
from tests.rest.test_events import Stream
from tests.support.loop_turns import loop_turns


async def test_messages_come_in_order_with_receipts(rest: Rest) -> None:
    ids = await rest.publish("a", "1", "2", "3")
    reply = await rest.alice.post("/queues/a/receive", json={"max": 2})
    answer = reply.json()
    assert [item["id"] for item in answer["items"]] == ids[:2]
    assert [item["body"] for item in answer["items"]] == ["1", "2"]
    assert answer["more"] is True
    first = answer["items"][0]
    assert (first["attempt"], first["redelivered"]) == (1, False)
    assert first["lease_until"].endswith("Z")
    assert first["receipt"].startswith("r1.")


async def test_an_empty_queue_answers_at_once_without_a_wait(rest: Rest) -> None:
    reply = await rest.alice.post("/queues/a/receive")
    assert reply.json()["items"] == []
    assert reply.json()["more"] is False


async def test_times_may_be_written_with_their_units(rest: Rest) -> None:
    sent = await rest.alice.post(
        "/queues/a/messages/batch",
        json=[{"body": {"wait_s": "2s"}, "delay_s": "0s", "expires_s": "1.5h"}, {"body": "2"}],
    )
    assert sent.status_code < 300, sent.text
    reply = await rest.alice.post("/queues/a/receive", json={"max": 2, "wait_s": "10ms", "lease_s": "5m"})
    first, second = reply.json()["items"]
    assert first["body"] == {"wait_s": "2s"}, "what is in a body is no time"
    wish = {"nack": [{"receipt": second["receipt"], "delay_s": "1h"}], "extend": []}
    assert (await rest.alice.post("/leases/settle", json=wish)).status_code == 200
    wrong = await rest.alice.post(f"/leases/{first['receipt']}/nack", json={"delay_s": "soon"})
    error = wrong.json()["errors"][0]
    assert (wrong.status_code, error["pointer"]) == (400, "/delay_s")
    assert "such as 2s, 5m" in error["detail"]
    assert (await rest.alice.post("/queues/a/receive", json={"max": "2"})).status_code == 400


async def test_a_long_poll_ends_with_the_first_message(rest: Rest) -> None:
    polling = asyncio.ensure_future(rest.receive("a", wait_s=30, max=10))
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    await rest.publish("a", "late")
    assert [item["body"] for item in await polling] == ["late"]
    assert not rest.engine.broker.destinations.queues["/queue/a"].consumers


async def test_a_long_poll_ends_with_its_time(rest: Rest) -> None:
    assert await rest.receive("a", wait_s=0.01) == []


async def test_a_stopping_plane_lets_long_polls_end(rest: Rest) -> None:
    polling = asyncio.ensure_future(rest.receive("a", wait_s=30))
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    rest.rest_api.stop()
    assert await polling == []


async def test_a_client_that_leaves_leaves_no_subscription(rest: Rest) -> None:
    polling = asyncio.ensure_future(
        call(rest, "POST", "/api/v1/queues/a/receive", b'{"wait_s": 30}', leave=True)
    )
    await polling
    await rest.engine.wait_idle()
    assert not rest.engine.broker.destinations.queues["/queue/a"].consumers


async def call(
    rest: Rest, method: str, path: str, body: bytes, *, leave: bool, query: bytes = b""
) -> list[dict[str, Any]]:
    """A bare ASGI exchange with a client that disconnects when its body is sent."""
    events: list[dict[str, object]] = [{"type": "http.request", "body": body}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, object]:
        if events:
            return events.pop()
        if leave:
            return {"type": "http.disconnect"}
        return await asyncio.Future()

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"authorization", b"Bearer mom_alice")],
    }
    await rest.rest_api(scope, receive, send)
    return sent


async def test_bodies_are_json_text_or_base64_by_content_type(rest: Rest) -> None:
    cases = {
        ("application/json", b'{"a": [1.0, 12345678901234567890]}'): (
            "body",
            {"a": [1.0, 12345678901234567890]},
        ),
        ("application/vnd.x+json", b"null"): ("body", None),
        ("application/json", b"{broken"): ("body_base64", base64.b64encode(b"{broken").decode()),
        ("text/csv", "é".encode()): ("body", "é"),
        ("text/plain", b"\xff"): ("body_base64", "/w=="),
        ("application/octet-stream", b"abc"): ("body_base64", "YWJj"),
        ("application/x-www-form-urlencoded", b"a=b"): ("body", "a=b"),
        ("", b"plain"): ("body", "plain"),
        ("", b"\0"): ("body_base64", "AA=="),
    }
    for (content_type, body), (member, value) in cases.items():
        headers = {"content-type": content_type} if content_type else {}
        await rest.alice.post("/queues/a/messages", content=body, headers=headers)
        (item,) = await rest.receive("a", ack="auto")
        assert item[member] == value, content_type
        assert item["content_type"] == (content_type or None)
        assert item["receipt"] is None


async def test_auto_acknowledged_messages_are_gone_before_the_reply(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    assert len(await rest.receive("a", max=10, ack="auto")) == 2
    queue = rest.engine.broker.destinations.queues["/queue/a"]
    assert (queue.depth, queue.unsettled, queue.counters.acked) == (0, 0, 2)


async def test_a_raw_reply_is_the_message_itself(rest: Rest) -> None:
    await rest.publish(
        "a", "<b>x</b>", **{"content-type": "text/html", "mom-header-tenant": "acme", "mom-type": "t"}
    )
    reply = await rest.alice.post("/queues/a/receive?raw=true&max=1")
    assert (reply.content, reply.headers["content-type"]) == (b"<b>x</b>", "text/html")
    assert (reply.headers["mom-header-tenant"], reply.headers["mom-type"]) == ("acme", "t")
    assert "sandbox" in reply.headers["content-security-policy"]
    assert (await rest.alice.delete(f"/leases/{reply.headers['mom-receipt']}")).status_code == 204
    assert (await rest.alice.post("/queues/a/receive?raw=true&max=1")).status_code == 204
    assert (await rest.alice.post("/queues/a/receive?raw=true&max=2")).status_code == 400


async def test_others_have_turns_between_bodies_that_are_not_short(rest: Rest) -> None:
    count, found = 40, []
    for size in (10, 100_000):
        for _ in range(count):
            await rest.alice.post("/queues/a/messages", content=bytes(size))
        async with loop_turns() as turns:
            assert len(await rest.receive("a", max=count, ack="auto")) == count
        found.append(turns.number)
    assert found[1] >= found[0] + count


async def test_a_large_raw_reply_is_sent_in_parts(rest: Rest) -> None:
    body = bytes(range(256)) * (4 * MIB // 256)
    await rest.alice.post("/queues/a/messages", content=body)
    path = "/api/v1/queues/a/receive"
    head, *parts = await call(rest, "POST", path, b"", leave=False, query=b"raw=true")
    assert (b"content-length", b"%d" % len(body)) in head["headers"]
    assert b"".join(part["body"] for part in parts) == body
    assert max(len(part["body"]) for part in parts) < MIB


async def test_a_header_of_a_message_cannot_write_the_head_of_a_raw_reply(rest: Rest) -> None:
    await rest.alice.post(
        "/queues/a/messages/batch",
        json=[
            {"body": "x", "content_type": "a\r\nb: c", "headers": {"x": "1\r\nset-cookie: a=b", "y z": "1"}}
        ],
    )
    reply = await rest.alice.post("/queues/a/receive?raw=true")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["mom-header-x"] == "1  set-cookie: a=b"
    assert "set-cookie" not in reply.headers
    assert "mom-header-y z" not in reply.headers


async def test_messages_that_wait_in_the_journal_come_without_a_wait(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=1, fetch_messages=4))
    await rest.publish("a", *map(str, range(10)))
    bodies: list[str] = []
    while items := await rest.receive("a", max=3, ack="auto"):
        bodies += [item["body"] for item in items]
    assert bodies == [str(i) for i in range(10)]


async def test_a_lease_that_ends_gives_the_message_to_the_next(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a", lease_s=1)
    (again,) = await rest.receive("a", wait_s=10)
    assert (again["id"], again["attempt"], again["redelivered"]) == (item["id"], 2, True)
    late = await rest.alice.delete(f"/leases/{item['receipt']}")
    assert (late.status_code, late.json()["type"]) == (409, "/docs/problems/lease-lost")
    assert (await rest.alice.delete(f"/leases/{again['receipt']}")).status_code == 204


async def test_a_large_body_is_not_kept_for_a_lease_and_can_still_be_seen(rest: Rest) -> None:
    body = "." * (LARGE_BODY + 1)
    (id,) = await rest.publish("a", body)
    (item,) = await rest.receive("a")
    queue = rest.engine.broker.destinations.queues["/queue/a"]
    assert [held.has_body for held in views.unsettled(rest.engine.broker, queue)] == [False]
    assert (await rest.alice.get(f"/messages/{id}/body?queue=a")).text == body
    (shown,) = (await rest.alice.get("/queues/a/messages")).json()["items"]
    assert (shown["id"], shown["state"], shown["size"]) == (id, "unsettled", len(body))
    await rest.alice.post(f"/leases/{item['receipt']}/nack")
    (again,) = await rest.receive("a", wait_s=10)
    assert (again["body"], again["attempt"]) == (body, 2)


async def test_acknowledging_twice_is_answered_with_gone(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    assert (await rest.alice.delete(f"/leases/{item['receipt']}")).status_code == 204
    again = await rest.alice.delete(f"/leases/{item['receipt']}")
    assert (again.status_code, again.json()["now_held_by"]) == (409, "gone")


async def test_a_receipt_is_valid_for_its_client_only(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    assert (await rest.bob.delete(f"/leases/{item['receipt']}")).status_code == 403
    assert rest.engine.broker.destinations.queues["/queue/a"].unsettled == 1


@pytest.mark.parametrize(
    ("receipt", "status"), [("x", 404), ("r1.zz.1", 404), ("r1.00000000.1", 409), ("r1.00000000.", 404)]
)
async def test_receipts_that_are_none(rest: Rest, receipt: str, status: int) -> None:
    assert (await rest.alice.delete(f"/leases/{receipt}")).status_code == status


async def test_a_lease_can_be_extended(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a", lease_s=1)
    tag = int(item["receipt"].rpartition(".")[2], 16)
    before = rest.rest_api.engine_client.leases.until_ms(tag)
    assert (await rest.alice.patch(f"/leases/{item['receipt']}", json={"extend_s": 60})).status_code == 204
    assert rest.rest_api.engine_client.leases.until_ms(tag) >= before + 50_000
    assert (await rest.alice.patch(f"/leases/{item['receipt']}", json={"extend_s": 0})).status_code == 400
    assert (await rest.alice.patch(f"/leases/{item['receipt']}", json={"extends": 1})).status_code == 400
    assert (await rest.alice.patch(f"/leases/{item['receipt']}")).status_code == 400


async def test_a_message_can_be_given_back_or_to_the_dead_letters(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    assert (await rest.alice.post(f"/leases/{item['receipt']}/nack")).status_code == 204
    (item,) = await rest.receive("a")
    assert item["attempt"] == 2
    wish = {"reason": "db: down", "dead": True, "delay_s": 0}
    assert (await rest.alice.post(f"/leases/{item['receipt']}/nack", json=wish)).status_code == 204
    (dead,) = await rest.receive("a.dead")
    told = ("origin", "dead-reason", "dead-detail", "dead-attempts")
    assert [dead["headers"][name] for name in told] == ["/queue/a", "REJECTED", "db: down", "2"]
    assert dead["headers"]["dead-consumer"].endswith("/alice")
    assert dead["id"] == item["id"]


async def test_a_message_can_be_given_back_for_later(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    receipt = item["receipt"]
    assert (await rest.alice.post(f"/leases/{receipt}/nack", json={"delay_s": 3600})).status_code == 204
    assert await rest.receive("a") == []
    assert rest.engine.broker.destinations.queues["/queue/a"].unsettled == 1


async def test_a_message_cannot_be_given_back_for_ever(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    reply = await rest.alice.post(f"/leases/{item['receipt']}/nack", json={"delay_s": -1})
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (400, "/delay_s")


async def test_many_are_settled_at_once_each_with_its_result(rest: Rest) -> None:
    await rest.publish("a", *"123456")
    first, second, third, fourth, fifth, _ = [item["receipt"] for item in await rest.receive("a", max=10)]
    await rest.alice.delete(f"/leases/{fifth}")
    reply = await rest.alice.post(
        "/leases/settle",
        json={
            "ack": [first, fifth, second, "nonsense"],
            "nack": [{"receipt": third, "reason": "no"}, {"receipt": "r1.00000000.1"}],
            "extend": [{"receipt": fourth, "extend_s": 60}],
        },
    )
    assert reply.status_code == 200
    answer = reply.json()
    problems = [item.get("error", {}).get("type", "").rpartition("/")[2] for item in answer["ack"]]
    assert problems == ["", "lease-lost", "", "not-found"]
    assert answer["nack"][0] == {"receipt": third}
    assert answer["nack"][1]["error"]["status"] == 409
    assert answer["extend"] == [{"receipt": fourth}]
    queue = rest.engine.broker.destinations.queues["/queue/a"]
    assert (queue.counters.acked, queue.depth, queue.unsettled) == (3, 1, 2)


async def test_nothing_is_settled_when_the_request_is_wrong(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    wrongs: list[Any] = [
        {"ack": [item["receipt"]], "extend": [{"receipt": "x", "extend_s": 0}]},
        {"ack": [item["receipt"]], "acks": []},
        {"ack": item["receipt"]},
        [],
    ]
    for wrong in wrongs:
        assert (await rest.alice.post("/leases/settle", json=wrong)).status_code == 400
    assert rest.engine.broker.destinations.queues["/queue/a"].unsettled == 1


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (b'{"max": 0}', 400, "/max"),
        (b'{"max": 1001}', 400, "/max"),
        (b'{"max": "1"}', 400, "/max"),
        (b'{"wait_s": 61}', 400, "/wait_s"),
        (b'{"wait_s": -1}', 400, "/wait_s"),
        (b'{"lease_s": 0}', 400, "/lease_s"),
        (b'{"ack": "no"}', 400, "/ack"),
        (b'{"maxx": 1}', 400, "/maxx"),
        (b'{"max": 1', 400, ""),
        (b"[1]", 400, ""),
        (b'"\xff"', 400, ""),
        (b"[" * 100_000, 400, ""),
        (b'{"selector": "a = "}', 400, None),
    ],
)
async def test_a_wrong_receive_is_refused(rest: Rest, body: bytes, status: int, pointer: str | None) -> None:
    reply = await rest.alice.post(
        "/queues/a/receive", content=body, headers={"content-type": "application/json"}
    )
    assert reply.status_code == status, reply.text
    if pointer is not None:
        assert reply.json()["errors"][0]["pointer"] == pointer
    assert "/queue/a" not in rest.engine.broker.destinations.queues


async def test_a_receive_needs_json_login_and_post(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_request_bytes=10))
    wrong = await rest.alice.post(
        "/queues/a/receive", content=b"max=1", headers={"content-type": "text/plain"}
    )
    assert wrong.status_code == 415
    assert (await rest.anonymous.post("/queues/a/receive")).status_code == 401
    assert (await rest.alice.get("/queues/a/receive")).headers["allow"] == "OPTIONS, POST"
    assert (await rest.alice.post("/queues/a/receive", json={"max": 1, "wait_s": 1})).status_code == 413


async def test_only_so_many_may_wait(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_waiting=1))
    polling = asyncio.ensure_future(rest.receive("a", wait_s=30))
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    refused = await rest.alice.post("/queues/a/receive", json={"wait_s": 30})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    await rest.publish("a", "1")
    assert len(await polling) == 1


async def test_a_request_by_number_is_answered_with_8_mib_and_says_what_is_left(rest: Rest) -> None:
    body = bytes(5 * 1024 * 1024)
    sent = [await rest.alice.post("/queues/a/messages", content=body) for _ in range(3)]
    seqs = [answer.json()["seq"] for answer in sent]
    answer = (await rest.alice.post("/queues/a/receive", json={"seqs": seqs})).json()
    assert [item["seq"] for item in answer["items"]] == seqs[:2]
    assert [(one["seq"], one["status"]) for one in answer["missing"]] == [(seqs[2], "left")]
    answer = (await rest.alice.post("/queues/a/receive", json={"seqs": seqs[2:]})).json()
    assert ([item["seq"] for item in answer["items"]], answer["missing"]) == (seqs[2:], [])


async def test_messages_are_received_by_their_numbers(rest: Rest) -> None:
    await rest.publish("a", "1", "2", "3")
    seqs = [row["position"] for row in (await rest.alice.get("/queues/a/messages")).json()["items"]]
    reply = await rest.alice.post("/queues/a/receive", json={"seqs": [seqs[2], seqs[0], 4_711]})
    answer = reply.json()
    assert [(item["body"], item["seq"]) for item in answer["items"]] == [("3", seqs[2]), ("1", seqs[0])]
    assert answer["missing"] == [{"seq": 4_711, "status": "gone", "detail": NEVER_GIVEN}]
    assert answer["more"] is True
    for item in answer["items"]:
        assert (await rest.alice.delete(f"/leases/{item['receipt']}")).status_code == 204
    assert [item["body"] for item in await rest.receive("a", max=10)] == ["2"]


async def test_a_message_is_not_received_by_a_position_of_another_journal(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    stream = Stream(rest, "/api/v1/queues/a/events?mode=notify")
    (found,) = await stream.messages(1, "arrived")
    await stream.leave()
    first, second = found["seqs"]
    asked = [f"{found['journal']}0-{first}", f"{found['journal']}-{second}"]
    answer = (await rest.alice.post("/queues/a/receive", json={"seqs": asked})).json()
    assert [item["body"] for item in answer["items"]] == ["2"]
    assert answer["missing"] == [{"seq": asked[0], "status": "gone", "detail": NEVER_GIVEN}]


async def test_another_consumer_s_message_is_not_taken_by_its_number(rest: Rest) -> None:
    await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    answer = (await rest.bob.post("/queues/a/receive", json={"seqs": [item["seq"]]})).json()
    assert answer["items"] == []
    assert answer["missing"] == [{"seq": item["seq"], "status": "unsettled"}]


async def test_messages_chosen_with_auto_are_settled_at_once(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    seqs = [row["position"] for row in (await rest.alice.get("/queues/a/messages")).json()["items"]]
    answer = (await rest.alice.post("/queues/a/receive", json={"seqs": seqs[1:], "ack": "auto"})).json()
    assert [(item["body"], item["receipt"]) for item in answer["items"]] == [("2", None)]
    assert rest.engine.broker.destinations.queues["/queue/a"].unsettled == 0


async def test_messages_outside_memory_are_received_by_their_numbers(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=1, fetch_messages=1))
    await rest.publish("a", *map(str, range(20)))
    rows = (await rest.alice.get("/queues/a/messages")).json()["items"]
    answer = (await rest.alice.post("/queues/a/receive", json={"seqs": [rows[15]["position"]]})).json()
    assert [item["body"] for item in answer["items"]] == ["15"]


@pytest.mark.parametrize("more", [{"max": 1}, {"wait_s": 1}, {"selector": "a = 'b'"}])
async def test_chosen_messages_are_neither_counted_nor_awaited_nor_selected(
    rest: Rest, more: dict[str, Any]
) -> None:
    reply = await rest.alice.post("/queues/a/receive", json={"seqs": [1], **more})
    assert reply.status_code == 400
    assert "cannot be given together with seqs" in reply.text


class NotedReads:
    """The reader of an engine; `turns` are those that read now."""

    def __init__(self, rest: Rest) -> None:
        self._records = rest.engine.records
        self.turns = 0
        self.repeat = self._records.repeat

    def __call__(self, positions: Sequence[int]) -> list[bytes]:
        return self._records(positions)

    @asynccontextmanager
    async def turn(self, positions: Sequence[int]) -> AsyncIterator[Sequence[int]]:
        async with self._records.turn(positions) as now:
            self.turns += 1
            yield now
            self.turns -= 1


class Holding:
    """Holds all deliveries, as a reflex does that is slow to decide."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def concerns(self, address: str) -> bool:
        return True

    def take(self, peer: Peer, deliveries: list[Delivery]) -> None:
        self.held.append((peer, deliveries))


async def test_others_may_read_while_a_reflex_decides_about_chosen_messages(rest: Rest) -> None:
    await rest.publish("a", "1")
    seq = (await rest.alice.get("/queues/a/messages")).json()["items"][0]["position"]
    reads, holding = NotedReads(rest), Holding()
    rest.engine.intercept(deliveries=[holding])
    chosen = ChosenMessages(EngineClient(rest.engine, "rest", ordered=False), reads)
    receiving = asyncio.ensure_future(
        chosen.receive("/queue/a", [seq], "alice", 10, lambda tag, message, until_ms: [message.body])
    )
    await rest.until(lambda: bool(holding.held))
    await rest.until(lambda: not reads.turns)
    assert not receiving.done()
    rest.engine.deliver(holding, *holding.held[0])
    assert (await receiving).rows == [[b"1"]]
