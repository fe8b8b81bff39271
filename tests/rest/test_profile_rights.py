"""Rights of those who send to profiles: at the broker's door, and when each copy is made."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

import mom_client
from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.durability import records
from broker_app.core.message import Envelope
from broker_app.features.services import profiles, seed_shares
from broker_app.net.policy.policy import READ_METRICS, Grant, TokenFacts
from broker_app.reflex.registration import Registration
from broker_app.rules.event import BROWSE, SEND
from broker_app.rules.rule import DENY, Rule
from mom_client import Refused
from tests.support.listener import Listener
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

USERS: Mapping[str, tuple[str, ...]] = {"alice": (), "bob": (), "eve": (), "root": ()}
NARROW = (Grant(frozenset((SEND,)), ("/queue/a",)),)
FORGED = "name LIKE '%'"


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SmallNode]:
    monkeypatch.setattr("broker_app.features.services.seed_messages.CHECK_S", 0.01)
    async with small_node(tmp_path, policy_of(users=USERS, admins=("root",))) as running:
        for name in ("a", "payments"):
            await running.node.features.services.registry.register(Registration(name))
        yield running


async def token_of(node: SmallNode, user: str, grants: tuple[Grant, ...] | None) -> httpx.AsyncClient:
    """A client of the REST API by another token of a user, who may have had one of this name."""
    kept = {digest: facts for digest, facts in node.policy.tokens.items() if facts.name != "other"}
    secret = f"mom_{user}_{node.policy.version}"
    digest = hashlib.sha256(secret.encode()).digest()
    await node.change(tokens={**kept, digest: TokenFacts(user, "other", grants=grants)})
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(node.node.rest),  # type: ignore[arg-type]
        base_url="http://localhost/api/v1",
        headers={"authorization": f"Bearer {secret}"},
    )


async def send(client: httpx.AsyncClient, criteria: str = FORGED, body: bytes = b"x") -> int:
    reply = await client.post("/profiles/messages", params={"profile": criteria}, content=body)
    return reply.status_code


async def until_depth(node: SmallNode, queue: str, depth: int) -> None:
    async with asyncio.timeout(patient(10)):
        while node.depth(queue) != depth:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("user", "grant"),
    [
        ("root", Grant(frozenset((READ_METRICS,)), (">",))),
        ("alice", Grant(frozenset((BROWSE,)), ("/queue/zzz",))),
    ],
)
async def test_a_token_that_may_send_nowhere_cannot_send_to_a_profile(
    node: SmallNode, user: str, grant: Grant
) -> None:
    async with await token_of(node, user, (grant,)) as client:
        reply = await client.post("/profiles/messages", params={"profile": FORGED}, content=b"forged")
    assert (reply.status_code, reply.json()["right"]) == (403, "send")
    assert node.depth("payments") == node.depth("$seeds") == 0


async def test_a_token_of_stomp_that_may_send_nowhere_cannot_send_to_a_profile(node: SmallNode) -> None:
    await node.change(
        tokens=policy_of(users=USERS, grants={"alice": (Grant(frozenset((BROWSE,)), (">",)),)}).tokens
    )
    address = f"stomp://127.0.0.1:{node.node.stomp_port}"
    async with mom_client.connect(address, login="token", passcode="mom_alice") as mom:
        with pytest.raises(Refused, match="may not send to any destination"):
            await mom.send(f"/profile/{FORGED}", "forged")
    assert node.depth("payments") == node.depth("$seeds") == 0


@pytest.mark.parametrize("conditions", ["", "/event/method == POST", "!(/event/method == GET)"])
async def test_a_user_whose_rules_deny_everything_cannot_send_to_a_profile(
    node: SmallNode, conditions: str
) -> None:
    await node.rule(Rule("no", DENY, users=("eve",), conditions=conditions), Rule("all"))
    async with node.rest("eve") as eve, node.rest("bob") as bob, node.stomp("eve") as mom:
        assert (await send(eve), await send(bob)) == (403, 201)
        with pytest.raises(Refused, match="may not send to any destination"):
            await mom.send("/profile/name = 'nobody'", "1")


async def test_a_user_who_may_send_to_one_queue_can_send_to_a_profile(node: SmallNode) -> None:
    await node.rule(Rule("one", users=("eve",), conditions="(/event/queue == a) && (/event/method == POST)"))
    async with node.rest("eve") as eve:
        assert await send(eve) == 201
        await until_depth(node, "a", 1)
    assert node.depth("payments") == 0


async def test_copies_are_made_with_the_grants_of_the_token_that_sent(node: SmallNode) -> None:
    async with await token_of(node, "alice", NARROW) as client:
        assert await send(client) == 201
        async with asyncio.timeout(patient(10)):
            seeds: list[dict[str, Any]] = []
            while not (seeds and seeds[0]["services"]):
                await asyncio.sleep(0.001)
                seeds = await list_seeds(client)
    (seed,) = seeds
    assert (seed["sender"], seed["services"]) == ("alice", ["a"])
    assert (node.depth("a"), node.depth("payments")) == (1, 0)


async def list_seeds(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], (await client.get("/seeds")).json()["items"])


@pytest.mark.parametrize("successor", [None, (Grant(frozenset((SEND,)), (">",)),)])
async def test_a_token_that_was_revoked_or_replaced_sends_no_further_copies(
    node: SmallNode, successor: tuple[Grant, ...] | None
) -> None:
    async with await token_of(node, "alice", None) as client:
        assert await send(client) == 201
    await until_depth(node, "a", 1)
    if successor is None:
        await node.change(tokens=policy_of(users=USERS).tokens)
    else:
        await token_of(node, "alice", successor)
    async with node.rest("bob") as bob:  # when this has its copy, the other, which is older, had its turn
        assert await send(bob, "name = 'late'", b"of bob") == 201
    async with asyncio.timeout(patient(10)):
        while len(list(node.node.features.services.seeds.all())) < 2:
            await asyncio.sleep(0.001)
        await node.node.features.services.registry.register(Registration("late"))
        while b"of bob" not in bodies(node, "late"):
            await asyncio.sleep(0.001)
    assert bodies(node, "late") == [b"of bob"]


def bodies(node: SmallNode, queue: str) -> list[bytes]:
    found = node.node.broker.destinations.queues.get(f"/queue/{queue}")
    return [] if found is None else [one.body for lane in found.lanes for one in lane.in_memory()]


async def test_a_rule_about_addresses_and_protocols_holds_for_copies(node: SmallNode) -> None:
    await node.rule(
        Rule("rest", conditions="/event/protocol == rest"), Rule("a", conditions="/event/queue == a")
    )
    async with node.rest("bob") as bob, node.stomp("bob") as mom:
        await mom.send(f"/profile/{FORGED}", "1")
        await until_depth(node, "a", 1)
        assert node.depth("payments") == 0
        assert await send(bob) == 201
        await until_depth(node, "payments", 1)


async def test_a_copy_that_was_denied_is_made_when_a_rule_allows_it(node: SmallNode) -> None:
    await node.rule(Rule("one", conditions="/event/queue == a"))
    async with node.rest("bob") as bob:
        assert await send(bob) == 201
    await until_depth(node, "a", 1)
    await node.rule(Rule("all"))
    await until_depth(node, "payments", 1)
    assert node.depth("a") == 1


async def test_a_narrow_token_sees_and_removes_no_messages_of_its_owner(node: SmallNode) -> None:
    async with node.rest("alice") as owner:
        assert await send(owner) == 201
        (seed,) = await seeds(node, owner)
        async with await token_of(node, "alice", NARROW) as client:
            assert (await client.get("/seeds")).json()["items"] == []
            assert (await client.delete(f"/seeds/{seed['id']}")).status_code == 404
        assert (await owner.delete(f"/seeds/{seed['id']}")).status_code == 204


async def seeds(node: SmallNode, client: httpx.AsyncClient) -> list[dict[str, str]]:
    """The seeds that the client sees, once there is one."""
    found: list[dict[str, str]] = []
    async with asyncio.timeout(patient(10)):
        while not found:
            await asyncio.sleep(0.001)
            found = (await client.get("/seeds")).json()["items"]
    return found


async def test_a_user_has_a_share_of_messages_to_profiles(
    node: SmallNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_shares, "MOST", 3)
    async with node.rest("alice") as alice, node.rest("bob") as bob, node.stomp("alice") as mom:
        waits = "name = 'nobody'"
        assert [await send(alice, waits) for _ in range(3)] == [201] * 3
        assert (await send(alice, waits), await send(bob, waits)) == (429, 201)
        with pytest.raises(Refused, match="wait already for services"):
            await mom.send(f"/profile/{waits}", "1")
        (seed, *_) = await seeds(node, alice)
        assert (await alice.delete(f"/seeds/{seed['id']}")).status_code == 204
        assert (await send(alice, waits), await send(alice, waits)) == (201, 429)
    assert node.depth("$seeds") == 4


async def test_a_user_has_a_share_of_the_bytes_of_messages_to_profiles(
    node: SmallNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_shares, "MOST_BYTES", 10_000)
    async with node.rest("alice") as alice:
        statuses = [await send(alice, "name = 'nobody'", bytes(4_000)) for _ in range(3)]
    assert statuses == [201, 201, 429]


async def test_a_message_to_a_profile_has_its_producer(node: SmallNode) -> None:
    async with node.rest("alice") as alice:
        assert await send(alice, "name = 'nobody'") == 201
    queue = node.node.broker.destinations.queues[profiles.SEEDS.address]
    (message,) = (message for lane in queue.lanes for message in lane.in_memory())
    stored = node.node.engine.records
    (record,) = await stored.repeat(partial(stored, (message.position,)))
    flags = records.unpack_published(record)[3]
    assert flags & records.HAS_CLIENT


async def test_a_message_of_an_earlier_version_names_no_token_and_gets_no_copies(node: SmallNode) -> None:
    block = header_block.escape(FORGED)
    lines = f"mom-seed-criteria:{block}\nmom-seed-sender:alice\nmax-copies:9\n".encode()
    listener = Listener()
    stored = c.Publish(listener.peer, [(Envelope(profiles.SEEDS.address, lines), b"old", None)])
    node.node.engine.submit(stored)
    async with node.rest("alice") as alice, node.rest("bob") as bob:
        (seed,) = await seeds(node, alice)
        assert (seed["sender"], seed["profile"]) == ("alice", FORGED)
        assert await send(bob, body=b"new") == 201
        await until_depth(node, "a", 1)
        assert bodies(node, "a") == [b"new"]
        assert (await alice.delete(f"/seeds/{seed['id']}")).status_code == 204


async def test_messages_to_profiles_in_a_transaction_have_a_share_and_are_sent_at_its_end(
    node: SmallNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_shares, "MOST", 1)
    async with node.stomp("bob") as mom:
        async with mom.transaction() as transaction:
            await transaction.send("/profile/name = 'a'", "in a transaction")
            await node.rule(Rule("all"))  # what was sent is checked again; it may still be sent
            assert node.depth("$seeds") == 0
        await until_depth(node, "a", 1)
    assert bodies(node, "a") == [b"in a transaction"]


async def test_a_transaction_with_a_message_to_a_profile_fails_when_its_user_may_send_no_more(
    node: SmallNode,
) -> None:
    async def lose_the_right_within_a_transaction() -> None:
        async with node.stomp("bob") as mom, mom.transaction() as transaction:
            await transaction.send("/profile/name = 'a'", "in a transaction")
            await node.rule(Rule("no", DENY), Rule("all"))

    with pytest.raises(Refused):
        await lose_the_right_within_a_transaction()
    assert node.depth("$seeds") == node.depth("a") == 0
