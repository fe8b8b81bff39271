"""Delivery reflexes: what leaves to consumers, and what becomes of the rest."""

from __future__ import annotations

import pytest

from broker_app.base import deadline
from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.reflex.declaration import ACCEPT, DELIVERY
from tests.reflex.filtering_broker import STOCK, Client, FilteringBroker, RestClient, in_each_turn, reflex
from tests.support.awaiting import until


def dead_letters(filtering: FilteringBroker, name: str = "stock.dead") -> list[tuple[bytes, str]]:
    """Bodies of dead letters, each with its reason and detail."""
    queue = filtering.engine.broker.destinations.queues.get(f"/queue/{name}")
    found = []
    for lane in queue.lanes if queue is not None else ():
        for message in lane.in_memory():
            lines = dict(line.split(":", 1) for line in message.envelope.block.decode().splitlines())
            found.append((message.body, f"{lines['dead-reason']} {lines['dead-detail']}"))
    return found


@pytest.mark.parametrize("ack", c.ACK_MODES)
async def test_a_refused_delivery_becomes_a_dead_letter_and_others_leave_in_order(
    filtering: FilteringBroker, ack: str
) -> None:
    filtering.declare(reflex(DELIVERY, "drop_odd", service="stock"))
    client = Client(filtering)
    client.subscribe(ack=ack)
    client.publish(*map(str, range(10)))
    await until(lambda: len(client.bodies) == 5)
    await until(lambda: filtering.depth("stock.dead") == 5)
    assert client.bodies == [b"0", b"2", b"4", b"6", b"8"]
    assert all(bool(tag) == (ack != c.AUTO) for tag in client.tags)
    assert dead_letters(filtering)[0] == (b"1", "FILTERED reflex drop_odd\\c it was refused")
    queue = filtering.engine.broker.destinations.queues[STOCK]
    await until(lambda: queue.unsettled == (0 if ack == c.AUTO else 5))


async def test_a_topic_with_wildcards_is_filtered_by_the_topic_of_the_message(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(DELIVERY, "drop_odd", service="/topic/prices.eu"))
    clients = [Client(filtering) for _ in range(2)]
    for client in clients:
        client.subscribe("/topic/prices.*", c.AUTO, render_key="same")
    clients[0].publish("1", "2", to="/topic/prices.eu")
    clients[0].publish("3", to="/topic/prices.us")
    for client in clients:
        await until(lambda client=client: client.bodies == [b"2", b"3"])  # type: ignore[misc]


async def test_a_durable_subscription_has_dead_letters(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(DELIVERY, "drop_all", service="/topic/prices.*"))
    client = Client(filtering)
    client.subscribe("/topic/prices.>", c.AUTO, name="d", durable=True)
    client.publish("1", to="/topic/prices.eu")
    await until(lambda: filtering.depth("$topic-subscription/prices.>/d.dead") == 1)
    assert client.bodies == []


async def test_the_type_of_a_message_decides_which_reflexes_are_asked(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(DELIVERY, "drop_all", service="stock", event="order.*"))
    client = Client(filtering)
    client.subscribe(ack=c.AUTO)
    client.publish("1", type="order.new")
    client.publish("2", type="bill")
    client.publish("3")
    await until(lambda: client.bodies == [b"2", b"3"])
    await until(lambda: filtering.depth("stock.dead") == 1)


async def test_no_delivery_leaves_unfiltered_when_a_reload_is_applied(filtering: FilteringBroker) -> None:
    client, other = Client(filtering), Client(filtering)
    client.subscribe(ack=c.AUTO)
    other.subscribe("/topic/t", c.AUTO, render_key="same")
    client.publish("1", "2")
    client.publish("1", to="/topic/t")
    await until(lambda: client.bodies == [b"1", b"2"] and other.bodies == [b"1"])
    filtering.declare(reflex(DELIVERY, "drop_odd"))
    await filtering.engine.wait_idle()
    client.publish("3", "4")
    client.publish("3", "4", to="/topic/t")
    await until(lambda: client.bodies[2:] == [b"4"] and other.bodies[1:] == [b"4"])
    filtering.declare()
    await filtering.engine.wait_idle()
    client.publish("5")
    client.publish("5", to="/topic/t")
    await until(lambda: client.bodies[3:] == [b"5"] and other.bodies[2:] == [b"5"])
    assert filtering.engine.delivery_interceptors == ()
    assert not client.peer.subscriptions["1"].inner_ack


async def test_what_was_held_when_the_declarations_changed_keeps_its_order(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(DELIVERY, "slowly"))
    client = Client(filtering)
    client.subscribe(ack=c.AUTO)
    client.publish("1", "2", "3")
    await filtering.engine.wait_idle()
    filtering.declare()
    client.publish("4", "5")
    await until(lambda: client.bodies == [b"1", b"2", b"3", b"4", b"5"])


async def test_a_client_that_leaves_gives_back_what_was_held(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(DELIVERY, "slowly"))
    client = Client(filtering)
    client.subscribe(ack=c.AUTO)
    client.publish("1", "2")
    await filtering.engine.wait_idle()
    filtering.engine.submit(c.Disconnect(client.peer))
    await filtering.engine.wait_idle()
    other = Client(filtering)
    other.subscribe()
    await until(lambda: other.bodies == [b"1", b"2"])
    assert client.bodies == []


async def test_dead_letters_and_queues_of_bridges_are_not_filtered(filtering: FilteringBroker) -> None:
    policies = Policies(DestinationPolicy(), {STOCK: DestinationPolicy(dead_letters="graveyard")})
    filtering.engine.submit(c.Reconfigure(policies))
    await filtering.engine.wait_idle()
    filtering.declare(reflex(DELIVERY, "drop_all"))
    client = Client(filtering)
    client.subscribe()
    client.publish("1")
    client.publish("2", to="storeAndForward:b/queue/q")
    await until(lambda: filtering.depth("graveyard") == 1)
    client.subscribe("/queue/graveyard", id="2")
    client.subscribe("/queue/storeAndForward:b/queue/q", id="3")
    await until(lambda: sorted(client.bodies) == [b"1", b"2"])


async def test_a_function_that_fails_refuses_unless_it_may_fail(filtering: FilteringBroker) -> None:
    filtering.declare(
        reflex(DELIVERY, "missing", service="stock"),
        reflex(DELIVERY, "missing", name="may", service="other", on_failure=ACCEPT),
    )
    client = Client(filtering)
    client.subscribe(ack=c.AUTO)
    client.subscribe("/queue/other", c.AUTO, id="2")
    client.publish("1")
    client.publish("2", to="/queue/other")
    await until(lambda: client.bodies == [b"2"] and filtering.depth("stock.dead") == 1)
    failures = {row["name"]: row["failures"] for row in filtering.reflexes.report()}
    assert failures == {"missing": 1, "may": 1}


async def test_chosen_messages_of_rest_are_filtered(filtering: FilteringBroker) -> None:
    client, rest = Client(filtering), RestClient(filtering)
    client.publish("1", "2")
    await filtering.engine.wait_idle()
    filtering.declare(reflex(DELIVERY, "drop_odd", service="stock"))
    queue = filtering.engine.broker.destinations.queues[STOCK]
    positions = [message.position for lane in queue.lanes for message in lane.in_memory()]
    chosen = [c.Chosen(position) for position in positions]
    filtering.engine.submit(c.DeliverChosen(rest.peer, "1\0anna", STOCK, chosen))
    await until(lambda: rest.bodies == [b"2"] and filtering.depth("stock.dead") == 1)


async def test_headers_cannot_be_changed_on_delivery(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(DELIVERY, "stamp", options={"name": "x"}, service="stock"))
    client = Client(filtering)
    client.subscribe()
    client.publish("1")
    await until(lambda: filtering.depth("stock.dead") == 1)
    assert filtering.reflexes.report()[0]["last_failure"] == "only an arrival reflex can change headers"


async def test_a_delivery_may_publish_further_messages(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(DELIVERY, "copy", service="stock"))
    client = Client(filtering)
    client.subscribe(ack=c.AUTO)
    client.publish("1")
    await until(lambda: client.bodies == [b"1"] and filtering.depth("copies") == 1)


async def test_many_deliveries_leave_in_several_turns_and_in_order(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering.declare(reflex(DELIVERY, "audit", library="mom"))
    client = Client(filtering)
    client.publish(*map(str, range(300)))
    await filtering.engine.wait_idle()
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    client.subscribe(ack=c.AUTO, credit=1_000)
    assert max(await in_each_turn(lambda: len(client.bodies), 300)) < 20
    assert client.bodies == [b"%d" % number for number in range(300)]


async def test_what_waits_behind_an_undecided_delivery_leaves_in_several_turns(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering.declare(reflex(DELIVERY, "slowly", event="slow", time_limit_s=20.0))
    client = Client(filtering)
    client.publish("first", type="slow")
    client.publish(*map(str, range(300)))
    await filtering.engine.wait_idle()
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    client.subscribe(ack=c.AUTO, credit=1_000)
    assert max(await in_each_turn(lambda: len(client.bodies), 301)) < 20
    assert client.bodies == [b"first", *(b"%d" % number for number in range(300))]
