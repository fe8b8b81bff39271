"""Queues and topics as a tree, a level at a time."""

from typing import Any

from tests.rest.conftest import Rest


async def level(rest: Rest, **query: Any) -> dict[str, Any]:
    reply = await rest.alice.get("/destinations/tree", params=query)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def keys(found: dict[str, Any]) -> list[str]:
    return [item.get("name") or f"{item['prefix']}({item['count']})" for item in found["items"]]


async def test_a_level_of_a_few_names_lies_flat(rest: Rest) -> None:
    for name in ("orders.new", "orders.old", "mail"):
        await rest.publish(name, "1")
    rest.statistics.sample(1e9)
    found = await level(rest)
    assert keys(found) == ["mail", "orders.new", "orders.old"]
    assert found["items"][0] == {"name": "mail", "depth": 1, "state": "no-consumer", "needs_attention": True}
    assert (found["count"], found["next"]) == (3, None)


async def test_a_level_of_many_names_folds_at_dots_and_shows_the_worst_below(rest: Rest) -> None:
    names = [*(f"orders.eu.{number}" for number in range(9)), *(f"n{number}" for number in range(9))]
    for name in (*names, "orders", "orders-x", "lonely.one", "deep.down.a", "deep.down.b"):
        rest.engine.broker.destinations.queue(f"/queue/{name}")
    await rest.publish("orders.eu.3", "1", "2")
    found = await level(rest)
    assert keys(found) == [
        "deep.down.(2)", "lonely.one", *sorted(names[9:]), "orders", "orders-x", "orders.eu.(9)",
    ]  # fmt: skip
    assert found["items"][-1] == {
        "prefix": "orders.eu.", "count": 9, "depth": 2, "state": "no-consumer", "needs_attention": True,
    }  # fmt: skip
    assert keys(await level(rest, prefix="orders.eu.")) == sorted(names[:9])
    assert keys(await level(rest, kind="topic")) == []


async def test_a_long_level_comes_in_pages(rest: Rest) -> None:
    for number in range(20):
        for name in (f"leaf{number:02}", f"branch{number:02}.a", f"branch{number:02}.b"):
            rest.engine.broker.destinations.queue(f"/queue/{name}")
    whole = keys(await level(rest))
    assert len(whole) == 40
    pages: list[str] = []
    found = await level(rest, limit=7)
    while True:
        pages += keys(found)
        if found["next"] is None:
            break
        found = await level(rest, limit=7, after=found["next"])
    assert pages == whole


async def test_topics_have_a_tree_and_what_is_none_is_refused(rest: Rest) -> None:
    await rest.alice.post("/topics/prices.eu/messages", content=b"x")
    assert keys(await level(rest, kind="topic")) == ["prices.eu"]
    for query in ("kind=mailbox", "after=x", "colour=red", "limit=0"):
        reply = await rest.alice.get(f"/destinations/tree?{query}")
        assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid"), query
