"""Masks in a cluster: the broker that is asked hides values, also those of messages that others hold."""

from __future__ import annotations

import json

from broker_app.features.masks.hidden_values import HIDDEN
from broker_app.features.masks.mask import Mask
from broker_app.net.policy.policy import UserFacts
from tests.cluster.conftest import Brokers
from tests.cluster.test_messages_across_brokers import shown
from tests.support.awaiting import becomes
from tests.support.node_process import Nodes

BOB = UserFacts("bob", "bob")
CARDS = Mask("cards", "/queue/orders", ("iban",), ("/card",))


async def test_values_of_messages_at_another_broker_are_hidden_from_who_may_not_see_them(
    nodes: Nodes,
) -> None:
    brokers = Brokers(nodes, 2)
    b1, b2 = brokers
    for node in brokers:
        node.users["bob"] = BOB
    b1.masks = (CARDS,)
    brokers.start()
    await becomes(lambda: shown(b1, "links", "state"), [("up",)])
    async with b2.rest() as http:
        body = json.dumps({"card": "4111", "n": 2})
        headers = {"content-type": "application/json", "mom-header-iban": "DE-4111"}
        reply = await http.post("/queues/orders/messages", content=body, headers=headers)
        assert reply.status_code == 201
    for query in ({}, {"q": "4111"}, {"header.iban": "DE-4111"}):
        async with b1.rest(BOB) as bob, b1.rest() as admin:
            pages = [await http.get("/queues/orders/messages", params=query) for http in (bob, admin)]
        assert "4111" not in pages[0].text and "4111" in pages[1].text, query
        found = pages[0].json()["items"]
        assert [(row["broker"], row["body"], row["headers"]["iban"]) for row in found] == (
            [] if query else [("b2", {"card": HIDDEN, "n": 2}, HIDDEN)]
        )
