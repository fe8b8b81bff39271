"""The cluster over REST: the other brokers, their links, and where consumers are."""

from __future__ import annotations

import jsonschema
import pytest

from broker_app.core.commands import AUTO, Subscribe
from broker_app.core.model import InnerReceiver, Peer
from broker_app.features.cluster.report import AdoptedReport
from broker_app.net.rest import openapi
from tests.rest.conftest import Rest
from tests.rest.test_journal import administered
from tests.support.clusters import a_link, a_report, an_enhanced_cluster, an_interest


@pytest.fixture
def admin(rest: Rest) -> Rest:
    return administered(rest)


async def test_a_broker_without_a_cluster_says_how_one_is_made(admin: Rest) -> None:
    for path in ("/cluster", "/cluster/links", "/cluster/consumers"):
        reply = await admin.alice.get(path)
        assert reply.status_code == 404, path
        assert "mom up --name b1 --cluster-port 7676 --cluster" in reply.json()["detail"]


async def test_the_cluster_is_for_administrators(admin: Rest) -> None:
    admin.cluster = a_report(a_link())
    for path in ("/cluster", "/cluster/links", "/cluster/consumers"):
        reply = await admin.bob.get(path)
        assert (reply.status_code, reply.json()["right"]) == (403, "administer"), path


async def test_the_cluster_is_shown_with_the_health_of_each_link(admin: Rest) -> None:
    admin.cluster = a_report(
        a_link("b2"),
        a_link("b3", state="refused", reason="imq.autocreate.queue is false here and true there", since=0.0),
        keeper="b1.example:7676", keeper_is_here=True, record_entries=7, record_digest="9f2c",
    )  # fmt: skip
    found = (await admin.alice.get("/cluster")).json()
    assert (found["broker"], found["keeper_is_here"], found["record_entries"]) == ("b1", True, 7)
    assert "interest" not in found
    up, refused = found["links"]
    assert (up["broker"], up["health"], up["since"]) == ("b2", "running", "2025-06-15T15:06:40.000Z")
    assert (refused["health"], refused["since"]) == ("failing", None)
    assert "autocreate" in refused["reason"]


async def test_what_is_answered_is_as_it_is_described(admin: Rest) -> None:
    admin.cluster = a_report(
        a_link("b2"), a_link("b3", state="connecting", since=0.0, round_trip_ms=None, stomp="", web=""),
        interest=[an_interest("b2", "/queue/orders")],
        adopted=[AdoptedReport(member="b4", journal="redis://store", epoch=3, took_s=0.2, messages=17)],
        enhanced=an_enhanced_cluster(),
    )  # fmt: skip
    described = openapi.document()
    for path, schema in (
        ("/cluster", "Cluster"),
        ("/cluster/links", "ClusterLinkPage"),
        ("/cluster/consumers", "ClusterConsumerPage"),
    ):
        answer = (await admin.alice.get(path)).json()
        whole = {"$ref": f"#/components/schemas/{schema}", "components": described["components"]}
        jsonschema.validate(answer, whole)


async def test_a_member_that_is_suspect_has_the_time_since_when_and_the_names_of_who_suspects_it(
    admin: Rest,
) -> None:
    admin.cluster = a_report(a_link("b2"), enhanced=an_enhanced_cluster())
    members = (await admin.alice.get("/cluster")).json()["enhanced"]["members"]
    assert {one["broker"]: one["suspicion"] for one in members} == {
        "b1": None,
        "b2": {"since": "2025-06-15T15:06:43.500Z", "looks": 1, "by": ["b1", "b3"]},
        "b3": None,
    }


async def test_links_are_a_list_that_can_be_filtered_and_sorted(admin: Rest) -> None:
    admin.cluster = a_report(
        a_link("b2"), a_link("b3", state="connecting", sent=0), a_link("b4", state="stopped", sent=500)
    )
    reply = (await admin.alice.get("/cluster/links", params={"sort": "-sent", "fields": "broker"})).json()
    assert [row["broker"] for row in reply["items"]] == ["b4", "b2", "b3"]
    admin.cluster = a_report(
        a_link("b2", round_trip_ms=0.21633400319842622, sent_rate=1.26), a_link("b3", state="connecting")
    )
    reply = (await admin.alice.get("/cluster/links", params={"state": "connecting"})).json()
    assert [(row["broker"], row["health"]) for row in reply["items"]] == [("b3", "degraded")]
    (first, _) = (await admin.alice.get("/cluster/links")).json()["items"]
    assert (first["round_trip_ms"], first["sent_rate"]) == (0.216, 1.3)


async def test_consumers_are_found_by_their_destination_also_by_that_of_a_topic_filter(admin: Rest) -> None:
    admin.cluster = a_report(
        a_link("b2"),
        interest=[
            an_interest("b1", "/queue/bills"),
            an_interest("b2", "/queue/orders", selector="colour = 'red'", consumers=3, credit=300),
            an_interest("b2", "/topic/prices.*"),
            an_interest("b3", "/topic/prices.eu"),
        ],
    )
    whole = (await admin.alice.get("/cluster/consumers")).json()
    assert whole["approx_total"] == 4
    assert whole["items"][1] == {
        "address": "/queue/orders", "broker": "b2", "selector": "colour = 'red'", "consumers": 3,
        "credit": 300,
    }  # fmt: skip
    for destination, brokers in (
        ("orders", ["b2"]), ("/queue/orders", ["b2"]), ("/topic/prices.eu", ["b2", "b3"]), ("none", []),
    ):  # fmt: skip
        reply = (await admin.alice.get("/cluster/consumers", params={"destination": destination})).json()
        assert [row["broker"] for row in reply["items"]] == brokers, destination
    paged = (await admin.alice.get("/cluster/consumers", params={"limit": 3})).json()
    rest = (await admin.alice.get("/cluster/consumers", params={"after": paged["next"]})).json()
    assert [row["address"] for row in rest["items"]] == ["/topic/prices.eu"]
    wrong = await admin.alice.get("/cluster/consumers", params={"destination": "/nowhere/x"})
    assert (wrong.status_code, "/nowhere/x" in wrong.text) == (400, True)


async def why(rest: Rest, queue: str, message_id: str) -> list[tuple[str, str]]:
    reply = await rest.alice.get(f"/messages/{message_id}/why", params={"queue": queue})
    return [(reason["code"], reason["sentence"]) for reason in reply.json()["reasons"]]


async def test_a_message_that_waits_names_the_brokers_whose_consumers_want_it(admin: Rest) -> None:
    (message_id,) = await admin.publish("orders", "1")
    assert (await why(admin, "orders", message_id))[0] == ("no-consumer", "/queue/orders has no consumers")
    admin.cluster = a_report(a_link("b2"), a_link("b3", state="connecting", reason="no route to host"))
    assert (await why(admin, "orders", message_id))[0] == (
        "no-consumer",
        (
            "/queue/orders has no consumers at b1, b2; whether b3 has any is unknown: its link is "
            "connecting (no route to host)"
        ),
    )
    admin.cluster = a_report(*admin.cluster.links, enhanced=an_enhanced_cluster())
    assert (await why(admin, "orders", message_id))[0] == (
        "no-consumer", "/queue/orders has no consumers at b1, b2"
    ), "b3 was taken over"  # fmt: skip
    admin.cluster = a_report(
        a_link("b2"),
        interest=[
            an_interest("b2", "/queue/orders", consumers=2, credit=20),
            an_interest("b2", "/queue/orders", selector="colour = 'red'", credit=0),
            an_interest("b2", "/queue/bills", consumers=9),
        ],
    )
    (first, *_) = await why(admin, "orders", message_id)
    assert first == ("consumers-elsewhere", "/queue/orders has no consumers at b1, but 3 at broker b2")


async def test_a_queue_that_only_producers_use_is_local(admin: Rest) -> None:
    admin.cluster = a_report(a_link("b2"))
    (message_id,) = await admin.publish("orders", "1")
    alone = (await admin.alice.get("/queues/orders")).json()
    assert alone["propagation"] is None, "in no cluster"
    admin.engine.broker.cluster_usage.unused = {}
    (listed,) = (await admin.alice.get("/queues")).json()["items"]
    assert listed["propagation"] == "local"
    (_, sentence), *_ = await why(admin, "orders", message_id)
    assert "it is local, not propagated: others know it" in sentence
    consumer = Peer(InnerReceiver())
    admin.engine.submit(Subscribe(consumer, "1", "/queue/orders", AUTO, credit=1))
    known = (await admin.alice.get("/queues/orders")).json()
    assert known["propagation"] == "consumers"


async def test_a_takeover_is_an_order_of_administrators_that_is_audited(admin: Rest) -> None:
    order = {"member": "b3", "force": True, "reason": "it hangs"}
    assert (await admin.alice.post("/cluster/takeover", json=order)).status_code == 404, "in no cluster"
    admin.cluster = a_report(a_link(), enhanced=an_enhanced_cluster())
    assert (await admin.bob.post("/cluster/takeover", json=order)).status_code == 403
    assert (await admin.alice.post("/cluster/takeover", json={**order, "reason": "a\nb"})).status_code == 400
    assert not admin.takeovers
    done = await admin.alice.post("/cluster/takeover", json=order)
    assert (done.status_code, admin.takeovers) == (200, [("b3", "alice", True)])
    described = openapi.document()
    whole = {"$ref": "#/components/schemas/ClusterTakeover", "components": described["components"]}
    jsonschema.validate(done.json(), whole)
    (action,) = admin.actions.take()
    assert (action.action, action.key, dict(action.facts)) == (
        "takeover ordered",
        "b3",
        {"reason": "it hangs", "force": True},
    )


async def test_a_removal_is_an_order_of_administrators_that_is_audited(admin: Rest) -> None:
    order = {"member": "b3", "reason": "its machine is sold"}
    assert (await admin.alice.post("/cluster/remove", json=order)).status_code == 404, "in no cluster"
    admin.cluster = a_report(a_link(), enhanced=an_enhanced_cluster())
    assert (await admin.bob.post("/cluster/remove", json=order)).status_code == 403
    assert not admin.removals
    done = await admin.alice.post("/cluster/remove", json=order)
    assert (done.status_code, admin.removals) == (200, [("b3", False)])
    described = openapi.document()
    whole = {"$ref": "#/components/schemas/ClusterRemoval", "components": described["components"]}
    jsonschema.validate(done.json(), whole)
    (action,) = admin.actions.take()
    assert (action.action, action.key, dict(action.facts)) == (
        "removal ordered",
        "b3",
        {"reason": "its machine is sold"},
    )
