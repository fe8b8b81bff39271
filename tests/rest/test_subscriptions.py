"""Durable and shared subscriptions over REST."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.model import InnerReceiver, Peer
from broker_app.core.policy import DestinationPolicy, Policies
from tests.rest.conftest import Rest


class Reader(InnerReceiver):
    """A client of the engine that takes nothing."""

    def __init__(self, rest: Rest, user: str = "alice") -> None:
        self._rest = rest
        self.peer = Peer(self, user=user)
        self.subscribed = 0

    async def subscribe(self, name: str, topic: str = "prices", **facts: Any) -> None:
        self.subscribed += 1
        subscribe = c.Subscribe(
            self.peer, str(self.subscribed), f"/topic/{topic}", c.INDIVIDUAL, name=name, durable=True, **facts
        )
        self._rest.engine.submit(subscribe)
        await self._rest.engine.wait_idle()

    async def leave(self) -> None:
        self._rest.engine.submit(c.Disconnect(self.peer))
        await self._rest.engine.wait_idle()

    def flush(self, peer: Peer) -> None:
        peer.receipts.clear()
        peer.deliveries.clear()
        assert not peer.refusals


async def publish(rest: Rest, topic: str = "prices") -> dict[str, Any]:
    reply = await rest.alice.post(f"/topics/{topic}/messages", content="x")
    assert reply.status_code == 201, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def test_a_subscription_shows_its_lag(rest: Rest) -> None:
    reader = Reader(rest)
    await reader.subscribe("audit", credit=1)
    for _ in range(3):
        await publish(rest)
    reply = await rest.alice.get("/subscriptions/audit")
    facts = reply.json()
    assert facts.pop("lag_s") >= 0
    assert facts == {
        "name": "audit",
        "topic": "prices",
        "durable": True,
        "shared": False,
        "selector": None,
        "owner": "alice",
        "state": "stalled",
        "consumers": 1,
        "backlog": 2,
        "unsettled": 1,
        "lag": 3,
        "published": 3,
        "delivered": 1,
        "acknowledged": 0,
        "expired": 0,
        "dead": 0,
    }
    await reader.leave()
    assert (await rest.alice.get("/subscriptions/audit")).json()["state"] == "offline"


async def test_the_reply_to_a_sender_counts_durable_subscriptions(rest: Rest) -> None:
    assert await publish(rest) | {"id": "", "seq": 0} == {"id": "", "seq": 0, "stored": "memory", "copies": 0}
    await Reader(rest).subscribe("audit")
    assert await publish(rest) | {"id": "", "seq": 0} == {"id": "", "seq": 0, "stored": "synced", "copies": 1}


async def test_they_are_listed_in_pages_and_by_topic(rest: Rest) -> None:
    reader = Reader(rest)
    for name, topic in (("a", "prices"), ("b", "news"), ("c", "prices")):
        await reader.subscribe(name, topic)
    page = (await rest.alice.get("/subscriptions", params={"limit": 2})).json()
    assert [row["name"] for row in page["items"]] == ["a", "b"]
    rest_of_it = (await rest.alice.get("/subscriptions", params={"after": page["next"]})).json()
    assert [row["name"] for row in rest_of_it["items"]] == ["c"]
    of_topic = (await rest.alice.get("/topics/prices/subscriptions")).json()
    assert [row["name"] for row in of_topic["items"]] == ["a", "c"]
    assert (await rest.alice.get("/subscriptions", params={"topic": "news"})).json()["approx_total"] == 1
    await reader.subscribe("all", ">")
    of_topic = (await rest.alice.get("/topics/prices/subscriptions")).json()
    assert [row["name"] for row in of_topic["items"]] == ["a", "all", "c"], "those that keep what comes there"


async def test_its_owner_deletes_it(rest: Rest) -> None:
    reader = Reader(rest)
    await reader.subscribe("audit")
    assert (await rest.alice.delete("/subscriptions/audit")).status_code == 409
    await reader.leave()
    assert (await rest.bob.delete("/subscriptions/audit")).status_code == 403
    assert (await rest.alice.delete("/subscriptions/audit")).status_code == 204
    assert (await rest.alice.get("/subscriptions/audit")).status_code == 404
    assert (await rest.alice.delete("/subscriptions/audit")).status_code == 404


@pytest.mark.parametrize("address", ["/subscriptions", "/subscriptions/a", "/topics/a/subscriptions"])
async def test_other_users_see_nothing(rest: Rest, address: str) -> None:
    assert (await rest.anonymous.get(address)).status_code == 401


async def test_the_history_of_a_topic_is_read_in_pages(rest: Rest) -> None:
    policy = DestinationPolicy(retention_ms=60_000)
    rest.engine.submit(c.Reconfigure(Policies(prefixes={"/topic/": policy})))
    for _ in range(3):
        assert (await publish(rest))["stored"] == "synced"
    page = (await rest.alice.get("/topics/prices/messages", params={"limit": 2})).json()
    assert (len(page["items"]), page["approx_total"]) == (2, 3)
    following = await rest.alice.get("/topics/prices/messages", params={"from": page["next"]})
    assert [item["body"] for item in following.json()["items"]] == ["x"]
    assert following.json()["next"] is None
    last = (await rest.alice.get("/topics/prices/messages", params={"from": "last"})).json()
    assert last["items"] == following.json()["items"]
    assert (await rest.alice.get("/topics/none/messages")).json()["items"] == []
    assert (await rest.alice.get("/topics/prices/messages", params={"from": "x"})).status_code == 400


async def test_a_page_of_a_history_from_a_position_of_another_journal_is_the_first_and_says_so(
    rest: Rest,
) -> None:
    policy = DestinationPolicy(retention_ms=60_000)
    rest.engine.submit(c.Reconfigure(Policies(prefixes={"/topic/": policy})))
    for _ in range(3):
        await publish(rest)

    async def page(start: str) -> dict[str, Any]:
        found: dict[str, Any] = (
            await rest.alice.get("/topics/prices/messages", params={"from": start, "limit": 2})
        ).json()
        return found

    first = await page("first")
    kind, _, position = first["next"].partition(":")
    tag, _, number = position.rpartition("-")
    assert (kind, tag) == ("seq", rest.engine.broker.turn.ids.journal)
    assert await page(f"seq:{number}") == await page(first["next"]) != first
    assert await page(f"seq:{tag}0-{number}") == {**first, "unknown_position": True}
