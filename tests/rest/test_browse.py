"""Looking at queues and messages, and purging."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.core.delivery.unsettled import LARGE_BODY
from broker_app.core.inspection import browse as core_browse
from broker_app.core.limits import Limits
from broker_app.engine.read_budget import NODE_BYTES
from broker_app.features.jobs import filters
from broker_app.net.rest import RestLimits
from broker_app.net.rest.messages import browse
from tests.rest.conftest import MakeRest, Rest


async def look(rest: Rest, queue: str, **params: Any) -> dict[str, Any]:
    reply = await rest.alice.get(f"/queues/{queue}/messages", params=params)
    assert reply.status_code == 200, reply.text
    page: dict[str, Any] = reply.json()
    return page


async def test_browsing_shows_everything_and_changes_nothing(rest: Rest) -> None:
    ids = await rest.publish("a", "1", "2", **{"mom-header-tenant": "acme", "mom-type": "t"})
    (leased,) = await rest.receive("a")
    before = rest.engine.broker.destinations.queues["/queue/a"].counters.delivered
    page = await look(rest, "a")
    assert page["next"] is None
    assert page["approx_total"] == 2
    first, second = page["items"]
    assert (first["id"], first["state"]) == (leased["id"], "unsettled")
    assert second == {
        "id": ids[1],
        "position": second["position"],
        "time": second["time"],
        "size": 1,
        "priority": 4,
        "persistent": True,
        "attempt": 1,
        "redelivered": False,
        "state": "ready",
        "type": "t",
        "content_type": "text/plain",
        "correlation_id": None,
        "reply_to": None,
        "headers": {"tenant": "acme"},
        "body": "2",
        "truncated": False,
    }
    assert rest.engine.broker.destinations.queues["/queue/a"].counters.delivered == before


async def test_pages_cover_a_queue_that_lies_mostly_in_the_journal(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2, fetch_messages=2))
    await rest.publish("a", *map(str, range(7)))
    await rest.publish("a", "first", **{"mom-priority": "9"})
    await rest.receive("a", max=2)
    bodies, after = [], None
    while True:
        page = await look(rest, "a", limit=3, **({"after": after} if after else {}))
        bodies += [item["body"] for item in page["items"]]
        assert page["approx_total"] == 8
        after = page["next"]
        if after is None:
            break
    assert bodies == ["first", *map(str, range(7))]


async def test_a_page_of_another_journal_is_not_continued(rest: Rest) -> None:
    await rest.publish("a", "1", "2")
    following = (await look(rest, "a", limit=1))["next"]
    own = base64.b64decode(following + "=" * (-len(following) % 4), altchars=b"-_")
    foreign = base64.urlsafe_b64encode(b"1" + own).decode().rstrip("=")
    refused = await rest.alice.get("/queues/a/messages", params={"after": foreign})
    assert refused.status_code == 400
    assert "another journal" in refused.json()["errors"][0]["detail"]


async def test_states_filter_what_is_shown(rest: Rest) -> None:
    await rest.publish("a", "1", "2", "3")
    await rest.receive("a")
    for state, bodies in (("ready", ["2", "3"]), ("unsettled", ["1"]), ("leased", ["1"])):
        assert [item["body"] for item in (await look(rest, "a", state=state))["items"]] == bodies
    wrong = await rest.alice.get("/queues/a/messages?state=raedy")
    assert "did you mean ready?" in wrong.json()["detail"]


async def test_fields_choose_members(rest: Rest) -> None:
    (message_id,) = await rest.publish("a", "1")
    assert (await look(rest, "a", fields="id,body"))["items"] == [{"id": message_id, "body": "1"}]
    assert (await rest.alice.get("/queues/a/messages?fields=bdoy")).status_code == 400


async def test_the_body_among_the_fields_is_base64_where_it_is_no_text(rest: Rest) -> None:
    sent = await rest.alice.post("/queues/a/messages", content=b"\xff\x00")
    expected = {"id": sent.json()["id"], "body_base64": base64.b64encode(b"\xff\x00").decode()}
    assert (await look(rest, "a", fields="id,body"))["items"] == [expected]


async def test_long_bodies_are_cut(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_preview_bytes=4))
    await rest.publish("a", "aaaé")
    await rest.alice.post("/queues/a/messages", json={"key": "value"})
    await rest.alice.post("/queues/a/messages", content=b"\xff" * 9, headers={"content-type": "image/png"})
    await rest.publish("a", "1234")
    text, json, binary, whole = (await look(rest, "a"))["items"]
    assert (text["body"], text["truncated"], text["size"]) == ("aaa", True, 5)
    assert (json["body"], json["truncated"]) == ('{"ke', True)
    assert (base64.b64decode(binary["body_base64"]), binary["truncated"]) == (b"\xff" * 4, True)
    assert (whole["body"], whole["truncated"]) == ("1234", False)


async def test_a_page_holds_only_so_many_bytes(make_rest: MakeRest) -> None:
    rest = make_rest(limits=RestLimits(max_page_bytes=1), core=Limits(window=1))
    await rest.publish("a", *map(str, range(40)))
    page = await look(rest, "a", limit=40)
    assert len(page["items"]) == 1
    following = await look(rest, "a", limit=40, after=page["next"])
    assert following["items"][0]["body"] == "1"


async def test_browsing_creates_no_queue(rest: Rest) -> None:
    missing = await rest.alice.get("/queues/nothing/messages")
    assert (missing.status_code, missing.json()["type"]) == (404, "/docs/problems/not-found")
    assert not rest.engine.broker.destinations.queues


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "after=x", "after=%C3%A9", "lmit=1", "limit=1&limit=1"]
)
async def test_wrong_queries_are_refused(rest: Rest, query: str) -> None:
    await rest.publish("a", "1")
    assert (await rest.alice.get(f"/queues/a/messages?{query}")).status_code == 400


async def test_one_message_by_its_id(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2))
    ids = await rest.publish("a", "1", "2", "3", "4", **{"content-type": "text/html"})
    await rest.receive("a")
    for message_id, body in zip(ids, "1234", strict=True):
        reply = await rest.alice.get(f"/messages/{message_id}?queue=a")
        assert (reply.json()["body"], reply.json()["id"]) == (body, message_id)
        exact = await rest.alice.get(f"/messages/{message_id}/body?queue=a")
        assert (exact.text, exact.headers["content-type"]) == (body, "text/html")
        assert exact.headers["content-disposition"] == "attachment"
        assert "sandbox" in exact.headers["content-security-policy"]
    head = await rest.alice.head(f"/messages/{ids[0]}/body?queue=a")
    assert (head.content, head.headers["content-length"]) == (b"", "1")


async def test_a_message_is_found_by_its_id_in_the_queues_that_one_may_browse(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2))
    await rest.publish("other", "0")
    ids = await rest.publish("a", "1", "2", "3", "4")
    await rest.receive("a")
    for message_id in ids:
        assert (await rest.alice.get(f"/messages/{message_id}/queue")).json() == {"queue": "a"}
    for unknown in ("x", ids[0][:-1] + ("0" if ids[0][-1] != "0" else "1")):
        reply = await rest.alice.get(f"/messages/{unknown}/queue")
        assert (reply.status_code, "no queue that you may browse" in reply.json()["detail"]) == (404, True)


async def test_a_part_of_a_body_can_be_asked_for(rest: Rest) -> None:
    (message_id,) = await rest.publish("a", "0123456789")
    for asked, status, body, place in (
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=8-", 206, "89", "bytes 8-9/10"),
        ("bytes=8-99", 206, "89", "bytes 8-9/10"),
        ("bytes=-99", 206, "0123456789", "bytes 0-9/10"),
        ("bytes=10-", 200, "0123456789", None),
        ("bytes=4-2", 200, "0123456789", None),
        ("bytes=-0", 200, "0123456789", None),
        ("bytes=0-1,3-4", 200, "0123456789", None),
    ):
        reply = await rest.alice.get(f"/messages/{message_id}/body?queue=a", headers={"range": asked})
        assert (reply.status_code, reply.text, reply.headers.get("content-range")) == (status, body, place)


async def test_a_dead_letter_keeps_its_id(rest: Rest) -> None:
    (message_id,) = await rest.publish("a", "1")
    (item,) = await rest.receive("a")
    await rest.alice.post(f"/leases/{item['receipt']}/nack", json={"dead": True})
    assert (await rest.alice.get(f"/messages/{message_id}?queue=a")).status_code == 404
    assert (await rest.alice.get(f"/messages/{message_id}?queue=a.dead")).json()["body"] == "1"


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/messages/x?queue=a", 404),
        ("/messages/01234567-0123-7123-8123-000000000001?queue=a", 404),
        ("/messages/01234567-0123-7123-8123-000000000001?queue=b", 404),
        ("/messages/x", 400),
        ("/messages/x/body", 400),
        ("/messages/x?queue=a&quue=b", 400),
    ],
)
async def test_messages_that_are_not_found(rest: Rest, address: str, status: int) -> None:
    await rest.publish("a", "1")
    assert (await rest.alice.get(address)).status_code == status


async def test_a_purge_requires_confirmation(rest: Rest) -> None:
    await rest.publish("a", "1", "2", "3")
    await rest.receive("a")
    assert (await rest.alice.delete("/queues/a/messages")).status_code == 400
    assert (await rest.alice.delete("/queues/a/messages?all=true")).status_code == 204
    queue = rest.engine.broker.destinations.queues["/queue/a"]
    assert (queue.depth, queue.unsettled) == (0, 1)
    assert (await rest.alice.delete("/queues/b/messages?all=true")).status_code == 404
    assert (await rest.anonymous.delete("/queues/a/messages?all=true")).status_code == 401


async def test_queues_are_listed_by_name_in_pages(rest: Rest) -> None:
    for name in ("b", "a/x", "c"):
        await rest.publish(name, "1", "2")
    await rest.receive("b")
    page = (await rest.alice.get("/queues?limit=2")).json()
    assert [item["name"] for item in page["items"]] == ["a/x", "b"]
    assert page["approx_total"] == 3
    b = page["items"][1]
    assert (b["depth"], b["unsettled"], b["consumers"], b["published"], b["delivered"]) == (1, 1, 0, 2, 1)
    rest_of_them = (await rest.alice.get("/queues", params={"after": page["next"]})).json()
    assert [item["name"] for item in rest_of_them["items"]] == ["c"]
    assert rest_of_them["next"] is None
    assert (await rest.alice.get("/queues?after=%21")).status_code == 400
    assert (await rest.anonymous.get("/queues")).status_code == 401


async def why(rest: Rest, message_id: str, queue: str = "a") -> dict[str, Any]:
    reply = await rest.alice.get(f"/messages/{message_id}/why", params={"queue": queue})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def test_a_message_is_shown_with_the_reasons_why_it_waits(rest: Rest) -> None:
    first, second = await rest.publish("a", "1", "2")
    assert await why(rest, first) == {
        "id": first,
        "state": "ready",
        "reasons": [{"code": "no-consumer", "sentence": "/queue/a has no consumers", "facts": {}}],
    }
    assert [reason["code"] for reason in (await why(rest, second))["reasons"]] == ["no-consumer", "behind"]
    await rest.receive("a", lease_s=60)
    held = await why(rest, first)
    assert (held["state"], held["reasons"][0]["code"]) == ("unsettled", "unsettled")
    assert held["reasons"][0]["facts"]["lease_until"].endswith("Z")
    assert (await rest.alice.get("/messages/x/why?queue=a")).status_code == 404


async def test_a_message_with_an_id_of_its_own_is_found_where_memory_has_only_its_place(
    make_rest: MakeRest,
) -> None:
    rest = make_rest(core=Limits(window=1))
    ids = await rest.publish("a", "1", "2", "3")
    for _ in ids:
        (taken,) = await rest.receive("a", wait_s=10)
        await rest.alice.post(f"/leases/{taken['receipt']}/nack", json={"dead": True})
    for message_id in ids:
        reasons = (await why(rest, message_id, "a.dead"))["reasons"]
        assert reasons[0]["code"] == "dead-letter"
    assert (await rest.alice.delete(f"/messages/{ids[2]}?queue=a.dead")).status_code == 204
    assert rest.depth("a.dead") == 2


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"q": "TWO"}, ["two"]),
        ({"header.tenant": "acme"}, ["one", "three"]),
        ({"header.tenant": "acme", "q": "three"}, ["three"]),
        ({"where": "header.tenant:acme three"}, ["three"]),
        ({"selector": "tenant IS NULL"}, ["two"]),
        ({"age_gt_s": "60"}, []),
        ({"state": "unsettled", "q": "e"}, ["one"]),
    ],
)
async def test_messages_are_searched(
    make_rest: MakeRest, params: dict[str, str], expected: list[str]
) -> None:
    rest = make_rest(core=Limits(window=1))
    for body in ("one", "two", "three"):
        await rest.publish("a", body, **({} if body == "two" else {"mom-header-tenant": "acme"}))
    await rest.receive("a")
    page = await look(rest, "a", **params)
    assert [item["body"] for item in page["items"]] == expected
    assert (page["scanned"], page["next"]) == (3, None)


async def test_a_long_search_stops_incomplete_and_continues_from_its_cursor(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_MAX_SCANNED", 2)
    monkeypatch.setattr(browse, "_RUN", 2)
    monkeypatch.setattr(browse, "_SLICE_S", 60.0)  # however slow the machine is
    await rest.publish("a", *[f"message {number}" for number in range(5)])
    found, stops, after = [], [], None
    while True:
        page = await look(rest, "a", q="message 4", **({"after": after} if after else {}))
        found += [item["body"] for item in page["items"]]
        stops.append((page["scanned"], page["stopped"]))
        after = page["next"]
        if after is None:
            break
    assert found == ["message 4"]
    assert stops == [(2, True), (2, True), (1, False)]


async def test_a_search_gives_way_after_each_message_that_takes_long(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_SLICE_S", 0.0)
    await rest.publish("a", *[f"message {number}" for number in range(5)])
    turns: list[int] = []
    run = browse.Browser._run

    def counted(*arguments: Any) -> browse.BrowsePage[browse.Shown]:
        page = run(*arguments)
        turns.append(page.scanned)
        return page

    monkeypatch.setattr(browse.Browser, "_run", counted)
    page = await look(rest, "a", q="message 4")
    assert (len(page["items"]), turns) == (1, [1] * 5)


async def test_a_text_is_found_in_any_case_of_letters_as_far_as_bodies_are_searched(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rest.publish("a", "BÄR", "ein Bär")
    await rest.alice.post("/queues/a/messages", content=b"\xff b\xc3\xa4r")
    assert len((await look(rest, "a", q="bär"))["items"]) == 3
    monkeypatch.setattr(filters, "MAX_SEARCHED", 5)
    assert [item["body"] for item in (await look(rest, "a", q="bär"))["items"]] == ["BÄR"]


@pytest.mark.parametrize("window", [1, 100], ids=["in the journal", "in memory"])
async def test_what_a_page_shows_is_looked_for_once(
    make_rest: MakeRest, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 60.0)  # a busy machine would divide it
    rest = make_rest(core=Limits(window=window, fetch_messages=1))
    await rest.publish("a", *map(str, range(5)))
    looked: list[int] = []
    find = core_browse.browse

    def counted(*arguments: Any, **limits: Any) -> list[core_browse.Item] | None:
        found = find(*arguments, **limits)
        looked.append(len(found or ()))
        return found

    monkeypatch.setattr(core_browse, "browse", counted)
    assert [item["body"] for item in (await look(rest, "a"))["items"]] == ["0", "1", "2", "3", "4"]
    assert looked == [5]


async def test_a_page_that_waits_for_its_turn_to_read_does_without_what_was_removed_meanwhile(
    make_rest: MakeRest,
) -> None:
    rest = make_rest(core=Limits(window=1, fetch_messages=1))
    await rest.publish("a", *map(str, range(5)))
    budget = rest.engine._read_budget
    async with budget.hold(NODE_BYTES):
        page = asyncio.create_task(look(rest, "a"))
        await rest.until(lambda: bool(budget._waiting))
        await rest.alice.delete("/queues/a/messages", params={"all": "true"})
    assert (await page)["items"] == []


async def test_a_page_that_waits_for_its_turn_to_read_shows_what_has_left_memory_meanwhile(
    make_rest: MakeRest,
) -> None:
    rest = make_rest(core=Limits(window=2, fetch_messages=1))
    large = "0" * (LARGE_BODY + 1)  # which is not kept for who has received it
    await rest.publish("a", large, "1", "2")
    budget = rest.engine._read_budget
    async with budget.hold(NODE_BYTES):
        page = asyncio.create_task(look(rest, "a"))
        await rest.until(lambda: bool(budget._waiting))
        await rest.receive("a")
    shown = [(item["body"], item["size"], item["state"]) for item in (await page)["items"]]
    preview = large[: RestLimits().max_preview_bytes]
    assert shown == [(preview, len(large), "unsettled"), ("1", 1, "ready"), ("2", 1, "ready")]


@pytest.mark.parametrize(
    "query",
    [
        "q=" + "x" * 1_025,
        "header.a=" + "x" * 1_025,
        "where=" + "x" * 20_001,
        "&".join(f"header.h{number}=x" for number in range(33)),
        "&".join(f"header.h{number}=x" for number in range(101)),
    ],
    ids=["a long text", "a long value", "a long line", "many headers", "many parameters"],
)
async def test_query_parameters_have_limits(rest: Rest, query: str) -> None:
    await rest.publish("a", "1")
    refused = await rest.alice.get(f"/queues/a/messages?{query}")
    assert (refused.status_code, refused.json()["type"]) == (400, "/docs/problems/invalid")


async def test_the_newest_come_first_when_asked(make_rest: MakeRest) -> None:
    rest = make_rest(core=Limits(window=2, fetch_messages=2))
    await rest.publish("a", *map(str, range(7)))
    bodies, after = [], None
    while True:
        page = await look(rest, "a", limit=3, order="newest", **({"after": after} if after else {}))
        bodies += [item["body"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert bodies == [*map(str, reversed(range(7)))]
    assert [item["body"] for item in (await look(rest, "a", order="newest", q="3"))["items"]] == ["3"]
    for query in ("order=latest", "order=newest&state=delayed"):
        assert (await rest.alice.get(f"/queues/a/messages?{query}")).status_code == 400


@pytest.mark.parametrize(
    "query", ["age_gt_s=x", "selector=%3D", "where=colour:red", "where=a&q=b", "colour=red"]
)
async def test_conditions_that_cannot_be(rest: Rest, query: str) -> None:
    await rest.publish("a", "1")
    assert (await rest.alice.get(f"/queues/a/messages?{query}")).status_code == 400
