"""A queue that lies in several brokers is browsed at one of them, which shows the messages of all."""

from __future__ import annotations

from functools import partial
from typing import Any

import mom_client
from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.test_messages_across_brokers import QUEUE, shown, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess

LINKED = [("up",)] * (BROKERS - 1)


async def send(node: NodeProcess, *bodies: str, **options: Any) -> None:
    async with node.stomp() as client:
        for body in bodies:
            await client.send(QUEUE, body.encode(), **options)


async def linked(brokers: Brokers) -> None:
    for node in brokers:
        await becomes(lambda node=node: shown(node, "links", "state"), LINKED)  # type: ignore[misc]


async def page(node: NodeProcess, **query: Any) -> Any:
    async with node.rest() as http:
        return (await http.get("/queues/orders/messages", params=query)).json()


def rows(found: Any) -> list[tuple[str, str]]:
    return [(row["broker"], row["body"]) for row in found["items"]]


async def browsed(
    node: NodeProcess, selector: str = ""
) -> tuple[list[tuple[str, bytes]], mom_client.Message]:
    """The messages that a STOMP browser shows, with the broker of each; and its end."""
    headers = {"browser": "true"} | ({"selector": selector} if selector else {})
    found: list[tuple[str, bytes]] = []
    async with node.stomp() as client, client.subscribe(QUEUE, headers=headers) as messages:
        while True:
            (message,) = await take(messages, 1, ack=False)
            if message.headers.get("browser") == "end":
                return found, message
            found.append((message.headers.get("mom-broker", node.name), message.body))


async def test_all_are_shown_by_each_broker_in_pages_and_one_that_is_away_is_named(several: Brokers) -> None:
    b1, b2, b3, *_ = several
    await linked(several)
    await send(b1, "1", "4")
    await send(b2, "2")
    await send(b2, "urgent", priority=9)
    await send(b3, "3")
    everything = [("b2", "urgent"), ("b1", "1"), ("b1", "4"), ("b2", "2"), ("b3", "3")]
    for node in several:
        found = await page(node)
        assert rows(found) == everything
        assert (found["next"], found["approx_total"], found["not_shown"]) == (None, 5, [])
    destinations = partial(shown, b3, "destinations?destination=orders", "broker", "depth")
    assert await destinations() == [("b1", 2), ("b2", 2), ("b3", 1)]
    assert rows(await page(b1, order="newest")) == everything[::-1]
    assert rows(await page(b1, fields="broker,body", q="3")) == [("b3", "3")]
    own = await page(b3, scope="broker")
    assert [row["body"] for row in own["items"]] == ["3"]
    assert "broker" not in own["items"][0]

    paged: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    while True:
        found = await page(b3, limit=2, **after)
        paged += rows(found)
        if found["next"] is None:
            break
        after = {"after": found["next"]}
    assert paged == everything

    found, end = await browsed(b3)
    assert found == [("b3", b"3"), ("b1", b"1"), ("b1", b"4"), ("b2", b"urgent"), ("b2", b"2")]
    assert "not-shown" not in end.headers
    assert (await browsed(b3, "JMSPriority = 9"))[0] == [("b2", b"urgent")]

    b2.kill()
    await becomes(lambda: shown(b1, "links", "state"), [("connecting",), *LINKED[1:]])
    found = await page(b1)
    assert (rows(found), found["not_shown"]) == ([("b1", "1"), ("b1", "4"), ("b3", "3")], ["b2"])
    assert (await browsed(b1))[1].headers["not-shown"] == "b2"
    await becomes(destinations, [("b1", 2), ("b3", 1)])


async def test_a_queue_that_only_another_broker_has_is_shown_and_one_that_none_has_is_not_found(
    several: Brokers,
) -> None:
    b1, _, b3, *_ = several
    await linked(several)
    assert (await page(b3))["status"] == 404
    large = "x" * 3_000_000
    await send(b1, "1", large)
    found = await page(b3)
    assert [(row["broker"], row["size"], row["truncated"]) for row in found["items"]] == [
        ("b1", 1, False),
        ("b1", len(large), True),
    ]
    assert len(found["items"][1]["body"]) == 65_536
    messages, _ = await browsed(b3)
    assert messages == [("b1", b"1"), ("b1", large.encode())]
