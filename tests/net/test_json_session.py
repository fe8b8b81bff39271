"""Callback subscriptions over WebSocket: the subprotocol mom.v1.json, without a server under it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.unsettled import LARGE_BODY
from broker_app.core.inspection import views
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.features.channels.content import CallOutcome, joined
from broker_app.net.auth.login import Identity
from broker_app.net.json import splitter
from broker_app.net.policy.policy import Policy, UserFacts
from broker_app.net.policy.roles import MONITOR_SENTENCE
from broker_app.net.rest.messages.chosen import NEVER_GIVEN
from tests.net.test_websocket import CONNECT, Conversation
from tests.support.listener import Listener
from tests.support.small_broker import PASSWORD, SmallBroker, small_broker

JSON = ("mom.v1.json",)
ANNA = Identity("anna")


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker(memory_bytes=4 * 1024 * 1024) as running:
        yield running


class JsonClient:
    """A client of the subprotocol; `ask` returns what answers an operation."""

    def __init__(self, broker: SmallBroker, **options: Any) -> None:
        self.conversation = Conversation(broker, offered=JSON, **options)
        self.broker = broker
        self.events: list[dict[str, Any]] = []
        self._refs = 0

    async def open(self) -> JsonClient:
        assert (await self.conversation.event())["subprotocol"] == "mom.v1.json"
        assert (await self.event("ready"))["user"] == "anna"
        return self

    def send(self, op: str, **members: Any) -> None:
        self.conversation.send(json.dumps({"op": op, **members}))

    async def ask(self, op: str, **members: Any) -> dict[str, Any]:
        self._refs += 1
        ref = f"r{self._refs}"
        self.send(op, ref=ref, **members)
        return await self._find(lambda event: event.get("ref") == ref)

    async def event(self, op: str) -> dict[str, Any]:
        return await self._find(lambda event: event["op"] == op)

    async def _find(self, wanted: Any) -> dict[str, Any]:
        for event in self.events:
            if wanted(event):
                self.events.remove(event)
                return event
        while True:
            event = json.loads(await self.conversation.data())
            if wanted(event):
                return event  # type: ignore[no-any-return]
            self.events.append(event)

    async def bodies(self, count: int) -> list[Any]:
        return [(await self.event("message"))["body"] for _ in range(count)]

    async def closed(self) -> tuple[dict[str, Any], int]:
        """The reason and the code with which the broker ends the connection."""
        reason = await self.event("closed")
        event = await self.conversation.event()
        assert event["type"] == "websocket.close"
        await self.conversation.task
        return reason, event["code"]


async def opened(broker: SmallBroker, **options: Any) -> JsonClient:
    return await JsonClient(broker, identity=ANNA, **options).open()


async def publish(broker: SmallBroker, *bodies: bytes, address: str = "/queue/a", **facts: Any) -> None:
    envelope = Envelope(address, **facts)
    broker.engine.submit(c.Publish(Listener().peer, [(envelope, body, None) for body in bodies]))
    await broker.engine.wait_idle()


def depth(broker: SmallBroker, address: str = "/queue/a") -> int:
    return broker.engine.broker.destinations.queues[address].depth


async def test_messages_are_delivered_and_acknowledged_by_receipt(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a", credit=2)
    await publish(broker, b"1", b"2", b"3")
    first = await client.event("message")
    assert (first["sub"], first["body"], first["destination"]) == ("1", "1", "/queue/a")
    assert await client.bodies(1) == ["2"]
    assert depth(broker) == 1
    assert (await client.ask("ack", receipt=first["receipt"]))["op"] == "done"
    assert await client.bodies(1) == ["3"]
    await client.conversation.leave()
    await broker.engine.wait_idle()
    assert depth(broker) == 2


async def test_a_returned_message_comes_again_or_becomes_a_dead_letter(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    await publish(broker, b"1")
    message = await client.event("message")
    await client.ask("nack", receipt=message["receipt"])
    again = await client.event("message")
    assert (again["id"], again["attempt"], again["redelivered"]) == (message["id"], 2, True)
    await client.ask("nack", receipt=again["receipt"], dead=True, reason="broken")
    assert depth(broker, "/queue/a.dead") == 1
    lost = await client.ask("ack", receipt=again["receipt"])
    assert (lost["op"], lost["type"]) == ("problem", "/docs/problems/lease-lost")


async def test_credit_and_lease_can_change(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a", credit=1, lease_s=30)
    await publish(broker, b"1", b"2", b"3")
    message = await client.event("message")
    assert message["lease_until"] is not None
    assert (await client.ask("extend", receipt=message["receipt"], extend_s=60))["op"] == "done"
    await client.ask("credit", id="1", credit=3)
    assert await client.bodies(2) == ["2", "3"]


async def test_a_client_that_is_notified_receives_by_number_and_learns_what_is_gone(
    broker: SmallBroker,
) -> None:
    await publish(broker, b"1", b"2")
    client = await opened(broker)
    await client.ask("subscribe", id="n", queue="a", mode="notify")
    found = await client.event("arrived")
    assert (found["sub"], found["queue"], found["pending"], len(found["ids"])) == ("n", "a", 2, 2)
    assert depth(broker) == 2
    received = await client.ask("receive", queue="a", seqs=[*found["seqs"], 99_999])
    assert [item["body"] for item in received["items"]] == ["1", "2"]
    assert [item["id"] for item in received["items"]] == found["ids"]
    assert received["missing"] == [{"seq": 99_999, "status": "gone", "detail": NEVER_GIVEN}]
    for item in received["items"]:
        assert (await client.ask("ack", receipt=item["receipt"]))["op"] == "done"
    assert depth(broker) == 0
    await publish(broker, b"3")
    assert (await client.event("arrived"))["pending"] == 1


async def test_notifications_continue_after_a_break(broker: SmallBroker) -> None:
    await publish(broker, b"1")
    client = await opened(broker)
    await client.ask("subscribe", id="n", queue="a", mode="notify")
    last = await client.event("arrived")
    await client.conversation.leave()
    await publish(broker, b"2", b"3")
    again = await opened(broker)
    await again.ask("subscribe", id="n", queue="a", mode="notify", after=last["seq"])
    found = await again.event("arrived")
    assert (len(found["ids"]), found["pending"]) == (2, 3)
    listed = await again.ask("pending", id="n", after=0)
    assert (listed["op"], len(listed["ids"]), listed["more"]) == ("pending", 3, False)
    await again.conversation.leave()
    assert not broker.engine.broker.store.taps


async def test_a_position_that_was_never_given_is_said_and_answered_from_what_waits(
    broker: SmallBroker,
) -> None:
    await publish(broker, b"1")
    client = await opened(broker)
    await client.ask("subscribe", id="n", queue="a", mode="notify", after=90_412)
    found = await client.event("arrived")
    assert (len(found["ids"]), found["unknown_position"]) == (1, True)
    listed = await client.ask("pending", id="n", after=90_412)
    assert (listed["ids"], listed["unknown_position"]) == (found["ids"], True)
    assert "unknown_position" not in await client.ask("pending", id="n", after=found["seq"])
    await client.ask("subscribe", id="own", queue="a", mode="notify", after=found["event_id"])
    journal, _, seq = found["event_id"].rpartition("-")
    await client.ask("subscribe", id="foreign", queue="a", mode="notify", after=f"{journal}0-{seq}")
    foreign = await client.event("arrived")
    assert (foreign["sub"], foreign["unknown_position"]) == ("foreign", True)
    refused = await client.ask("subscribe", id="odd", queue="a", mode="notify", after="yesterday")
    assert (refused["op"], refused["errors"][0]["pointer"]) == ("problem", "/after")
    await client.conversation.leave()


async def test_topics_are_delivered_also_by_a_durable_subscription(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", topic="prices.*", credit=5)
    await client.ask("subscribe", id="2", topic="prices.>", durable="kept")
    await publish(broker, b"1", address="/topic/prices.gold")
    subs = {
        (message["sub"], message["destination"])
        for message in [await client.event("message"), await client.event("message")]
    }
    assert subs == {("1", "/topic/prices.gold"), ("2", "/topic/prices.gold")}
    await client.conversation.leave()
    await publish(broker, b"2", address="/topic/prices.gold")
    again = await opened(broker)
    await again.ask("subscribe", id="2", topic="prices.>", durable="kept")
    assert await again.bodies(2) == ["1", "2"]


async def test_binary_and_json_bodies_come_as_they_are(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    await publish(broker, b"\xff\x00")
    await publish(broker, b'{"n": [1, 2]}', block=b"content-type:application/json\n")
    first, second = await client.event("message"), await client.event("message")
    assert base64.b64decode(first["body_base64"]) == b"\xff\x00"
    assert second["body"] == {"n": [1, 2]}


async def test_an_ended_subscription_brings_nothing_more(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    await client.ask("subscribe", id="2", queue="a", mode="notify")
    for id in ("1", "2"):
        assert (await client.ask("unsubscribe", id=id))["op"] == "done"
    await publish(broker, b"1")
    assert (await client.ask("ping"))["op"] == "done"
    assert client.events == []
    assert depth(broker) == 1


async def test_a_client_that_takes_nothing_is_delivered_no_more_than_fits(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a", credit=1_000)
    client.conversation.taking.clear()
    for _ in range(100):
        await publish(broker, b"x" * 10_000)
    assert depth(broker) > 80
    client.conversation.taking.set()
    for _ in range(100):
        message = await client.event("message")
        client.send("ack", receipt=message["receipt"])
    await client.ask("ping")
    assert depth(broker) == 0


async def test_messages_can_be_received_byte_for_byte_until_the_connection_ends(broker: SmallBroker) -> None:
    await publish(broker, b"\x00\xff", block=b"b:2\na:1\\cx\n", priority=7)
    client = await opened(broker)
    await client.ask("subscribe", id="n", queue="a", mode="notify")
    found = await client.event("arrived")
    received = await client.ask("receive", queue="a", seqs=found["seqs"], lease_s=0, exact=True)
    (item,) = received["items"]
    assert base64.b64decode(item["block_base64"]) == b"b:2\na:1\\cx\n"
    assert base64.b64decode(item["body_base64"]) == b"\x00\xff"
    assert (item["id"], item["priority"], item["attempts"]) == (found["ids"][0], 7, 0)
    await client.conversation.leave()
    await broker.engine.wait_idle()
    assert depth(broker) == 1


async def test_others_are_served_while_the_services_of_a_connection_end(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await opened(broker)
    for number in range(200):
        await client.ask("register", service=f"s{number}")
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    ending, seen = asyncio.ensure_future(client.conversation.leave()), {200}
    while len(broker.json.services):
        await asyncio.sleep(0)
        seen.add(len(broker.json.services))
    await ending
    assert len(seen) > 200 / 17


async def test_services_are_registered_until_the_connection_ends(broker: SmallBroker) -> None:
    client = await opened(broker)
    first = await client.ask("register", service="stock", machine="h1", type="shop", events=["sold"])
    second = await client.ask("register", service="stock", machine="h2")
    assert (first["op"], first["service"], first["callbacks"]) == ("registered", "stock", False)
    registry = broker.json.services
    assert [one.registration.machine for one in registry.named("stock")] == ["h1", "h2"]
    assert (await client.ask("deregister", id=second["id"]))["op"] == "done"
    assert (await client.ask("deregister", id=second["id"]))["type"] == "/docs/problems/not-found"
    assert len(registry) == 1
    await client.conversation.leave()
    assert len(registry) == 0


# ---------------------------------------------------------------------- login


async def test_a_client_logs_in_with_its_first_operation(broker: SmallBroker) -> None:
    client = JsonClient(broker)
    await client.conversation.event()
    assert (await client.ask("login", login="anna", passcode=PASSWORD))["op"] == "done"
    assert (await client.ask("login", login="anna", passcode=PASSWORD))["type"] == "/docs/problems/conflict"


async def test_a_second_login_is_refused_before_its_password_is_verified(broker: SmallBroker) -> None:
    client = await opened(broker)
    refused = await client.ask("login", login="anna", passcode="wrong")
    assert refused["type"] == "/docs/problems/conflict"
    assert (await client.ask("ping"))["op"] == "done"


async def test_a_handshake_can_have_the_credentials(broker: SmallBroker) -> None:
    basic = b"Basic " + base64.b64encode(f"anna:{PASSWORD}".encode())
    client = await JsonClient(broker, headers=((b"authorization", basic),)).open()
    assert (await client.ask("ping"))["op"] == "done"


@pytest.mark.parametrize(
    ("op", "members"),
    [("login", {"login": "anna", "passcode": "wrong"}), ("login", {"token": "mom_x"}), ("ping", {})],
)
async def test_a_client_that_does_not_log_in_is_refused(
    broker: SmallBroker, op: str, members: dict[str, Any]
) -> None:
    client = JsonClient(broker)
    await client.conversation.event()
    client.send(op, **members)
    reason, code = await client.closed()
    assert (reason["type"], code) == ("/docs/problems/not-authenticated", 1008)


async def test_a_client_that_says_nothing_is_disconnected() -> None:
    async with small_broker(connect_timeout=0.05) as broker:
        client = JsonClient(broker)
        await client.conversation.event()
        reason, code = await client.closed()
        assert (reason["type"], code) == ("/docs/problems/timeout", 1008)


async def test_without_a_subprotocol_the_first_bytes_decide(broker: SmallBroker) -> None:
    stomp = Conversation(broker)
    await stomp.event()
    stomp.send(CONNECT)
    assert (await stomp.data()).startswith(b"CONNECTED")
    client = Conversation(broker, identity=ANNA)
    await client.event()
    client.send(' {"op": "ping"}')
    assert json.loads(await client.data())["op"] == "ready"
    assert json.loads(await client.data())["op"] == "done"
    for conversation in (stomp, client):
        await conversation.leave()


async def test_a_websocket_that_says_nothing_at_all_is_ended() -> None:
    async with small_broker(connect_timeout=0.05) as broker:
        conversation = Conversation(broker)
        await conversation.event()
        assert b"login-timeout" in await conversation.data()
        assert (await conversation.event())["code"] == 1002


async def test_a_login_that_is_no_longer_valid_ends_the_connection(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    broker.registry.logins.reload(Policy())
    broker.json.policy_changed()
    reason, code = await client.closed()
    assert (reason["type"], code) == ("/docs/problems/not-authenticated", 1008)
    await broker.engine.wait_idle()
    assert not broker.engine.broker.destinations.queues["/queue/a"].consumers


async def test_a_lost_permission_ends_the_subscription_alone(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    await client.ask("subscribe", id="2", queue="b", mode="notify")
    refused = Refused("not-allowed", "anna may not receive from queue a")
    monkeypatch.setattr(
        type(broker.json.access),
        "refusal",
        lambda self, client, right, destination: refused if destination.name == "a" else None,
    )
    broker.json.policy_changed()
    event = await client.event("unsubscribed")
    assert (event["sub"], event["type"]) == ("1", "/docs/problems/not-allowed")
    assert (await client.ask("unsubscribe", id="2"))["op"] == "done"


async def test_a_monitor_takes_no_message_and_offers_no_service(broker: SmallBroker) -> None:
    await publish(broker, b"1")
    monitor = UserFacts("anna", PASSWORD, monitor=True)
    broker.registry.logins.reload(Policy(users={"anna": monitor}))
    client = await opened(broker)
    for op, members in (
        ("subscribe", {"id": "1", "queue": "a"}),
        ("subscribe", {"id": "1", "topic": "prices"}),
        ("receive", {"queue": "a", "seqs": [1]}),
        ("register", {"service": "billing"}),
    ):
        refused = await client.ask(op, **members)
        assert (refused["op"], refused["type"]) == ("problem", "/docs/problems/not-allowed"), op
        assert MONITOR_SENTENCE in refused["detail"]
    assert depth(broker) == 1
    assert (await client.ask("ping"))["op"] == "done", "the session goes on"


async def test_a_user_who_becomes_a_monitor_loses_subscriptions(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    broker.registry.logins.reload(Policy(users={"anna": UserFacts("anna", PASSWORD, monitor=True)}))
    broker.json.policy_changed()
    ended = await client.event("unsubscribed")
    assert (ended["sub"], ended["type"]) == ("1", "/docs/problems/not-allowed")


async def test_a_subscription_that_the_broker_ends_is_reported_and_its_id_is_free() -> None:
    async with small_broker(limits=Limits(topic_pending=5)) as broker:
        client = await opened(broker)
        await client.ask("subscribe", id="1", topic="prices", credit=1)
        await client.ask("subscribe", id="2", queue="a")
        await publish(broker, *[b"%d" % number for number in range(12)], address="/topic/prices")
        event = await client.event("unsubscribed")
        assert (event["sub"], event["type"]) == ("1", "/docs/problems/slow-consumer")
        assert (await client.ask("subscribe", id="1", topic="prices"))["op"] == "done"
        await publish(broker, b'"x"')
        assert await client.bodies(1)


async def test_a_stopping_broker_reports_why(broker: SmallBroker) -> None:
    client = await opened(broker)
    broker.json.close_all(Refused("not-active", "the broker is shutting down"))
    reason, code = await client.closed()
    assert (reason["type"], code) == ("/docs/problems/not-active", 1012)


async def test_a_failed_engine_ends_the_session(broker: SmallBroker) -> None:
    client = await opened(broker)
    broker.engine._end(RuntimeError("the disk is gone"))
    broker.json.engine_ended(RuntimeError("the disk is gone"))
    answer = await client.ask("subscribe", id="1", queue="a")
    assert answer["type"] == "/docs/problems/not-active"


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("operation", "detail"),
    [
        ({"op": "subscrib", "id": "1"}, "did you mean subscribe?"),
        ({"op": "subscribe", "id": "1"}, "name a queue or a topic"),
        ({"op": "subscribe", "id": "1", "queue": "a", "topic": "b"}, "name a queue or a topic"),
        ({"op": "subscribe", "id": "1", "queue": "a", "creditt": 1}, "did you mean credit?"),
        ({"op": "subscribe", "id": "1", "queue": "a", "credit": 0}, "must be between 1 and"),
        ({"op": "subscribe", "id": "1", "queue": "a", "mode": "x"}, "must be deliver or notify"),
        ({"op": "subscribe", "id": "1", "queue": "a", "selector": "a ="}, "selector"),
        ({"op": "subscribe", "id": "1", "queue": "a", "selector": "a" * 1_025}, "at most 1,024 are allowed"),
        ({"op": "subscribe", "id": "1", "queue": "a", "after": 3}, "is for mode notify"),
        ({"op": "subscribe", "id": "1", "topic": "a", "mode": "notify"}, "only queues notify"),
        (
            {"op": "subscribe", "id": "1", "queue": "a", "mode": "notify", "durable": "x"},
            "is for mode deliver",
        ),
        ({"op": "unsubscribe", "id": "1"}, "there is no subscription"),
        ({"op": "credit", "id": "1", "credit": 1}, "there is no subscription"),
        ({"op": "ack", "receipt": "r1"}, "is not the receipt"),
        ({"op": "receive", "queue": "a", "seqs": []}, "length"),
        ({"op": "receive", "queue": "a", "seqs": [1], "lease_s": 0.5}, "must be between"),
        ({"op": 3}, "str"),
        ({}, "operation"),
    ],
)
async def test_a_wrong_operation_is_refused_with_the_reason_and_the_session_continues(
    broker: SmallBroker, operation: dict[str, Any], detail: str
) -> None:
    client = await opened(broker)
    client.conversation.send(json.dumps(operation))
    problem = await client.event("problem")
    assert detail in json.dumps(problem), problem
    assert (await client.ask("ping"))["op"] == "done"


async def test_an_id_is_used_once(broker: SmallBroker) -> None:
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    again = await client.ask("subscribe", id="1", queue="b")
    assert again["type"] == "/docs/problems/conflict"


@pytest.mark.parametrize("data", ["[]", "hello", "}", '{"op":"' + "x" * 70_000])
async def test_what_is_no_object_ends_the_connection(broker: SmallBroker, data: str) -> None:
    client = await opened(broker)
    client.conversation.send(data)
    reason, code = await client.closed()
    assert (reason["type"], code) == ("/docs/problems/invalid", 1002)


async def test_far_too_many_operations_a_second_end_the_connection() -> None:
    async with small_broker(max_frames_per_second=20) as broker:
        client = await opened(broker)
        client.conversation.send('{"op": "ping"}' * 300)
        reason, _ = await client.closed()
        assert reason["type"] == "/docs/problems/rate-limited"


async def test_others_are_served_between_the_operations_of_one_message(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    client = await opened(broker)
    client.conversation.send("".join(f'{{"op": "ping", "ref": "{number}"}}' for number in range(500)))
    turns = 0
    while client.conversation.outgoing.qsize() < 500:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 500
    assert [(await client.event("done"))["ref"] for _ in range(500)] == [f"{n}" for n in range(500)]


async def test_a_stopping_broker_does_not_wait_for_the_operations_of_a_message(
    broker: SmallBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    client = await opened(broker)
    client.conversation.send('{"op": "unsubscribe", "id": "1"}' * 900)
    for _ in range(100):
        await asyncio.sleep(0)
    broker.json.close_all(Refused("not-active", "the broker stops"))
    reason, code = await client.closed()
    assert (reason["type"], code) == ("/docs/problems/not-active", 1012)
    assert len(client.events) < 900


async def test_only_so_many_connections_are_taken() -> None:
    async with small_broker(max_connections=1) as broker:
        first = await opened(broker)
        second = JsonClient(broker, identity=ANNA)
        await second.conversation.event()
        reason, _ = await second.closed()
        assert reason["type"] == "/docs/problems/busy"
        await first.conversation.leave()


async def test_one_user_has_half_of_the_connections() -> None:
    async with small_broker(max_connections=4) as broker:
        first, second = await opened(broker), await opened(broker)
        third = JsonClient(broker, identity=ANNA)
        await third.conversation.event()
        reason, _ = await third.closed()
        assert reason["type"] == "/docs/problems/busy"
        assert "anna has 2 connections already; the share of one user is 2 of 4" in reason["detail"]
        await second.conversation.leave()
        again = await opened(broker)
        for client in (first, again):
            await client.conversation.leave()


def test_objects_are_found_however_their_bytes_arrive() -> None:
    objects = [b'{"a":"}{\\"\\\\"}', b'{"b":{"c":[{}]}}', b"{}", '{"d":"é\\u007d"}'.encode()]
    stream = b" \n".join(objects) + b"\n"
    for size in range(1, len(stream)):
        pieces = splitter.ObjectSplitter(100)
        found = []
        for at in range(0, len(stream), size):
            pieces.put(stream[at : at + size])
            while pieces.has_unread:
                found += pieces.take(2)
        assert found == objects, size


def test_an_object_is_as_long_as_is_allowed_and_no_longer() -> None:
    for whole in (b'{"a":"%b"}' % (b"x" * 92), b"{%b}" % (b" " * 98), b'{"%b"}' % (rb"\\" * 48)):
        pieces = splitter.ObjectSplitter(100)
        pieces.put(whole + whole)
        assert pieces.take(5) == [whole, whole]
        for size in (101, 100):
            pieces.longest = len(whole) - 1
            pieces.put(whole[:size])
            with pytest.raises(splitter.Malformed, match="at most 99 bytes"):
                pieces.take(5)
            pieces = splitter.ObjectSplitter(100)


async def test_large_bodies_are_not_kept_for_unsettled_deliveries(broker: SmallBroker) -> None:
    body = b"." * (LARGE_BODY + 1)
    await publish(broker, body)
    client = await opened(broker)
    await client.ask("subscribe", id="1", queue="a")
    message = await client.event("message")
    queue = broker.engine.broker.destinations.queues["/queue/a"]
    assert [held.has_body for held in views.unsettled(broker.engine.broker, queue)] == [False]
    await client.ask("unsubscribe", id="1")
    other = await broker.client()
    other.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    frame = await other.frame()
    assert b"\nattempt:2\n" in frame and frame.endswith(body)
    assert message["attempt"] == 1
    assert [held.has_body for held in views.unsettled(broker.engine.broker, queue)] == [False]


async def test_a_handler_gets_calls_and_answers_them(broker: SmallBroker) -> None:
    channels = broker.registry.channels
    answers: list[CallOutcome] = []
    client = await JsonClient(broker, identity=ANNA).open()
    await client.ask("subscribe", id="h", topic="$channel.requests")
    answered: tuple[dict[str, Any], ...] = (
        {"body": "yes"}, {"body_base64": "AP8="}, {"parts": [{"body": "a"}] * 2}, {},
    )  # fmt: skip
    for number, given in enumerate(answered):
        channels.request("mom", joined([b"get", b"AAPL"]), 60_000, answers.append, multiple=True)
        call = await client.event("message")
        headers = call["headers"]
        assert (call["body"], headers["parts"], headers["need-response"]) == ("getAAPL", "3,4", "true")
        assert (await client.ask("answer", call=headers["channel-call"], **given))["op"] == "done"
        assert (await client.ask("ack", receipt=call["receipt"]))["op"] == "done"
        assert len(answers) == number + 1
    assert [(one.status, one.content.parts()) for one in answers] == [
        ("ok", [b"yes"]), ("ok", [b"\0\xff"]), ("ok", [b"a", b"a"]), ("keyempty", [b""]),
    ]  # fmt: skip
    again = await client.ask("answer", call=headers["channel-call"], body="again")
    assert (again["op"], again["type"]) == ("problem", "/docs/problems/invalid")
