"""Ordinary users see on the broker's own topics and queues what REST shows to them, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.base.events import FILES_APPLIED
from broker_app.core import commands as c
from broker_app.core.destination import parse
from broker_app.core.message import Envelope
from broker_app.features.callbacks.webhooks.callback import PAUSED, Callback
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.json.outbox import Outbox
from broker_app.net.json.session import JsonSession
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.net.policy.policy import Grant
from broker_app.rules.event import BROWSE, MANAGE, METHODS, READ, RECEIVE, SEND
from broker_app.rules.rule import Rule
from mom_client import Refused
from tests.support.listener import Listener
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

USERS: Mapping[str, tuple[str, ...]] = {"alice": (), "bob": (), "root": ()}
BOBS = (Rule("bobs", conditions="/event/queue == bobs"), Rule("topics", conditions="/event/topic =~ .*"))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    async with small_node(tmp_path, policy_of(users=USERS, admins=("root",))) as running:
        yield running


class Heard:
    """Messages of system topics that a client gets, by topic."""

    def __init__(self, messages: mom_client.Subscription) -> None:
        self._messages = messages
        self.found: dict[str, list[dict[str, Any]]] = {}

    async def until(self, topic: str, word: str = "") -> dict[str, Any]:
        """The first body on a topic that has a word in it, when all that came before is read."""
        async with asyncio.timeout(patient(10)):
            while True:
                message = await self._messages.get(timeout_s=patient(10))
                body: dict[str, Any] = json.loads(message.body)
                name = message.destination.removeprefix("/topic/")
                self.found.setdefault(name, []).append(body)
                if name == topic and word in message.text:
                    return body

    def __str__(self) -> str:
        return json.dumps(self.found)


async def test_what_is_delivered_of_system_topics_is_no_delivery_of_the_node(node: SmallNode) -> None:
    async with node.stomp("root") as root, root.subscribe("/topic/$mom.>") as messages:
        heard = Heard(messages)
        await put(node, "orders")
        async with root.subscribe("/queue/orders") as orders:
            await (await orders.get(timeout_s=patient(10))).ack()
        await heard.until("$mom.stats", "orders")
    counters = node.node.broker.turn.counters
    assert (counters["delivered"], counters["delivered_of_topics"]) == (1, 0), str(heard)


async def put(node: SmallNode, queue: str) -> None:
    async with node.stomp("root") as root:
        await root.send(f"/queue/{queue}", "1")


async def test_a_user_sees_events_of_destinations_that_the_user_may_browse(node: SmallNode) -> None:
    await node.rule(*BOBS)
    async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.>") as messages:
        heard = Heard(messages)
        await put(node, "hidden.of.alice")
        await put(node, "bobs")
        await heard.until("$mom.dest.created", "bobs")
        await heard.until("$mom.stats", "bobs")
        await heard.until("$mom.node")
    assert "$mom.stats.bobs" in heard.found
    assert "hidden" not in str(heard)


async def test_a_durable_subscription_is_shown_to_those_who_may_browse_its_topic(node: SmallNode) -> None:
    await node.rule(*BOBS)
    async with node.stomp("root") as root, root.subscribe("/topic/prices", durable="of-prices"):
        await put(node, "bobs")
    async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.>") as messages:
        await Heard(messages).until("$mom.stats", "of-prices")


async def test_a_snapshot_names_no_destination_that_the_user_may_not_browse(node: SmallNode) -> None:
    await node.rule(*BOBS)
    async with node.stomp("root") as root, root.subscribe("/queue/hidden"), root.subscribe("/queue/bobs"):
        await put(node, "hidden")
        everything = {"snapshot": "true"}
        async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.>", headers=everything) as messages:
            heard = Heard(messages)
            await heard.until("$mom.consumer.bobs")
            await heard.until("$mom.node")
    assert "$mom.consumer.hidden" not in heard.found


async def test_a_user_sees_own_connections_where_there_are_rules(node: SmallNode) -> None:
    await node.rule(*BOBS)
    async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.conn.>") as messages:
        heard = Heard(messages)
        async with node.stomp("alice"), node.stomp("bob"):
            event = await heard.until("$mom.conn.opened")
    assert event["data"]["user"] == "bob"
    assert "alice" not in str(heard)


@pytest.mark.parametrize(
    "topic", ["$mom.event", "$mom.alert", "$mom.bridge.>", "$mom.mirror.x", "$mom.config.files"]
)
async def test_topics_for_administrators_are_refused_to_others(node: SmallNode, topic: str) -> None:
    async with node.stomp("bob") as bob, node.stomp("root") as root:
        with pytest.raises(Refused, match="the broker's own"):
            async with bob.subscribe(f"/topic/{topic}"):
                pass
        async with root.subscribe(f"/topic/{topic}"):
            pass


async def test_a_wildcard_does_not_bring_topics_for_administrators(node: SmallNode) -> None:
    async with (
        node.stomp("bob") as bob,
        bob.subscribe("/topic/$mom.>") as messages,
        node.stomp("root") as root,
        root.subscribe("/topic/$mom.>") as all_messages,
    ):
        heard, of_root = Heard(messages), Heard(all_messages)
        node.node.events.report(FILES_APPLIED, "timer", detail="of administrators")
        await of_root.until("$mom.event", "of administrators")
        await put(node, "marker")
        await heard.until("$mom.dest.created", "marker")
    assert "of administrators" not in str(heard)


async def test_a_right_that_is_lost_ends_the_events_about_it(node: SmallNode) -> None:
    async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.>") as messages:
        heard = Heard(messages)
        await put(node, "first")
        await heard.until("$mom.dest.created", "first")
        await node.rule(*BOBS)
        await put(node, "second")
        await put(node, "bobs")
        await heard.until("$mom.dest.created", "bobs")
    assert "second" not in str(heard)


async def test_a_snapshot_has_what_the_user_may_see(node: SmallNode) -> None:
    await put(node, "hidden")
    await put(node, "bobs")
    await node.rule(*BOBS)
    snapshot = {"snapshot": "true"}
    async with node.stomp("bob") as bob, bob.subscribe("/topic/$mom.>", headers=snapshot) as messages:
        heard = Heard(messages)
        found = await heard.until("$mom.dest.created")
        await heard.until("$mom.conn.opened")
    assert [one["destination"] for one in found["data"]["items"]] == ["/queue/bobs"]
    assert "hidden" not in str(heard)


async def test_the_url_of_a_callback_is_shown_whole_to_its_owner_alone(node: SmallNode) -> None:
    url, shown = "http://user:secret@127.0.0.1:1/path?token=S3CRET", "http://127.0.0.1:1/path"
    paused = Callback("hook", url, owner="alice", queue="q", desired=PAUSED)
    async with (
        node.stomp("alice") as alice,
        node.stomp("bob") as bob,
        node.stomp("root") as root,
        alice.subscribe("/topic/$mom.callback.>") as of_alice,
        bob.subscribe("/topic/$mom.>") as of_bob,
        root.subscribe("/topic/$mom.>") as of_root,
    ):
        await node.change(callbacks={"hook": paused})
        assert (await Heard(of_alice).until("$mom.callback.hook"))["data"]["url"] == url
        assert (await Heard(of_root).until("$mom.callback.hook"))["data"]["url"] == shown
        heard = Heard(of_bob)
        await put(node, "marker")
        await heard.until("$mom.dest.created", "marker")
    assert "hook" not in str(heard)
    for user, expected in (("alice", url), ("root", shown)):
        async with node.rest(user) as rest:
            assert (await rest.get("/callbacks/hook/status")).json()["url"] == expected
            assert [one["url"] for one in (await rest.get("/webhooks")).json()["items"]] == [expected]


async def test_a_durable_subscription_gets_what_its_user_may_see(node: SmallNode) -> None:
    async with node.stomp("root") as root, root.subscribe("/topic/$mom.event", durable="kept"):
        pass
    async with (
        node.stomp("bob") as bob,
        bob.subscribe("/topic/$mom.>") as messages,
        node.stomp("root") as root,
    ):
        node.node.events.report(FILES_APPLIED, "timer", detail="while away")
        await put(node, "marker")
        await Heard(messages).until("$mom.dest.created", "marker")
        async with root.subscribe("/topic/$mom.event", durable="kept") as kept:
            await Heard(kept).until("$mom.event", "while away")


async def test_a_json_client_gets_what_its_user_may_see(node: SmallNode) -> None:
    await node.rule(*BOBS)
    sent = b""
    outbox = Outbox()
    info, bob = ConnectionInfo("websocket"), Identity("bob")
    session = JsonSession(node.node.json, outbox, info, bob, authenticated=lambda: None)
    session.enter()
    await session.do(b'{"op":"subscribe","id":"1","topic":"$mom.>","mode":"deliver","credit":1000}')
    await put(node, "hidden")
    await put(node, "bobs")
    async with asyncio.timeout(patient(10)):
        while b"dest.created" not in sent:
            sent += b"".join(event for event in await outbox.take() if isinstance(event, bytes))
    session.end()
    assert b"hidden" not in sent


@pytest.mark.parametrize("name", ["$seeds", "$seed-copies", "$bulk.dead", "$anything"])
async def test_queues_of_the_broker_are_for_administrators(node: SmallNode, name: str) -> None:
    listener = Listener()
    node.node.engine.submit(c.Publish(listener.peer, [(Envelope(f"/queue/{name}"), b"secret", None)]))
    await node.node.engine.wait_idle()
    async with node.stomp("bob") as mom, node.rest("bob") as bob, node.rest("root") as root:
        with pytest.raises(Refused, match="the broker's own"):
            async with mom.subscribe(f"/queue/{name}"):
                pass
        query = {"queue": name}
        for method, path in (
            ("GET", "/queues/messages"), ("POST", "/queues/receive"), ("GET", "/queues/events"),
            ("DELETE", "/queues/messages?all=true"), ("GET", "/queues/stats"),
        ):  # fmt: skip
            params = {**query, "all": "true"} if method == "DELETE" else query
            reply = await bob.request(method, path.partition("?")[0], params=params)
            assert reply.status_code == 403, (path, reply.text)
        assert name not in [row["name"] for row in (await bob.get("/queues")).json()["items"]]
        assert name not in (await bob.get("/stats")).text
        assert (await root.get("/queues/messages", params=query)).status_code == 200
    assert node.depth(name) == 1


def test_no_rule_and_no_grant_opens_what_is_for_administrators() -> None:
    everything = (Grant(frozenset(METHODS), (">", "/queue/$seeds", "/topic/$mom.>")),)
    policy = policy_of(
        Rule("all"), users=USERS, admins=("root",), grants={"bob": everything, "root": everything}
    )
    logins = Logins(policy, lambda given, expected: given == expected)
    access = Access(logins)
    for name, seen in (("bob", False), ("root", True)):
        identity = logins.bearer(f"mom_{name}")
        assert identity is not None
        client = Client(identity, ConnectionInfo("stomp"))
        for address in ("/queue/$seeds", "/topic/$mom.event", "/topic/$mom.bridge.west"):
            for right in (RECEIVE, BROWSE, READ, MANAGE):
                assert access.allows(client, right, parse(address)) is seen, (name, right, address)
            assert not access.allows(client, SEND, parse(address))
        assert access.allows(client, RECEIVE, parse("/topic/$mom.>"))
