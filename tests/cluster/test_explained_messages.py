"""Why a message waits, and in which queue, asked of a broker that does not own it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker_app.cli.base.failures import NOT_FOUND, OK
from broker_app.features.masks.hidden_values import HIDDEN
from broker_app.features.masks.mask import Mask
from broker_app.net.policy.policy import UserFacts
from broker_app.rules.rule import Rule
from tests.cli.conftest import CommandLine
from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.test_browsing import linked, page, send
from tests.cluster.test_messages_across_brokers import QUEUE, consumers, shown, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

BOB, ANN = UserFacts("bob", "bob"), UserFacts("ann", "ann")
ORDERS = "orders"


async def ask(
    node: NodeProcess, path: str, queue: str = "", user: UserFacts | None = None, **query: str
) -> Any:
    if queue:
        query["queue"] = queue
    async with node.rest(user) as http:
        return (await http.get(f"/messages/{path}", params=query)).json()


async def ids(node: NodeProcess, queue: str = "orders") -> list[str]:
    async with node.rest() as http:
        found = (await http.get(f"/queues/{queue}/messages", params={"scope": "broker"})).json()
    return [row["id"] for row in found["items"]]


def mom_at(node: NodeProcess, home: Path) -> CommandLine:
    """`mom`, logged in to a broker."""
    home.mkdir(exist_ok=True)
    mom = CommandLine(home)
    mom.environment["MOM_URL"] = node.url.replace("//", f"//{node.user}:{node.password}@")
    return mom


async def test_any_broker_has_the_answer_of_the_owner_and_names_it(several: Brokers, tmp_path: Path) -> None:
    b1, _, b3, *_ = several
    await linked(several)
    await send(b1, "1", "2")
    _, second = await ids(b1)
    for node in several:
        answer = await ask(node, f"{second}/why", ORDERS)
        assert (answer["broker"], answer["state"]) == ("b1", "ready")
        assert [reason["code"] for reason in answer["reasons"]] == ["no-consumer", "behind"]
        others = [f"b{at}" for at in range(2, BROKERS + 1)]
        assert answer["reasons"][0]["sentence"].startswith(
            f"/queue/orders has no consumers at {', '.join(('b1', *others))}"
        )
        assert await ask(node, f"{second}/queue") == {"queue": "orders", "broker": "b1"}
    of_this_alone = await ask(b3, f"{second}/why", ORDERS, scope="broker")
    assert (of_this_alone["status"], "asked" in of_this_alone["detail"]) == (404, False)
    mom = mom_at(b3, tmp_path / "home")
    for words in (("orders", second), (second,)):
        found = await asyncio.to_thread(mom, "queue", "why", *words)
        assert (found.code, found.err) == (OK, "ready in queue orders at broker b1\n")
        assert [row[0] for row in found.rows] == ["code", "no-consumer", "behind"]


async def test_a_message_that_a_consumer_holds_elsewhere_is_named_after_its_owner(several: Brokers) -> None:
    """The broker of the consumer, which has the message, knows who that is."""
    b1, b2, b3, *_ = several
    await linked(several)
    await send(b1, "1")
    async with b2.stomp() as client, client.subscribe(QUEUE) as messages:
        (held,) = await take(messages, 1, ack=False)
        for node, holder in ((b1, "broker b2"), (b2, "admin"), (b3, "broker b2")):
            answer = await ask(node, f"{held.id}/why", ORDERS)
            assert (answer["broker"], answer["reasons"][0]["facts"]["user"]) == ("b1", holder), node.name
            assert (await ask(node, f"{held.id}/queue"))["broker"] == "b1"


async def test_a_dead_letter_of_another_broker_is_found_in_its_queue(several: Brokers) -> None:
    """Its id does not lead to its place."""
    b1, _, b3, *_ = several
    await linked(several)
    await send(b1, "1")
    async with b1.rest() as http:
        taken = (await http.post("/queues/orders/receive", json={"lease_s": 60})).json()["items"]
        given_up = {"dead": True, "reason": "test"}
        assert (await http.post(f"/leases/{taken[0]['receipt']}/nack", json=given_up)).is_success
    (dead,) = await ids(b1, "orders.dead")
    answer = await ask(b3, f"{dead}/why", "orders.dead")
    assert (answer["broker"], answer["reasons"][0]["code"]) == ("b1", "dead-letter")


async def test_what_no_broker_has_names_those_that_were_asked_and_those_to_ask_directly(
    several: Brokers, tmp_path: Path
) -> None:
    b1, b2, b3, *_ = several
    await linked(several)
    await send(b2, "1")
    (lost,) = await ids(b2)
    b2.kill()
    await becomes(lambda: shown(b1, "links", "state"), [("connecting",), *[("up",)] * (BROKERS - 2)])
    told = (
        f"; brokers that were asked, too: {', '.join(f'b{at}' for at in range(3, BROKERS + 1))}"
        "; brokers that cannot be asked from here now: b2; ask there"
    )
    found = await ask(b1, f"{lost}/why", ORDERS)
    assert (found["status"], found["detail"]) == (404, "there is no queue 'orders'" + told)
    await send(b1, "2")
    found = await ask(b1, f"{lost}/why", ORDERS)
    assert found["detail"] == f"there is no message {lost!r} in queue 'orders'" + told
    assert (await ask(b1, f"{lost}/queue"))["detail"].endswith("deleted or moved" + told)
    mom = mom_at(b1, tmp_path / "home")
    for words in (("orders", lost), (lost,)):
        missing = await asyncio.to_thread(mom, "queue", "why", *words)
        assert (missing.code, told in missing.err) == (NOT_FOUND, True)
    b2.start()
    await becomes(lambda: shown(b1, "links", "state"), [("up",)] * (BROKERS - 1))
    assert (await ask(b3, f"{lost}/why", ORDERS))["broker"] == "b2"


async def test_rights_and_masks_are_those_of_the_broker_that_is_asked(nodes: Nodes) -> None:
    b1, b2 = brokers = Brokers(nodes, 2)
    for node in brokers:
        node.users |= {"bob": BOB, "ann": ANN}
    b1.rules = (Rule("orders", conditions="/event/queue == orders", users=("bob",)),)
    b1.masks = (Mask("cards", QUEUE, ("iban",)),)
    brokers.start()
    await becomes(lambda: shown(b1, "links", "state"), [("up",)])
    async with b2.stomp() as client, client.subscribe(QUEUE, selector="iban = 'none'"):
        await becomes(lambda: consumers(b2), 1)
        await client.send(QUEUE, b"1", headers={"iban": "DE-4111"})
        (message_id,) = await ids(b2)
        of_admin = await ask(b1, f"{message_id}/why", ORDERS)
        of_bob = await ask(b1, f"{message_id}/why", ORDERS, BOB)
    assert of_admin["reasons"][0]["facts"]["headers"] == {"iban": "DE-4111"}
    assert of_bob["reasons"][0]["facts"]["headers"] == {"iban": HIDDEN}
    assert "DE-4111" in of_admin["reasons"][0]["sentence"]
    assert "DE-4111" not in str(of_bob)
    assert await ask(b1, f"{message_id}/queue", user=BOB) == {"queue": "orders", "broker": "b2"}
    assert (await ask(b1, f"{message_id}/why", ORDERS, ANN))["status"] == 403
    unknown = message_id[:-1] + "f"
    hidden, missing = [await ask(b1, f"{one}/queue", user=ANN) for one in (message_id, unknown)]
    assert hidden["status"] == 404
    assert hidden["detail"].replace(message_id, unknown) == missing["detail"], (
        "nothing shows that it is there"
    )
    assert (await page(b1))["items"][0]["id"] == message_id
