"""Selectors and groups over REST."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_app.core.limits import Limits
from tests.rest.conftest import MakeRest, Rest
from tests.rest.test_events import Stream

RED = "colour = 'red'"


async def send(rest: Rest, *colours: str) -> None:
    for number, colour in enumerate(colours):
        await rest.publish("a", f"{number} {colour}", **{"mom-header-colour": colour})


def bodies(items: list[dict[str, Any]]) -> list[str]:
    return [item["body"] for item in items]


async def test_a_receive_takes_what_its_selector_matches(rest: Rest) -> None:
    await send(rest, "blue", "red", "blue", "red")
    assert bodies(await rest.receive("a", selector=RED, max=9)) == ["1 red", "3 red"]
    assert bodies(await rest.receive("a", selector=RED)) == []
    assert bodies(await rest.receive("a", max=9)) == ["0 blue", "2 blue"]


async def test_a_receive_finds_its_message_deep_in_the_journal(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2, fetch_messages=4))
    await send(rest, *["blue"] * 100, "red")
    assert bodies(await rest.receive("a", selector=RED)) == ["100 red"]


async def test_a_receive_waits_for_a_matching_message(rest: Rest) -> None:
    await send(rest, "blue")
    waiting = asyncio.ensure_future(rest.receive("a", selector=RED, wait_s=10))
    await rest.until(lambda: bool(rest.engine.broker.destinations.queues["/queue/a"].consumers))
    await send(rest, "green", "red")
    assert bodies(await waiting) == ["1 red"]


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/queues/a/receive", {"json": {"selector": "colour ="}}),
        ("GET", "/queues/a/messages", {"params": {"selector": "colour ="}}),
        ("GET", "/queues/a/events", {"params": {"selector": "colour ="}}),
    ],
)
async def test_a_selector_that_is_none_is_refused_with_its_place(
    rest: Rest, method: str, path: str, options: dict[str, Any]
) -> None:
    await send(rest, "blue")
    reply = await rest.alice.request(method, path, **options)
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid-selector")
    assert "line 1 column 9" in reply.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/queues/a/receive", {"json": {"selector": "a" * 1_025}}),
        ("GET", "/queues/a/messages", {"params": {"selector": "a" * 1_025}}),
        ("GET", "/queues/a/events", {"params": {"selector": "a" * 1_025}}),
    ],
)
async def test_a_selector_that_is_too_long_is_refused_with_the_limit(
    rest: Rest, method: str, path: str, options: dict[str, Any]
) -> None:
    await send(rest, "blue")
    reply = await rest.alice.request(method, path, **options)
    assert (reply.status_code, reply.json()["type"]) == (400, "/docs/problems/invalid-selector")
    assert "1,025 characters; at most 1,024 are allowed" in reply.json()["detail"]


async def test_browsing_with_a_selector_goes_on_where_the_last_page_ended(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2, fetch_messages=4))
    await send(rest, *["blue", "red"] * 10)
    found, after = [], None
    while True:
        params: dict[str, Any] = {"selector": RED, "limit": 3, **({"after": after} if after else {})}
        page = (await rest.alice.get("/queues/a/messages", params=params)).json()
        found += bodies(page["items"])
        after = page["next"]
        if after is None:
            break
        assert len(page["items"]) == 3
    assert found == [f"{number} red" for number in range(1, 20, 2)]
    assert rest.depth("a") == 20


async def test_a_stream_of_events_has_a_selector(rest: Rest) -> None:
    stream = Stream(rest, "/api/v1/queues/a/events?credit=5&selector=colour%20%3D%20%27red%27")
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    await send(rest, "blue", "red")
    (message,) = await stream.messages(1)
    assert message["body"] == "1 red"
    await stream.leave()


async def test_messages_of_a_group_go_to_one_at_a_time(rest: Rest) -> None:
    await rest.publish("a", "1", "2", **{"mom-group": "g"})
    reply = await rest.alice.post("/queues/a/messages/batch", json=[{"body": "3", "group": "h"}])
    assert reply.status_code == 200
    (first,) = await rest.receive("a")
    assert (first["body"], first["headers"]) == ("1", {"group": "g"})
    assert bodies(await rest.receive("a", max=9)) == ["3"], "group g is with who has its first message"
    await rest.alice.delete(f"/leases/{first['receipt']}")
    assert bodies(await rest.receive("a", max=9)) == ["2"]


async def test_consumers_are_shown_with_their_selectors(rest: Rest) -> None:
    stream = Stream(rest, "/api/v1/queues/a/events?selector=colour%20%3D%20%27red%27")
    await rest.until(lambda: "/queue/a" in rest.engine.broker.destinations.queues)
    facts = (await rest.alice.get("/queues/a")).json()
    (consumer,) = facts["subscriptions"]
    assert (consumer["selector"], consumer["exclusive"], consumer["active"]) == (RED, False, True)
    await stream.leave()
