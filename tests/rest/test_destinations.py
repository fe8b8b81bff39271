"""Queues and topics as they are, and what holds for them."""

import asyncio
from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.publishing.dedup import DedupWindows
from broker_app.core.remote.cluster_usage import Usage
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.net.policy.policy import Policy
from broker_app.node.operations import Operations
from tests.rest.conftest import Rest, policy
from tests.support.listener import Listener


def say(rest: Rest, **rows: dict[str, Any]) -> None:
    """Settings of queues and topics: `queue_a={…}` are those of /queue/a; each has its number as version."""
    addresses = ["/" + name.replace("_", "/", 1) for name in rows]
    said = {
        at: Own(rows[name], number) for number, (at, name) in enumerate(zip(addresses, rows, strict=True), 1)
    }
    destinations = Destinations(said, {"max_attempts": 16})
    known = policy()
    rest.logins.reload(Policy(1, known.users, known.tokens, destinations=destinations))
    rest.engine.submit(c.Reconfigure(destinations.policies))


async def listed(rest: Rest, kind: str = "queues", **query: Any) -> list[str]:
    reply = await rest.alice.get(f"/{kind}", params=query)
    assert reply.status_code == 200, reply.text
    return [row["name"] for row in reply.json()["items"]]


async def test_a_queue_shows_its_numbers_consumers_and_settings(rest: Rest) -> None:
    await rest.publish("a", "1", "2", "3")
    listener = Listener()
    listener.peer.user = "john"
    rest.engine.submit(c.Subscribe(listener.peer, "s1", "/queue/a", c.CLIENT, 2))
    say(rest, queue_a={"max_messages": 10, "paused": "producers"})
    reply = await rest.bob.get("/queues/a")
    assert reply.headers["etag"] == '"1"'
    facts = reply.json()
    assert (facts["depth"], facts["unsettled"], facts["consumers"], facts["published"]) == (1, 2, 1, 3)
    assert facts["declared"] and facts["paused"] == "producers" and facts["oldest_s"] >= 0
    (subscription,) = facts["subscriptions"]
    expected = {"id": "s1", "user": "john", "ack": "client", "credit": 2, "unsettled": 2, "selector": None}
    assert subscription == {**subscription, **expected}
    settings = facts["settings"]
    assert settings["max_messages"] == {"value": 10, "source": "own"}
    assert settings["max_attempts"] == {"value": 16, "source": "node"}
    assert settings["retry_factor"] == {"value": 2.0, "source": "default"}
    assert facts["usage"] == {"messages": 3, "bytes": None, "producers": None, "consumers": 1}
    assert facts["permissions"] == ["send", "receive", "browse", "read", "manage"], "bob is no administrator"


async def test_limits_are_shown_for_each_broker_and_for_the_cluster(rest: Rest) -> None:
    limits = {"max_messages": 100, "max_producers": 5}
    say(rest, queue_a=limits, queue_b={**limits, "scope": "cluster"}, topic_t=limits)
    facts = (await rest.alice.get("/queues/a")).json()["limits"]
    of_one = {"limit": 100, "scope": "broker", "brokers": 1, "effective": 100}
    assert facts["max_messages"] == of_one
    assert facts["max_bytes"] == {"limit": 0, "scope": "broker", "brokers": 1, "effective": 0}

    rest.engine.broker.cluster_usage.brokers = lambda: 3
    facts = (await rest.alice.get("/queues/a")).json()["limits"]
    assert facts["max_messages"] == {**of_one, "brokers": 3, "effective": 300}
    facts = (await rest.alice.get("/queues/b")).json()["limits"]
    assert facts["max_messages"] == {"limit": 100, "scope": "cluster", "brokers": 3, "effective": 100}
    facts = (await rest.alice.get("/topics/t")).json()["limits"]
    assert facts["max_producers"] == {"limit": 5, "scope": "broker", "brokers": 3, "effective": 15}


async def test_a_queue_is_as_full_as_the_cluster_when_its_limit_is_shared(rest: Rest) -> None:
    say(rest, queue_a={"max_messages": 10, "scope": "cluster"})
    await rest.publish("a", "1")
    rest.engine.broker.cluster_usage.update("/queue/a", Usage(messages=4))
    assert (await rest.alice.get("/queues/a")).json()["fill"] == 0.5


async def test_the_window_of_dedup_ids_is_shown_and_may_be_shorter_than_its_setting(rest: Rest) -> None:
    say(rest, queue_a={"dedup_window_s": 60})
    rest.engine.broker.publisher.dedup_windows = DedupWindows(2, 100)
    for number in (1, 2, 3):
        await rest.alice.post("/queues/a/messages", content=b"x", headers={"mom-dedup-id": f"o-{number}"})
    dedup = (await rest.alice.get("/queues/a")).json()["dedup"]
    assert dedup["ids"] == 2
    assert 0 <= dedup["window_s"] < 60
    await rest.alice.post("/topics/t/messages", content=b"x", headers={"mom-dedup-id": "o-1"})
    assert (await rest.alice.get("/topics/t")).json()["dedup"] == {"ids": 1, "window_s": 600}


async def test_consumers_over_rest_are_shown_under_their_users_names(rest: Rest) -> None:
    waiting = asyncio.create_task(rest.bob.post("/queues/a/receive", json={"wait_s": 60}))
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    facts = (await rest.alice.get("/queues/a")).json()
    assert [row["user"] for row in facts["subscriptions"]] == ["bob"]
    await rest.publish("a", "1")
    assert (await waiting).status_code == 200


async def test_a_queue_of_its_first_use_has_the_version_nought(rest: Rest) -> None:
    await rest.publish("a/b", "1")
    for address in ("/queues/a/b", "/queues/a%2Fb", "/queues?queue=a/b"):
        reply = await rest.alice.get(address)
        assert (reply.status_code, reply.headers["etag"]) == (200, '"0"'), address
        assert reply.json()["name"] == "a/b" and not reply.json()["declared"]


async def test_reading_an_unknown_destination_creates_nothing(rest: Rest) -> None:
    for address in ("/queues/a", "/topics/a"):
        reply = await rest.alice.get(address)
        assert (reply.status_code, reply.json()["type"]) == (404, "/docs/problems/not-found")
    assert not rest.engine.broker.destinations.queues
    assert (await rest.alice.get("/queues/%01")).json()["type"] == "/docs/problems/bad-destination"
    assert (await rest.alice.get("/queues/a?colour=red")).status_code == 400
    for address in ("/queues/a", "/topics/a", "/topics"):
        assert (await rest.anonymous.get(address)).status_code == 401


async def test_a_declared_queue_is_there_at_once(rest: Rest) -> None:
    say(rest, queue_a={})
    facts = (await rest.alice.get("/queues/a")).json()
    assert (facts["declared"], facts["depth"]) == (True, 0)


async def test_queues_are_sorted_by_any_member_with_pages_that_go_on(rest: Rest) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 2), ("d", 3)):
        await rest.publish(name, *map(str, range(count)))
    assert await listed(rest, sort="-depth") == ["b", "d", "c", "a"]
    assert await listed(rest, sort="-depth,-name") == ["d", "b", "c", "a"]
    assert await listed(rest, sort="depth") == ["a", "c", "b", "d"]
    found: list[str] = []
    query = {"sort": "-depth", "limit": "1"}
    while True:
        page = (await rest.alice.get("/queues", params=query)).json()
        assert page["approx_total"] == 4
        found += [row["name"] for row in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert found == ["b", "d", "c", "a"]
    reply = await rest.alice.get("/queues", params={"sort": "name", "after": query["after"]})
    assert reply.status_code == 400, "a cursor belongs to its sort"


async def test_queues_are_filtered(rest: Rest) -> None:
    await rest.publish("orders.new", "1")
    await rest.publish("orders.old", "1")
    await rest.receive("orders.old", ack="auto")
    say(rest, queue_mail={"paused": "all"})
    assert await listed(rest, q="orders") == ["orders.new", "orders.old"]
    assert await listed(rest, empty="true") == ["mail", "orders.old"]
    assert await listed(rest, q="orders", empty="false") == ["orders.new"]
    assert await listed(rest, declared="true") == ["mail"]
    assert await listed(rest, consumed="true") == []
    reply = await rest.alice.get("/queues?fields=name,paused&declared=true")
    assert reply.json()["items"] == [{"name": "mail", "paused": "all"}]


@pytest.mark.parametrize(
    "query",
    ["sort=colour", "sort=", "fields=depth,colour", "empty=maybe", "limit=0", "q=a&q=b", "colour=red"],
)
async def test_a_query_that_cannot_be_is_refused(rest: Rest, query: str) -> None:
    reply = await rest.alice.get(f"/queues?{query}")
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid")


@pytest.mark.parametrize(
    "path",
    [
        "/queues?sort=depth,-depth",
        "/queues?fields=name,name",
        "/queues?state=idle,idle",
        "/topics?sort=name,name",
        "/queues/a/messages?fields=id,id",
    ],
)
async def test_sort_keys_and_fields_of_a_list_are_named_once(rest: Rest, path: str) -> None:
    await rest.publish("a", "1")
    reply = await rest.alice.get(path)
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid")
    assert "twice" in reply.json()["detail"]


@pytest.mark.parametrize("text", ["a*" * 9, "a" * 257])
async def test_a_pattern_has_so_many_wildcards_and_characters_at_most(rest: Rest, text: str) -> None:
    reply = await rest.alice.get("/queues", params={"q": text})
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (400, "query/q")


async def test_a_pattern_with_many_wildcards_is_compared_with_a_long_name_at_once(rest: Rest) -> None:
    await rest.publish("a" * 200, "1")
    assert await listed(rest, q="a*" * 8 + "x") == []
    assert await listed(rest, q="A*" * 7 + "A") == ["a" * 200]


@pytest.mark.parametrize("after", ["!", "e30", "WzFd", "WyJhIiwgImIiXQ", "W251bGxd", "W1tdXQ"])
async def test_a_cursor_that_is_none_is_refused(rest: Rest, after: str) -> None:
    await rest.publish("a", "1")
    assert (await rest.alice.get("/queues", params={"after": after})).status_code == 400


async def test_topics_are_those_published_to_and_those_declared(rest: Rest) -> None:
    for topic in ("prices.eu", "prices.us", "$own"):
        await rest.alice.post(f"/topics/{topic}/messages", content=b"1")
    listener = Listener()
    for number, address in enumerate(("/topic/prices.>", "/topic/prices.eu", "/topic/silent")):
        rest.engine.submit(c.Subscribe(listener.peer, str(number), address, render_key="same"))
    say(rest, topic_news={"paused": "producers"})
    assert await listed(rest, "topics") == ["news", "prices.eu", "prices.us"]
    assert await listed(rest, "topics", sort="-consumers") == ["prices.eu", "prices.us", "news"]
    assert await listed(rest, "topics", consumed="true", q="us") == ["prices.us"]
    facts = (await rest.alice.get("/topics/prices.eu")).json()
    assert (facts["published"], facts["consumers"], facts["declared"]) == (1, 2, False)
    assert {row["destination"] for row in facts["subscriptions"]} == {"/topic/prices.>", "/topic/prices.eu"}
    news = await rest.alice.get("/topics?topic=news")
    assert (news.headers["etag"], news.json()["paused"], news.json()["published"]) == ('"1"', "producers", 0)
    assert (await rest.alice.get("/topics/silent")).json()["consumers"] == 1


async def test_a_queue_is_removed(rest: Rest) -> None:
    operations = Operations(
        rest.rest_api.engine_client, rest.features, rest.alert_endpoints, rest.parts.access
    )
    await rest.publish("a", "1")
    with pytest.raises(Exception, match="1 waiting"):
        await operations.delete_queue("/queue/a", force=False)
    await operations.delete_queue("/queue/a", force=True)
    assert not rest.engine.broker.destinations.queues


async def test_lists_show_how_destinations_are_doing_and_are_filtered_and_sorted_by_it(rest: Rest) -> None:
    say(rest, queue_limited={"max_messages": 4}, queue_held={"paused": "all"})
    rest.statistics.sample(1e9)
    await rest.publish("limited", "1", "2", "3", "4")
    await rest.publish("waiting", "1")
    await rest.alice.post("/topics/t/messages", content=b"x")
    rest.statistics.sample(1e9 + 1)
    assert await listed(rest, sort="state") == ["limited", "waiting", "held"]
    assert await listed(rest, sort="-fill") == ["limited", "held", "waiting"]
    assert await listed(rest, state="paused,no-consumer") == ["held", "waiting"]
    assert await listed(rest, "topics", state="flowing") == ["t"]
    reply = await rest.alice.get("/queues?fields=state,fill,full_in_s,in_rate,trend&q=LIMIT")
    facts = {"state": "at-limit", "fill": 1.0, "full_in_s": None, "in_rate": 4.0, "trend": [4]}
    assert reply.json()["items"] == [facts]
    topic = (await rest.alice.get("/topics/t")).json()
    assert (topic["in_rate"], topic["state"], topic["trend"]) == (1.0, "flowing", [1])
    assert "trend" not in (await rest.alice.get("/queues")).json()["items"][0]
    reply = await rest.alice.get("/queues?state=growin")
    assert reply.status_code == 400
    assert "did you mean growing?" in reply.json()["detail"]
    assert (await rest.alice.get("/queues?sort=trend")).status_code == 400


async def test_names_are_found_by_words_and_by_patterns(rest: Rest) -> None:
    for name in ("orders.new", "orders.eu.new", "Mail new"):
        await rest.publish(name, "1")
    assert await listed(rest, q="NEW orders") == ["orders.eu.new", "orders.new"]
    assert await listed(rest, q="orders.*.new") == ["orders.eu.new"]
    assert await listed(rest, q="*new") == ["Mail new", "orders.eu.new", "orders.new"]
