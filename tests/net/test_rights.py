"""Permissions of STOMP clients and REST callers of a running node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import mom_client
from broker_app.core.destination import parse
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.net.policy.policy import ADMINISTER, Grant
from broker_app.net.stomp.transports import local
from broker_app.rules.event import BROWSE, MANAGE, READ, RECEIVE, SEND
from broker_app.rules.rule import DENY, Rule
from mom_client import Refused
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

FORWARDED = "storeAndForward:broker2/queue/queue1"
HOME = Rule(
    "john-forwards",
    conditions=f"(/event/queue == {FORWARDED}) && (/event/method == POST)",
    users=("john",),
    source="messaging_rule.config:31",
)
TARGET = (
    Rule(
        "broker1-sends",
        conditions="(/event/queue == queue1) && (/event/method == POST)",
        users=("broker1",),
    ),
    Rule("broker1-syncs", conditions="(/event/queue == storeAndForwardSyncQueue)", users=("broker1",)),
)
USERS = {"john": (), "mary": (), "broker1": (), "root": (), "ann": ("readers",)}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    async with small_node(tmp_path, policy_of(users=USERS, admins=("root",))) as running:
        yield running


def refusal(reply: httpx.Response) -> tuple[int, str, str]:
    problem = reply.json()
    return reply.status_code, problem["right"], problem["decided_by"]


async def publish(rest: httpx.AsyncClient, queue: str) -> httpx.Response:
    return await rest.post("/queues/messages", params={"queue": queue}, content=b"1")


async def test_without_rules_every_authenticated_client_may_do_everything(node: SmallNode) -> None:
    async with node.stomp("mary") as mom, node.rest("mary") as rest, mom.subscribe("/queue/a") as messages:
        await mom.send("/queue/a", "1")
        assert (await messages.get(timeout_s=5)).text == "1"
        assert (await publish(rest, "b")).status_code == 201
        assert (await rest.delete("/queues/b/messages?all=true")).status_code == 204


async def test_the_home_brokers_rule_allows_only_john_to_send(node: SmallNode) -> None:
    await node.rule(HOME)
    async with node.stomp("john") as mom, node.rest("john") as rest:
        await mom.send(f"/queue/{FORWARDED}", "1")
        assert (await publish(rest, FORWARDED)).status_code == 201
        with pytest.raises(Refused) as refused:
            async with mom.subscribe(f"/queue/{FORWARDED}"):
                pass
        assert refused.value.problem["decided_by"].startswith("no rule allows it")
        for method, path in (("POST", "/queues/receive"), ("GET", "/queues/messages")):
            got = await rest.request(method, path, params={"queue": FORWARDED})
            assert got.status_code == 403, path
        assert (await publish(rest, "queue1")).status_code == 403
    async with node.stomp("mary") as mom, node.rest("mary") as rest:
        with pytest.raises(Refused, match="mary may not send to queue storeAndForward"):
            await mom.send(f"/queue/{FORWARDED}", "1")
        assert (await publish(rest, FORWARDED)).status_code == 403
    assert node.depth(FORWARDED) == 2


async def test_the_target_brokers_rules_are_for_the_bridge_alone(node: SmallNode) -> None:
    await node.rule(*TARGET)
    async with node.stomp("broker1") as mom, node.stomp("john") as john:
        await mom.send("/queue/queue1", "1")
        for action in (mom.send, john.send):  # the rule lets it through, to where only flows are begun
            why = "replication offsets of brokers" if action == mom.send else "john may not send"
            with pytest.raises(Refused, match=why):
                await action("/queue/storeAndForwardSyncQueue", "1")
        for address in ("/queue/queue2", "/queue/queue1.dead", "/topic/queue1"):
            with pytest.raises(Refused):
                await mom.send(address, "1")
        with pytest.raises(Refused):
            await john.send("/queue/queue1", "1")


async def test_a_refusal_has_right_destination_rule_and_a_link_to_its_explanation(node: SmallNode) -> None:
    no = Rule("no-mary", DENY, users=("mary",), source="messaging_rule.config:31")
    await node.rule(Rule("all", conditions="/event/queue == other"), no)
    async with node.stomp("mary") as mom, node.rest("mary") as rest:
        with pytest.raises(Refused) as refused:
            await mom.send("/queue/orders new", "1")
        replied = (await publish(rest, "orders new")).json()
    expected = {
        "type": "/docs/problems/not-allowed",
        "title": "Not allowed",
        "status": 403,
        "detail": "mary may not send to queue orders new",
        "right": "send",
        "destination": "queue:orders new",
        "decided_by": "rule 2 (messaging_rule.config:31)",
        "explain": "/api/v1/explain?user=mary&action=POST&destination=queue:orders%20new",
    }
    assert replied == expected
    assert dict(refused.value.problem) == expected


async def test_a_client_without_soft_errors_gets_an_error_and_is_disconnected(node: SmallNode) -> None:
    await node.rule(HOME)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.node.stomp_port)
    writer.write(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:mary\npasscode:mary\n\n\0")
    writer.write(b"SEND\ndestination:/queue/a\nreceipt:7\n\n1\0")
    async with asyncio.timeout(patient(10)):
        head, _, error = (await reader.read()).partition(b"\0")
    assert head.startswith(b"CONNECTED")
    assert b"ERROR\nreceipt-id:7\n" in error
    problem = json.loads(error.partition(b"\n\n")[2].rstrip(b"\n\0"))
    assert (problem["right"], problem["decided_by"]) == ("send", "no rule allows it")
    writer.close()


async def test_administrators_may_do_everything_whatever_the_rules_are(node: SmallNode) -> None:
    await node.rule(Rule("nobody", DENY))
    async with node.stomp("root") as mom, node.rest("root") as rest:
        await mom.send("/queue/a", "1")
        assert (await rest.get("/queues/a/messages")).json()["items"][0]["body"] == "1"
        with pytest.raises(Refused, match=r"names that begin with \$ are the broker's own"):
            await mom.send("/topic/$mom.stats", "1")


async def test_temporary_destinations_need_no_rule(node: SmallNode) -> None:
    await node.rule(Rule("asks", conditions="/event/queue == ask", users=("john", "mary")))
    async with node.stomp("john") as john, node.stomp("mary") as mary, mary.subscribe("/queue/ask") as asked:

        async def answer() -> None:
            question = await asked.get(timeout_s=5)
            headers = question.headers
            to, id = headers["reply-to"], headers["correlation-id"]
            await mary.send(to, question.text + "!", correlation_id=id)

        answering = asyncio.create_task(answer())
        assert (await john.request("/queue/ask", "hello", timeout_s=5)).text == "hello!"
        await answering


async def test_a_subscription_with_wildcards_needs_a_rule_that_allows_all_they_stand_for(
    node: SmallNode,
) -> None:
    below = r"/event/topic =~ 'orders(\..*)?' && /event/method == GET"
    await node.rule(Rule("orders", conditions=below, users=("ann",)))
    async with node.stomp("ann") as mom:
        async with mom.subscribe("/topic/orders.>"), mom.subscribe("/topic/orders.eu"):
            pass
        for wider in ("/topic/>", "/topic/*"):
            with pytest.raises(Refused):
                async with mom.subscribe(wider):
                    pass


async def test_a_durable_subscription_is_deleted_with_the_right_to_receive(node: SmallNode) -> None:
    get = Rule("all-get", conditions="/event/method == GET")
    await node.rule(get)
    named = {"durable-name": "mine"}
    async with node.stomp("john") as mom, node.rest("john") as john, node.rest("mary") as mary:
        async with mom.subscribe("/topic/t", headers=named):
            pass
        assert (await mary.delete("/subscriptions/mine")).status_code == 403
        unsubscribe = b"UNSUBSCRIBE\ndurable-name:mine\ndelete:true\nid:x\nreceipt:1\n\n\0"
        pipe = local.LocalPipe(node.node.registry, Identity("john"))
        await pipe.send(b"CONNECT\naccept-version:1.2\nhost:/\nmom-soft-errors:true\n\n\0")
        await pipe.receive()
        await node.rule(Rule("mary-manages", conditions="/event/method == MANAGE", users=("mary",)))
        assert refusal(await john.delete("/subscriptions/mine")) == (403, "receive", "no rule allows it")
        await pipe.send(unsubscribe)
        assert b"john may not receive from topic t" in await pipe.receive()
        assert (await mary.delete("/subscriptions/mine")).status_code == 204


# ---------------------------------------------------------------------- REST, right by right

RIGHTS: list[tuple[str, str, str, str]] = [
    ("POST", "/queues/q/messages", "1", "POST"),
    ("POST", "/queues/q/messages/batch", "[]", "POST"),
    ("POST", "/topics/q/messages", "1", "POST"),
    ("POST", "/topics/q/messages/batch", "[]", "POST"),
    ("POST", "/queues/q/import", "", "POST"),
    ("POST", "/queues/q/receive", "{}", "GET"),
    ("GET", "/queues/q/events", "", "GET"),
    ("GET", "/queues/q", "", "BROWSE"),
    ("GET", "/topics/q", "", "BROWSE"),
    ("GET", "/queues/q/messages", "", "BROWSE"),
    ("GET", "/queues/q/stats", "", "BROWSE"),
    ("GET", "/topics/q/stats", "", "BROWSE"),
    ("GET", "/queues/q/consumers", "", "BROWSE"),
    ("GET", "/topics/q/subscriptions", "", "BROWSE"),
    ("GET", "/stats/stream?destinations=q", "", "BROWSE"),
    ("GET", "/messages/1?queue=q", "", "BROWSE"),
    ("GET", "/messages/1/why?queue=q", "", "BROWSE"),
    ("GET", "/messages/1/body?queue=q", "", "READ"),
    ("GET", "/topics/q/messages", "", "READ"),
    ("GET", "/queues/q/messages?q=secret", "", "READ"),
    ("GET", "/queues/q/messages?fields=id,body", "", "READ"),
    ("DELETE", "/queues/q/messages?all=true", "", "MANAGE"),
    ("DELETE", "/messages/1?queue=q", "", "MANAGE"),
    ("POST", "/jobs", '{"op":"purge","source":"q"}', "MANAGE"),
    ("POST", "/jobs", '{"op":"move","source":"q","target":"other"}', "MANAGE"),
    ("POST", "/jobs", '{"op":"retry","source":"q"}', "MANAGE"),
    ("POST", "/jobs", '{"op":"copy","source":"q","target":"other"}', "READ"),
    ("POST", "/jobs", '{"op":"export","source":"q"}', "READ"),
    ("POST", "/jobs", '{"op":"delete","source":"q","filter":{"q":"x"}}', "READ"),
]
NAMES = {"POST": "send", "GET": "receive", "BROWSE": "browse", "READ": "read", "MANAGE": "manage"}


@pytest.mark.parametrize(("method", "path", "body", "right"), RIGHTS)
async def test_requests_need_their_rights(
    node: SmallNode, method: str, path: str, body: str, right: str
) -> None:
    others = [Rule(other, conditions=f"/event/method == {other}") for other in NAMES if other != right]
    await node.rule(*others)
    kind = "application/x-ndjson" if path.endswith("import") else "application/json"
    async with node.rest("john") as rest:
        refused = await rest.request(method, path, content=body, headers={"content-type": kind})
        assert refusal(refused) == (403, NAMES[right], "no rule allows it"), refused.text
        assert refused.json()["destination"] in ("queue:q", "topic:q")
        await node.rule(Rule("john", conditions="/event/queue == q || /event/topic == q"))
        if "events" in path or "stream" in path:
            return  # they do not end
        reply = await rest.request(method, path, content=body, headers={"content-type": kind})
        assert reply.status_code != 403 or reply.json()["destination"] == "queue:other", reply.text


async def test_a_client_that_may_browse_but_not_read_sees_no_bodies(node: SmallNode) -> None:
    await node.rule(Rule("john", conditions="/event/queue == q && /event/method != READ"))
    async with node.rest("john") as rest:
        id = (await publish(rest, "q")).json()["id"]
        (row,) = (await rest.get("/queues/q/messages")).json()["items"]
        assert row["size"] == 1 and not {"body", "body_base64"} & row.keys()
        one = (await rest.get(f"/messages/{id}?queue=q")).json()
        assert one["id"] == id and not {"body", "body_base64"} & one.keys()
        planned = await rest.post("/jobs", json={"op": "delete", "source": "q", "dry_run": True})
        assert planned.json()["matches"] == 1
        assert not {"body", "body_base64"} & planned.json()["sample"][0].keys()


async def test_settling_needs_the_right_to_receive(node: SmallNode) -> None:
    async with node.rest("john") as rest:
        await publish(rest, "q")
        (item,) = (await rest.post("/queues/q/receive", json={})).json()["items"]
        await node.rule(HOME)
        refused = await rest.delete(f"/leases/{item['receipt']}")
        assert refusal(refused) == (403, "receive", "no rule allows it")
        many = (await rest.post("/leases/settle", json={"ack": [item["receipt"]]})).json()
        assert many["ack"][0]["error"]["type"] == "/docs/problems/not-allowed"
        await node.rule()
        assert (await rest.delete(f"/leases/{item['receipt']}")).status_code == 204


async def test_lists_contain_destinations_that_may_be_browsed(node: SmallNode) -> None:
    mine = r"/event/queue =~ 'mine\..*' || /event/topic =~ 'mine\..*'"
    async with node.rest("root") as root, node.rest("john") as john, node.stomp("root") as mom:
        for number in range(7):
            await publish(root, f"mine.{number}")
            await publish(root, f"theirs.{number}")
        for topic in ("mine.t", "theirs.t"):
            await root.post(f"/topics/{topic}/messages", content=b"1")
            async with mom.subscribe(f"/topic/{topic}", headers={"durable-name": topic}):
                pass
        await node.rule(Rule("mine", conditions=mine))
        page = (await john.get("/queues?limit=5&sort=-name")).json()
        assert page["approx_total"] == 7
        names = [row["name"] for row in page["items"]]
        page = (await john.get(f"/queues?limit=5&sort=-name&after={page['next']}")).json()
        assert page["next"] is None
        names += [row["name"] for row in page["items"]]
        assert names == [f"mine.{number}" for number in reversed(range(7))]
        assert [row["name"] for row in (await john.get("/topics")).json()["items"]] == ["mine.t"]
        assert [row["name"] for row in (await john.get("/subscriptions")).json()["items"]] == ["mine.t"]
        assert (await root.get("/queues")).json()["approx_total"] == 14
        shown = {row["name"] for row in (await john.get("/stats")).json()["destinations"]}
        assert not any("theirs" in name for name in shown)
        assert any("theirs" in row["name"] for row in (await root.get("/stats")).json()["destinations"])
        assert (await john.get("/connections")).json()["items"] == []
        (other,) = (await root.get("/connections")).json()["items"]
        assert (await john.get(f"/connections/{other['id']}")).status_code == 403


async def test_lists_hide_queues_of_store_and_forward_where_there_are_no_rules(node: SmallNode) -> None:
    async with node.rest("root") as root, node.rest("john") as john, node.stomp("root"):
        for queue in ("a", FORWARDED, f"{FORWARDED}.dead"):
            await publish(root, queue)
        assert [row["name"] for row in (await john.get("/queues")).json()["items"]] == ["a"]
        assert (await root.get("/queues")).json()["approx_total"] == 3
        shown = [row["name"] for row in (await john.get("/stats")).json()["destinations"]]
        assert "/queue/a" in shown and not any("storeAndForward" in name for name in shown)
        job = (await root.post("/jobs", json={"op": "export", "source": FORWARDED})).json()["id"]
        assert (await john.get("/jobs")).json()["items"] == []
        assert (await root.get("/jobs")).json()["items"][0]["id"] == job
        assert len((await john.get("/connections")).json()["items"]) == 1, "no rule names their owner"


def test_a_view_without_single_checks_equals_what_may_be_browsed() -> None:
    logins = Logins(policy_of(users=USERS, admins=("root",)), lambda given, expected: given == expected)
    access = Access(logins)
    for user in ("john", "root"):
        client = Client(Identity(user), ConnectionInfo("rest"))
        view = access.view(client)
        assert view is not None
        for address in (f"/queue/{FORWARDED}", "/queue/storeAndForward", "/queue/a", f"/topic/{FORWARDED}"):
            assert (address in view) == access.allows(client, BROWSE, parse(address)), address


async def test_jobs_are_shown_with_the_right_to_browse_and_ended_with_the_right_to_manage(
    node: SmallNode,
) -> None:
    async with node.rest("root") as root, node.rest("john") as john:
        await publish(root, "q")
        job = (await root.post("/jobs", json={"op": "export", "source": "q"})).json()["id"]
        await node.rule(Rule("john", conditions="/event/queue == other"))
        assert (await john.get("/jobs")).json()["items"] == []
        for path in ("", "/results", "/export"):
            assert (await john.get(f"/jobs/{job}{path}")).status_code == 403
        for path in ("/cancel", "/undo"):
            assert (await john.post(f"/jobs/{job}{path}")).status_code == 403
        await node.rule(Rule("john", conditions="/event/queue == q && /event/method == BROWSE"))
        assert [row["id"] for row in (await john.get("/jobs")).json()["items"]] == [job]


async def test_a_retry_needs_the_right_to_send_to_the_origin(node: SmallNode) -> None:
    async with node.rest("root") as root, node.rest("john") as john:
        await publish(root, "q")
        (item,) = (await root.post("/queues/q/receive", json={})).json()["items"]
        await root.post(f"/leases/{item['receipt']}/nack", json={"dead": True})
        await node.rule(Rule("john", conditions="/event/queue == q.dead"))
        refused = await john.post("/jobs", json={"op": "retry", "source": "q.dead"})
        assert refusal(refused) == (403, "send", "no rule allows it")
        await node.rule(
            Rule("john", conditions="/event/queue == q.dead || /event/queue == q && /event/method == POST")
        )
        assert (await john.post("/jobs", json={"op": "retry", "source": "q.dead"})).status_code == 202


async def test_dead_letters_of_a_durable_subscription_are_under_the_rights_of_its_topic(
    node: SmallNode,
) -> None:
    theirs, dead = "/queue/orders.dead", "$topic-subscription/open.x/orders.dead"
    await node.rule(
        Rule("john", conditions="/event/topic == open.x && (/event/method == GET || /event/method == POST)"),
        Rule("ann", conditions="/event/topic == open.x", users=("ann",)),
        Rule("mary", conditions="/event/queue == orders || /event/queue == orders.dead", users=("mary",)),
    )
    async with node.stomp("john") as john:
        async with john.subscribe("/topic/open.x", durable="orders") as messages:
            await john.send("/topic/open.x", "forged")
            await (await messages.get(timeout_s=10)).nack(requeue=False)
            await john.send("/topic/open.x", "behind it")
            await messages.get(timeout_s=10)
        assert (node.depth(theirs.removeprefix("/queue/")), node.depth(dead)) == (0, 1)
        for address in (theirs, f"/queue/{dead}"):
            with pytest.raises(Refused):
                await john.send(address, "forged")
            with pytest.raises(Refused):
                async with john.subscribe(address):
                    pass
    async with node.rest("mary") as mary, node.rest("ann") as ann, node.rest("root") as root:
        path = f"/queues/{quote(dead, safe='')}/messages"
        assert (await mary.get(path)).status_code == 403
        assert len((await ann.get(path)).json()["items"]) == 1
        assert (await publish(root, dead)).status_code == 403
        (shown,) = (await ann.get("/queues")).json()["items"]
        assert shown["name"] == dead
        job = await ann.post("/jobs", json={"op": "retry", "source": dead})
        assert job.status_code == 202


# ---------------------------------------------------------------------- tokens


async def test_a_token_uses_temporary_destinations_where_it_may_send_or_receive_something(
    node: SmallNode,
) -> None:
    browses = Grant(rights=frozenset((BROWSE, READ, MANAGE)), destinations=("/queue/zzz",))
    login = await token_of(node, "john", browses)
    async with mom_client.connect(f"stomp://127.0.0.1:{node.node.stomp_port}", **login) as john:
        for address in ("/temp-queue/x", "/temp-topic/x"):
            with pytest.raises(Refused) as refused:
                await john.send(address, "1")
            assert refused.value.problem["decided_by"].startswith("token ")
            with pytest.raises(Refused):
                async with john.subscribe(address):
                    pass
    for right in (SEND, RECEIVE):
        login = await token_of(node, "john", Grant(frozenset((right,)), ("/queue/q",)))
        async with (
            mom_client.connect(f"stomp://127.0.0.1:{node.node.stomp_port}", **login) as john,
            john.subscribe("/temp-queue/x") as answers,
        ):
            await john.send("/temp-queue/x", "1")
            assert (await answers.get(timeout_s=10)).text == "1"


async def token_of(node: SmallNode, user: str, *grants: Grant) -> dict[str, Any]:
    """Give the user's token these grants."""
    policy = policy_of(users=USERS, admins=("root",), grants={user: grants})
    await node.change(tokens=policy.tokens)
    return {"login": "token", "passcode": f"mom_{user}"}


def grant(rights: str, *destinations: str) -> Grant:
    return Grant(frozenset(rights.split()), destinations)


async def test_a_token_has_of_its_owners_rights_what_it_was_granted(node: SmallNode) -> None:
    login = await token_of(node, "john", grant("send", "/queue/orders.>", "/topic/orders.>"))
    await node.rule(Rule("john", conditions=r"/event/queue =~ 'orders\..*' || /event/queue == other"))
    address = f"stomp://127.0.0.1:{node.node.stomp_port}"
    async with node.rest("john") as rest, mom_client.connect(address, **login) as mom:
        await mom.send("/queue/orders.eu", "1")
        assert (await publish(rest, "orders.eu")).status_code == 201
        assert refusal(await publish(rest, "other")) == (403, "send", "token test")
        with pytest.raises(Refused) as refused:
            async with mom.subscribe("/queue/orders.eu"):
                pass
        assert refused.value.problem["decided_by"] == "token test"
        with pytest.raises(Refused) as refused:
            await mom.send("/topic/orders.eu", "1")  # granted, and not the owner's
        assert refused.value.problem["decided_by"] == "no rule allows it"
    async with node.stomp("john") as mom:
        await mom.send("/queue/other", "the password grants all")


async def test_a_token_with_grants_does_not_own_what_its_user_created(node: SmallNode) -> None:
    address = f"stomp://127.0.0.1:{node.node.stomp_port}"
    async with node.rest("john") as rest, node.stomp("john") as mom:
        await mom.send("/queue/a", "1")
        job = (await rest.post("/jobs", json={"op": "export", "source": "a"})).json()["id"]
        (whole,) = (await rest.get("/connections")).json()["items"]
        login = await token_of(node, "john", grant("send receive", "/queue/b"))
        async with mom_client.connect(address, **login) as by_token:
            await by_token.send("/queue/b", "1")
            (shown,) = (await rest.get("/connections")).json()["items"]
            assert shown["id"] != whole["id"]
            for method in ("GET", "DELETE"):
                assert (await rest.request(method, f"/connections/{whole['id']}")).status_code == 403
            assert (await rest.get("/jobs")).json()["items"] == []
            for method, path in (("GET", ""), ("GET", "/results"), ("POST", "/cancel")):
                assert (await rest.request(method, f"/jobs/{job}{path}")).status_code == 403
            assert (await rest.delete(f"/connections/{shown['id']}")).status_code == 204
        await mom.send("/queue/a", "the other connection stands")


async def test_grants_cover_wildcards_but_not_reserved_names(
    node: SmallNode,
) -> None:
    login = await token_of(node, "root", grant("receive", "/topic/orders.>"))
    address = f"stomp://127.0.0.1:{node.node.stomp_port}"
    async with mom_client.connect(address, **login) as mom:
        for inside in ("/topic/orders.>", "/topic/orders", "/topic/orders.*.x"):
            async with mom.subscribe(inside):
                pass
        for outside in ("/topic/>", "/topic/*", "/topic/orderss", "/topic/$mom.stats", "/queue/orders.x"):
            with pytest.raises(Refused):
                async with mom.subscribe(outside):
                    pass
    everything = grant("receive send", ">")
    assert everything.covers("send", parse("/queue/a"))
    assert not everything.covers("receive", parse("/topic/$mom.stats"))
    assert not everything.covers("browse", parse("/queue/a"))


async def test_an_administrators_token_needs_the_grant_to_administer(node: SmallNode) -> None:
    await token_of(node, "root", grant("send receive browse read manage", ">"))
    async with node.stomp("john") as john, node.rest("root") as rest:
        path = f"/connections/{john.server['session']}"
        assert (await rest.delete(path)).status_code == 403
        await token_of(node, "root", grant(f"send {ADMINISTER}", ">"))
        assert (await rest.delete(path)).status_code == 204
