"""Interceptors: what they hold, and how it continues."""

from __future__ import annotations

import asyncio

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.commands import Command
from broker_app.core.message import Envelope
from broker_app.core.model import Delivery, Peer
from broker_app.engine import Engine
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal

HELD = Envelope("/queue/held")
OTHER = Envelope("/queue/other")


class Commands:
    """Holds what is published to one address."""

    def __init__(self) -> None:
        self.held: list[Command] = []

    def takes(self, command: Command, size: int) -> bool:
        if isinstance(command, c.Publish) and command.entries[0][0] is HELD:
            self.held.append(command)
            return True
        return False


class Deliveries:
    """Holds what is delivered from one address."""

    def __init__(self, address: str = "/queue/held") -> None:
        self.address = address
        self.held: list[tuple[Peer, list[Delivery]]] = []

    def concerns(self, address: str) -> bool:
        return address == self.address

    def take(self, peer: Peer, deliveries: list[Delivery]) -> None:
        self.held.append((peer, deliveries))


def engine_over() -> Engine:
    engine = Engine(Broker(), MemoryJournal())
    engine.recover()
    return engine


async def test_a_held_command_is_decided_when_it_is_resumed_and_others_pass_it() -> None:
    engine, client, held = engine_over(), Listener(), Commands()
    engine.intercept([held])
    engine.submit(c.Publish(client.peer, [(HELD, b"1", b"first")]))
    engine.submit(c.Publish(client.peer, [(OTHER, b"2", b"second")]))
    await engine.wait_idle()
    assert client.receipts == [b"second"]
    engine.resume(held, held.held.pop())
    await engine.wait_idle()
    assert client.receipts == [b"second", b"first"]


async def test_a_resumed_command_is_seen_by_the_interceptors_behind() -> None:
    engine, client, first, second = engine_over(), Listener(), Commands(), Commands()
    engine.intercept([first, second])
    engine.submit(c.Publish(client.peer, [(HELD, b"1", b"first")]))
    assert (len(first.held), len(second.held)) == (1, 0)
    engine.resume(first, first.held.pop())
    assert (len(first.held), len(second.held)) == (0, 1)
    engine.resume(second, second.held.pop())
    await engine.wait_idle()
    assert client.receipts == [b"first"]


async def test_a_command_can_be_refused_instead() -> None:
    engine, client = engine_over(), Listener()
    engine.submit(c.Refuse(client.peer, b"r", Refused("filtered", "a filter refuses it")))
    await engine.wait_idle()
    assert [(receipt, refusal.code) for receipt, refusal in client.refusals] == [(b"r", "filtered")]


async def test_held_deliveries_leave_when_they_are_handed_over_and_others_pass_them() -> None:
    engine, client, held = engine_over(), Listener(), Deliveries()
    engine.intercept(deliveries=[held])
    for id, envelope in (("1", HELD), ("2", OTHER)):
        engine.submit(c.Subscribe(client.peer, id, envelope.address, c.INDIVIDUAL))
        engine.submit(c.Publish(client.peer, [(envelope, envelope.address.encode(), None)]))
    await engine.wait_idle()
    assert client.bodies == [b"/queue/other"]
    ((peer, deliveries),) = held.held
    engine.deliver(held, peer, deliveries)
    assert client.bodies == [b"/queue/other", b"/queue/held"]


async def test_a_held_delivery_takes_along_nothing_that_is_not_committed() -> None:
    journal = MemoryJournal()
    engine, client, held = Engine(Broker(), journal), Listener(), Deliveries()
    engine.recover()
    engine.intercept(deliveries=[held])
    for id, envelope in (("1", HELD), ("2", OTHER)):
        engine.submit(c.Subscribe(client.peer, id, envelope.address, c.INDIVIDUAL))
    engine.submit(c.Publish(client.peer, [(HELD, b"1", None)]))
    await engine.wait_idle()
    journal.hold = True
    engine.submit(c.Publish(client.peer, [(OTHER, b"2", b"second"), (HELD, b"3", b"third")]))
    await asyncio.sleep(0)
    engine.deliver(held, *held.held.pop())
    assert (client.bodies, client.receipts) == ([b"1"], [])
    journal.release()
    await engine.wait_idle()
    assert (client.bodies, client.receipts) == ([b"1", b"2"], [b"second", b"third"])


async def test_a_held_delivery_that_was_returned_meanwhile_does_not_leave() -> None:
    engine, client, held = engine_over(), Listener(), Deliveries()
    engine.intercept(deliveries=[held])
    engine.submit(c.Subscribe(client.peer, "1", HELD.address, c.INDIVIDUAL))
    engine.submit(c.Publish(client.peer, [(HELD, b"1", None)]))
    await engine.wait_idle()
    engine.submit(c.Unsubscribe(client.peer, "1"))
    await engine.wait_idle()
    engine.deliver(held, *held.held[0])
    assert client.bodies == []
    assert engine.broker.destinations.queues[HELD.address].depth == 1


async def test_messages_of_a_topic_that_are_rendered_once_can_be_held_for_each_subscriber() -> None:
    engine, held = engine_over(), Deliveries("/topic/t")
    clients = [Listener(), Listener()]
    engine.intercept(deliveries=[held])
    for client in clients:
        engine.submit(c.Subscribe(client.peer, "1", "/topic/t", c.AUTO, render_key="same"))
    engine.submit(c.Publish(clients[0].peer, [(Envelope("/topic/t"), b"1", None)]))
    await engine.wait_idle()
    assert [client.bodies for client in clients] == [[], []]
    for peer, deliveries in held.held:
        engine.deliver(held, peer, deliveries)
    assert [client.bodies for client in clients] == [[b"1"], [b"1"]]
