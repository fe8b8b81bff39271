"""Bridges over HTTP: how they stand, what is asked of them, and their queues under addresses of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.net.policy.policy import UserFacts
from broker_app.rules.ruleset import Rules
from tests.rest.bridging import BOBS, ORDERS
from tests.rest.conftest import Rest
from tests.rest.test_operator_actions import told


async def test_the_status_of_all_bridges(bridged: Rest) -> None:
    orphan = {"bridge": "gone", "queue": "q", "source": "/queue/storeAndForward:gone/queue/q", "depth": 4}
    bridged.bridges.stray = [{**orphan, "error": {"code": "NO_BRIDGE", "detail": "none"}}]
    mark = {"sender": "south~1f", "source": "bills", "owner": "s", "accepted": 812, "count": 400}
    bridged.bridges.marks = [{**mark, "time_ms": 1_750_000_000_000}]
    shown = (await bridged.alice.get("/forwarding")).json()
    east, west = shown["bridges"]
    assert (west["name"], west["state"], west["backlog"], west["flow_count"]) == ("west", "retrying", 5, 2)
    assert (west["sent"], west["accepted"], west["in_flight"]) == (20, 16, 2)
    assert west["error"] == {"code": "REFUSED", "detail": "no listener", "at": "2025-06-15T15:06:40.000Z"}
    assert west["progress_at"] == "2025-06-15T15:06:40.500Z"
    assert (west["delivery"], east["delivery"]) == (None, "at-least-once")
    assert [one["queue"] for one in west["flows"]] == ["bills", "orders"]
    assert [one["bridge"] for one in shown["orphans"]] == ["gone"]
    assert shown["incoming"] == [{**mark, "at": "2025-06-15T15:06:40.000Z"}]
    brief = (await bridged.alice.get("/forwarding?flows=false")).json()
    assert brief["bridges"][1] == {name: value for name, value in west.items() if name != "flows"}
    assert "hidden" not in str(shown)


def begin_flow(rest: Rest, user: str = "south") -> Peer:
    """Forward one message as another broker; who does."""
    peer = Peer(InnerReceiver(), user=user)
    envelope = Envelope("/queue/t")
    rest.engine.submit(c.BeginFlow(peer, "f", "south~1f", "bills", "/queue/t"))
    rest.engine.submit(c.Forward(peer, "f", [(envelope, b"", None)], [812]))
    return peer


INCOMING = "/forwarding/incoming"
BILLS_OF_SOUTH = f"{INCOMING}?sender=south~1f&source=bills"


async def test_administrators_delete_replication_offsets(bridged: Rest) -> None:
    peer = begin_flow(bridged)
    await bridged.rest_api.turn()
    refused = await bridged.alice.delete(BILLS_OF_SOUTH)
    assert refused.status_code == 409, refused.text
    assert "at the moment as the user south" in refused.json()["detail"]
    bridged.engine.submit(c.Disconnect(peer))
    refused = await bridged.bob.delete(BILLS_OF_SOUTH)
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")
    assert bridged.engine.broker.forwarding.offsets
    assert told(bridged) == []
    assert (await bridged.alice.delete(BILLS_OF_SOUTH)).status_code == 204
    assert not bridged.engine.broker.forwarding.offsets
    assert told(bridged) == [("deleted", "offsets", "south~1f/bills", {})]
    assert (await bridged.alice.delete(BILLS_OF_SOUTH)).status_code == 404


async def test_administrators_reassign_replication_offsets(bridged: Rest) -> None:
    peer = begin_flow(bridged)
    await bridged.rest_api.turn()
    assert (await bridged.alice.patch(BILLS_OF_SOUTH, json={"owner": "bob"})).status_code == 409
    bridged.engine.submit(c.Disconnect(peer))
    refused = await bridged.bob.patch(BILLS_OF_SOUTH, json={"owner": "bob"})
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")
    refused = await bridged.alice.patch(BILLS_OF_SOUTH, json={"owner": "bbo"})
    assert (refused.status_code, "did you mean bob?" in refused.json()["detail"]) == (404, True)
    assert (await bridged.alice.patch(BILLS_OF_SOUTH, json={"owner": "bob"})).status_code == 204
    assert [mark.owner for mark in bridged.engine.broker.forwarding.offsets.values()] == ["bob"]
    assert told(bridged) == [("handed over", "offsets", "south~1f/bills", {"owner": "bob"})]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "in `incoming`"),
        ("?sender=south~1f", 400, "in `incoming`"),
        ("?sender=suoth~1f&source=bills", 404, "did you mean south~1f?"),
        ("?sender=south~1f&source=bill", 404, "did you mean bills?"),
    ],
)
async def test_an_unknown_offset_cannot_be_deleted(
    bridged: Rest, query: str, status: int, words: str
) -> None:
    bridged.engine.submit(c.Disconnect(begin_flow(bridged)))
    await bridged.rest_api.turn()
    refused = await bridged.alice.delete(INCOMING + query)
    assert refused.status_code == status
    assert words in refused.text
    assert bridged.engine.broker.forwarding.offsets


async def test_others_see_what_they_may_browse_and_nothing_else(bridged: Rest) -> None:
    users = {"alice": UserFacts("alice", "alice", True), "bob": UserFacts("bob", "bob")}
    said = replace(bridged.logins.policy, version=2, users=users, rules=Rules(BOBS[:1]))
    bridged.logins.reload(said)
    shown = (await bridged.bob.get("/forwarding")).json()
    (west,) = shown["bridges"]
    assert ([one["queue"] for one in west["flows"]], west["backlog"]) == (["orders"], 2)
    events = (await bridged.bob.get("/bridges/west/events")).json()["items"]
    assert [one["queue"] for one in events] == ["orders", ""]
    for name in ("east", "nowhere"):
        refused = await bridged.bob.get(f"/bridges/{name}/status")
        assert (refused.status_code, refused.json()["right"]) == (403, "browse"), (
            "whether there is one is hidden"
        )


async def test_events_of_a_bridge_are_listed_newest_first(bridged: Rest) -> None:
    shown = (await bridged.alice.get("/bridges/west/events?limit=2")).json()
    assert [one["queue"] for one in shown["items"]] == ["bills", "orders"]
    assert shown["approx_total"] == 3
    assert shown["items"][0] == {
        "at": "2025-06-15T15:06:40.002Z", "first_at": "2025-06-15T15:06:40.000Z", "event": "refused",
        "queue": "bills", "code": "TARGET_FULL", "detail": "full", "times": 2,
    }  # fmt: skip
    assert (await bridged.alice.get("/bridges/east/events")).json()["items"] == []


@pytest.mark.parametrize("path", ["status", "events"])
async def test_an_unknown_bridge_comes_with_a_suggestion(bridged: Rest, path: str) -> None:
    refused = await bridged.alice.get(f"/bridges/wset/{path}")
    assert (refused.status_code, refused.json()["type"]) == (404, "/docs/problems/not-found")
    assert "did you mean west?" in refused.json()["detail"]


async def test_a_waiting_bridge_retries_on_request(bridged: Rest) -> None:
    for body, queue in ((None, None), ({"queue": "orders"}, "orders")):
        reply = await bridged.alice.post("/bridges/west/retry", json=body)
        assert (reply.status_code, reply.json()["name"]) == (200, "west"), reply.text
        assert bridged.bridges.retried[-1] == ("west", queue)
    assert told(bridged) == [
        ("retried", "bridges", "west", {}),
        ("retried", "bridges", "west", {"queue": "orders"}),
    ]
    missing = await bridged.alice.post("/bridges/west/retry", json={"queue": "order"})
    assert missing.status_code == 404 and "did you mean orders?" in missing.json()["detail"]
    assert (await bridged.alice.post("/bridges/none/retry")).status_code == 404
    assert len(bridged.bridges.retried) == 2


async def test_a_connection_is_tested_as_it_is_configured(bridged: Rest) -> None:
    reply = await bridged.alice.post("/bridges/west/test", json={"queue": "new"})
    assert (reply.status_code, reply.json()["ok"]) == (200, True), reply.text
    ((remote, queue),) = bridged.bridges.tried
    assert (remote, queue) == (bridged.logins.policy.bridges["west"], "new")
    assert told(bridged) == [("tested", "bridges", "west", {"queue": "new", "ok": True})]
    wrong = await bridged.alice.post("/bridges/west/test", json={"queue": "q" * 80})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/queue")
    assert (await bridged.alice.post("/bridges/none/test")).status_code == 404


@pytest.mark.parametrize("action", ["retry", "test"])
async def test_others_try_and_test_the_queues_that_they_manage(bridged: Rest, action: str) -> None:
    whole = await bridged.bob.post(f"/bridges/west/{action}")
    assert (whole.status_code, whole.json()["right"]) == (403, "administer")
    others = await bridged.bob.post(f"/bridges/west/{action}", json={"queue": "orders"})
    assert (others.status_code, others.json()["right"]) == (403, "manage")
    assert (await bridged.bob.post(f"/bridges/west/{action}", json={"queue": "bills"})).status_code == 200


# ---------------------------------------------------------------------- queues


async def test_the_queue_of_a_bridge_is_made_and_looked_at_without_building_its_name(bridged: Rest) -> None:
    address = "/bridges/west/queues/a/b"
    assert (await bridged.alice.get(address)).status_code == 404
    made = await bridged.alice.post(address)
    assert (made.status_code, made.json()["name"]) == (201, "storeAndForward:west/queue/a/b"), made.text
    assert made.headers["location"] == "/api/v1/bridges/west/queues/a/b"
    assert (await bridged.alice.post(address)).status_code == 200, "it is there"
    assert (await bridged.alice.get(address)).json()["depth"] == 0
    assert (await bridged.alice.get("/bridges/west/queues?queue=a/b")).json()["name"] == made.json()["name"]


async def test_messages_are_sent_and_browsed_there_as_below_queues(bridged: Rest) -> None:
    sent = await bridged.bob.post(
        "/bridges/west/queues/orders/messages", content=b"one", headers={"mom-header-colour": "red"}
    )
    assert sent.status_code == 201, sent.text
    assert bridged.depth(ORDERS) == 1
    refused = await bridged.bob.get("/bridges/west/queues/bills/messages")
    assert refused.status_code in (200, 404)
    page = (await bridged.alice.get("/bridges/west/queues/orders/messages?limit=1&header.colour=red")).json()
    assert [item["id"] for item in page["items"]] == [sent.json()["id"]]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("wset/queues/q", 404, "did you mean west?"),
        ("west/queues/" + "q" * 80, 400, "at most 79"),
        ("b" * 21 + "/queues/q", 400, "at most 20"),
        ("a:b/queues/q", 400, "neither / nor :"),
        ("west/queues/q.dead", 400, "dead letters are not forwarded"),
    ],
)
async def test_wrong_names_are_reported_and_create_no_queue(
    bridged: Rest, path: str, status: int, words: str
) -> None:
    for way in ("", "/messages"):
        refused = await bridged.alice.post(f"/bridges/{path}{way}")
        assert refused.status_code == status
        assert words in refused.json()["detail"]
    assert not bridged.engine.broker.destinations.queues


async def test_users_without_the_right_to_send_create_no_queue(bridged: Rest) -> None:
    bridged.logins.reload(replace(bridged.logins.policy, version=2, rules=Rules(BOBS[:1])))
    refused = await bridged.bob.post("/bridges/west/queues/orders")
    assert (refused.status_code, refused.json()["right"]) == (403, "send")
    assert not bridged.engine.broker.destinations.queues


async def test_queues_called_like_the_words_of_addresses_are_reached(bridged: Rest) -> None:
    for name in ("status", "events", "retry", "test", "clone", "queues"):
        made = await bridged.alice.post(f"/bridges/west/queues/{name}")
        assert (made.status_code, made.json()["name"]) == (201, f"storeAndForward:west/queue/{name}")
