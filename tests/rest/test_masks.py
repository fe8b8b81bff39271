"""Masks over REST: values that are hidden from those who look at messages, on every way to look at them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from broker_app.core import commands as c
from broker_app.core.message import Envelope, Message
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.features.masks import hidden_values
from broker_app.features.masks.hidden_values import HIDDEN, hide_fields, hide_headers
from broker_app.features.masks.mask import Mask, parts_of
from broker_app.features.masks.user_masks import UserMasks
from broker_app.net.policy.policy import UserFacts
from tests.rest.conftest import Rest
from tests.rest.test_events import Stream

SECRET = "4111-1111"
CARDS = Mask("cards", "/queue/orders", ("IBAN",), ("/card/number", "/lines/*/price"), ("fraud",))
BODY = {"card": {"number": SECRET, "kind": "v"}, "lines": [{"price": 990099, "n": 1}, {"price": 990099}]}


@pytest.fixture
def masked(rest: Rest) -> Rest:
    """Bob sees values of /queue/orders without what the mask hides; alice administers."""
    users = {"alice": UserFacts("alice", "alice", admin=True), "bob": UserFacts("bob", "bob")}
    rest.logins.reload(replace(rest.logins.policy, version=1, users=MappingProxyType(users), masks=(CARDS,)))
    return rest


async def order(rest: Rest, queue: str = "orders", body: Any = BODY, **headers: str) -> str:
    reply = await rest.alice.post(
        f"/queues/{queue}/messages",
        content=body if isinstance(body, bytes) else json.dumps(body),
        headers={"content-type": "application/json", "mom-header-iban": f"DE-{SECRET}", **headers},
    )
    assert reply.status_code == 201, reply.text
    found: str = reply.json()["id"]
    return found


def is_hidden(reply: httpx.Response) -> bool:
    assert reply.status_code == 200, reply.text
    assert "990099" not in reply.text or SECRET in reply.text, "all is hidden, or nothing"
    return SECRET not in reply.text


async def test_each_way_to_look_hides_the_values_from_one_and_shows_them_to_the_other(masked: Rest) -> None:
    message_id = await order(masked)
    for path in ("/queues/orders/messages", f"/messages/{message_id}?queue=orders",
                 f"/messages/{message_id}/body?queue=orders"):  # fmt: skip
        assert [is_hidden(await client.get(path)) for client in (masked.bob, masked.alice)] == [True, False]
    (item,) = (await masked.bob.get("/queues/orders/messages")).json()["items"]
    assert item["headers"]["iban"] == HIDDEN
    price = {"price": HIDDEN, "n": 1}
    assert item["body"] == {"card": {"number": HIDDEN, "kind": "v"}, "lines": [price, {"price": HIDDEN}]}
    assert item["size"] == len(json.dumps(BODY))
    # Who receives it gets it whole.
    reply = await masked.bob.post("/queues/orders/receive", json={})
    assert not is_hidden(reply)


async def test_nothing_is_found_by_what_is_hidden(masked: Rest) -> None:
    await order(masked)
    for query in ({"q": SECRET}, {"header.iban": f"DE-{SECRET}"}, {"selector": f"iban = 'DE-{SECRET}'"}):
        for path, count in (
            ("messages", lambda found: len(found["items"])),
            ("digest", lambda d: d["matches"]),
        ):
            of = {}
            for client in (masked.bob, masked.alice):
                of[client] = count((await client.get(f"/queues/orders/{path}", params=query)).json())
            assert (of[masked.bob], of[masked.alice]) == (0, 1), (path, query)
        where = {"op": "delete", "source": "orders", "filter": _filter(query), "dry_run": True}
        planned = [(await client.post("/jobs", json=where)).json() for client in (masked.bob, masked.alice)]
        assert [plan["matches"] for plan in planned] == [0, 1]


def _filter(query: dict[str, str]) -> dict[str, Any]:
    (name, value) = next(iter(query.items()))
    return {"headers": {"iban": value}} if name == "header.iban" else {name: value}


async def test_dead_letters_and_samples_of_plans_are_masked_as_their_origin_is(masked: Rest) -> None:
    policies = Policies(exact={"/queue/orders": DestinationPolicy(dead_letters="refused")})
    masked.engine.submit(c.Reconfigure(policies))
    await order(masked)
    (received,) = await masked.receive("orders")
    await masked.alice.post(f"/leases/{received['receipt']}/nack", json={"dead": True})
    for path in ("/queues/refused/messages",):
        assert [is_hidden(await client.get(path)) for client in (masked.bob, masked.alice)] == [True, False]
    plan = await masked.bob.post("/jobs", json={"op": "export", "source": "refused", "dry_run": True})
    assert is_hidden(plan) and HIDDEN in plan.text
    copied = await masked.bob.post("/jobs", json={"op": "copy", "source": "refused", "target": "mine"})
    assert (copied.status_code, copied.json()["mask"]) == (403, "cards")


async def test_an_export_hides_the_values_and_one_of_another_user_is_refused(masked: Rest) -> None:
    await order(masked)
    exports = {}
    for client in (masked.bob, masked.alice):
        job = (await client.post("/jobs", json={"op": "export", "source": "orders"})).json()["id"]
        await masked.until_later(partial(_has_ended, masked, job))
        exports[client] = job
    reply = await masked.bob.get(f"/jobs/{exports[masked.bob]}/export")
    assert is_hidden(reply) and HIDDEN in reply.text
    assert not is_hidden(await masked.alice.get(f"/jobs/{exports[masked.alice]}/export"))
    refused = await masked.bob.get(f"/jobs/{exports[masked.alice]}/export")
    assert (refused.status_code, refused.json()["mask"]) == (403, "cards")


def _has_ended(rest: Rest, job: str) -> bool:
    return not rest.jobs.get(job).open


async def test_masked_messages_are_not_put_where_they_could_be_read(masked: Rest) -> None:
    await order(masked)
    for op in ("copy", "move"):
        asked = {"op": op, "source": "orders", "target": "mine"}
        reply = await masked.bob.post("/jobs", json=asked)
        assert (reply.status_code, reply.json()["mask"]) == (403, "cards")
        assert "you may return them to their queue, export and delete them" in reply.json()["detail"]
        assert (await masked.alice.post("/jobs", json={**asked, "dry_run": True})).status_code == 200
    assert masked.depth("orders") == 1


async def test_a_member_of_the_group_sees_the_values_and_the_audit_log_names_the_mask(masked: Rest) -> None:
    await order(masked)
    users = dict(masked.logins.policy.users)
    users["bob"] = UserFacts("bob", "bob", groups=frozenset({"fraud"}))
    await masked.bob.get("/queues/orders/messages")
    masked.logins.reload(replace(masked.logins.policy, version=2, users=MappingProxyType(users)))
    assert not is_hidden(await masked.bob.get("/queues/orders/messages"))
    reads = [one for one in masked.actions.take() if one.action == "read"]
    assert [one.facts for one in reads] == [{"messages": 1}, {"messages": 1, "unmasked": ["cards"]}]


async def test_the_history_of_a_topic_and_tails_are_masked(masked: Rest) -> None:
    masks = (replace(CARDS, destination="/topic/news.>", groups=()),)
    users = dict(masked.logins.policy.users) | {"alice": UserFacts("alice", "alice")}
    masked.logins.reload(replace(masked.logins.policy, version=2, users=MappingProxyType(users), masks=masks))
    policies = Policies(exact={"/topic/news.a": DestinationPolicy(retention_ms=60_000)})
    masked.engine.submit(c.Reconfigure(policies))
    await masked.engine.wait_idle()
    tail = Stream(masked, "/api/v1/topics/news.a/tail")
    await masked.until_later(lambda: b"connected" in tail.text)
    await masked.alice.post("/topics/news.a/messages", json=BODY)
    assert is_hidden(await masked.bob.get("/topics/news.a/messages"))
    (item,) = await tail.messages(1)
    assert item["body"]["card"]["number"] == HIDDEN
    await tail.leave()


async def test_the_reasons_why_a_message_waits_do_not_show_hidden_headers(masked: Rest) -> None:
    message_id = await order(masked)
    waiting = asyncio.create_task(
        masked.alice.post("/queues/orders/receive", json={"selector": "iban = 'x'", "wait_s": 20})
    )
    await masked.until(lambda: bool(masked.engine.broker.destinations.queues["/queue/orders"].consumers))
    try:
        whys = [
            await client.get(f"/messages/{message_id}/why?queue=orders")
            for client in (masked.bob, masked.alice)
        ]
    finally:
        waiting.cancel()
    assert [is_hidden(why) for why in whys] == [True, False]
    assert f"iban is {HIDDEN!r}" in whys[0].text


# ---------------------------------------------------------------------- without a broker


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a": {"b": 1.10}, "c":12.00}', b'{"a":{"b":"********"},"c":12.00}'),
        (b'{"a":{"b":1},"a":{}}', b'{"a":{}}'),
        (b'{"\\u0061":{"b":[1,2]}}', b'{"a":{"b":"********"}}'),
        (b'{"a":[{"b":1}]}', b'{"a":[{"b":1}]}'),
        (b'{"c":1}', b'{"c":1}'),
        (b"", b""),
        (b"<a><b>1</b></a>", b'"********"'),
        (b'{"a":{"b":1}', b'"********"'),
        (b'{"a":{"b":"\xff"}}', b'"********"'),
        (b'"text"', b'"********"'),
        (b"[" * 100_000, b'"********"'),
        (b'{"a":"%b"}' % (b"x" * hidden_values.MOST_BYTES), b'"********"'),
    ],
)
def test_fields_of_bodies(body: bytes, shown: bytes) -> None:
    assert hide_fields(body, [parts_of("/a/b")]) == shown


def test_dead_letters_of_a_durable_subscription_are_masked_as_their_topic_is() -> None:
    block = b"pin:1\norigin-topic:/topic/crm.new\ndead-reason:REJECTED\n"
    message = Message(Envelope("/queue/x", block), b"{}", 1, 1, recorded=True)
    shown = UserMasks([Mask("m", "/topic/crm.>", ("pin",))]).shown("/queue/x", message)
    assert shown.envelope.block.startswith(b"pin:********\norigin-topic")
    assert (message.envelope.block, shown.position) == (block, 1), "the original stays as it is"


def test_pointers_have_escapes_and_wildcards() -> None:
    body = b'{"a/b":{"~":1},"l":[{"p":1},{"p":{"q":2}}],"":{"":3}}'
    assert json.loads(hide_fields(body, [parts_of("/a~1b/~0")]))["a/b"] == {"~": HIDDEN}
    assert json.loads(hide_fields(body, [parts_of("/l/*/p"), parts_of("/l/1")]))["l"] == [
        {"p": HIDDEN},
        HIDDEN,
    ]
    assert json.loads(hide_fields(body, [parts_of("//")]))[""] == {"": HIDDEN}
    for wrong in ("a", "/a~2", "/~"):
        with pytest.raises(ValueError, match="is no JSON pointer"):
            parts_of(wrong)


def test_headers_are_hidden_whatever_their_case_and_each_time() -> None:
    block = b"a:1\nIban:2\nib\\can:3\niban:4\\n5\n"
    assert hide_headers(block, frozenset({"iban"})) == b"a:1\nIban:********\nib\\can:3\niban:********\n"
    assert hide_headers(block, frozenset({"ib:an"})) == b"a:1\nIban:2\nib\\can:********\niban:4\\n5\n"
    assert hide_headers(block, frozenset({"b"})) is block


@pytest.mark.parametrize(
    ("pattern", "address", "about"),
    [
        (">", "/topic/a", True),
        ("/queue/a", "/queue/a", True),
        ("/queue/a", "/queue/a.dead", True),
        ("/queue/a", "/queue/ab", False),
        ("/queue/a.>", "/queue/a.b.c", True),
        ("/queue/a.>", "/topic/a.b", False),
        ("/topic/>", "/topic/a", True),
        ("/topic/a.b", "/topic/a.>", True),
        ("/topic/a.b", "/topic/*.b", True),
        ("/topic/a.>", "/topic/a.b.>", True),
        ("/topic/a.b", "/topic/b.>", False),
    ],
)
def test_what_a_mask_is_about(pattern: str, address: str, about: bool) -> None:
    assert bool(UserMasks([Mask("m", pattern)]).covers(address)) is about
