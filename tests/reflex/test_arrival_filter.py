"""Arrival reflexes: what becomes of messages, and of the commands behind them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from broker_app.base import deadline
from broker_app.core import commands as c
from broker_app.reflex.declaration import ARRIVAL
from tests.reflex.filtering_broker import (
    STOCK,
    Client,
    FilteringBroker,
    RestClient,
    envelope_to,
    in_each_turn,
    reflex,
)


async def test_a_message_is_audited_once_refused_and_never_seen_by_the_reflexes_behind(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(
        reflex(ARRIVAL, "audit"),
        reflex(ARRIVAL, "drop_all", service="stock"),
        reflex(ARRIVAL, "never", service="stock"),
    )
    client = Client(filtering)
    client.publish("1")
    client.publish("2", to="/queue/other")
    await filtering.settled()
    assert sorted(filtering.notes) == ["audit other 2", "audit stock 1", "drop_all stock 1"]
    assert client.refused == [(b"1", "filtered", "drop_all")]
    assert client.receipts == [b"2"]
    assert (filtering.depth("stock"), filtering.depth("other")) == (0, 1)


async def test_the_sender_receives_the_name_of_the_reflex_its_reason_and_the_time_to_wait(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "small", name="no-large"))
    client = Client(filtering)
    client.publish("a long message")
    await filtering.settled()
    ((_, refusal),) = client.refusals
    assert refusal.detail == "the message to /queue/stock was refused by reflex no-large: at most 10 bytes"
    assert refusal.facts == {"reflex": "no-large", "reason": "at most 10 bytes", "retry_s": 2}


async def test_each_message_of_a_run_is_decided_by_itself_and_order_is_kept(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "drop_odd"))
    client = Client(filtering)
    client.subscribe()
    client.publish(*map(str, range(10)))
    client.publish("10", "11", "12")
    await filtering.settled()
    assert client.bodies == [b"0", b"2", b"4", b"6", b"8", b"10", b"12"]
    assert [receipt for receipt, _, _ in client.refused] == [b"1", b"3", b"5", b"7", b"9", b"11"]


async def test_later_commands_of_a_connection_wait_and_those_of_others_do_not(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "slowly", time_limit_s=20.0))
    client, other = Client(filtering), Client(filtering)
    client.publish("1")
    filtering.engine.submit(c.Answer(client.peer, "behind"))
    filtering.engine.submit(c.Answer(other.peer, "other"))
    await filtering.engine.wait_idle()
    assert (client.receipts, other.receipts) == ([], ["other"])
    await filtering.settled()
    assert client.receipts == [b"1", "behind"]


async def test_after_the_refusal_of_a_client_without_soft_errors_nothing_has_an_effect(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "copy"), reflex(ARRIVAL, "drop_odd"))
    client = Client(filtering, strict=True)
    client.publish("2", "1", "4")
    client.publish("6")
    filtering.engine.submit(c.Disconnect(client.peer, "bye"))
    await filtering.settled()
    assert [receipt for receipt, _, _ in client.refused] == [b"1"]
    assert (filtering.depth("stock"), filtering.depth("copies")) == (1, 1)
    assert client.receipts == [b"2", "bye"]


async def test_a_refusal_in_a_transaction_makes_its_commit_fail(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "drop_odd"))
    client = Client(filtering)
    for transaction, bodies in (("good", (b"2", b"4")), ("bad", (b"6", b"7", b"8"))):
        filtering.engine.submit(c.Begin(client.peer, transaction))
        for body in bodies:
            publish = c.Publish(client.peer, [(envelope_to(STOCK, {}), body, body)])
            filtering.engine.submit(c.Enlist(client.peer, transaction, publish))
        filtering.engine.submit(c.Commit(client.peer, transaction, transaction))
    await filtering.settled()
    assert client.receipts == [b"2", b"4", "good"]
    assert client.refused == [("bad", "filtered", "drop_odd")]
    assert filtering.depth("stock") == 2


async def test_a_refusal_in_a_transaction_answers_who_waits_for_the_receipt_of_each_frame(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "drop_odd"))
    client = Client(filtering)
    filtering.engine.submit(c.Begin(client.peer, "t"))
    for body in (b"6", b"7"):
        publish = c.Publish(client.peer, [(envelope_to(STOCK, {}), body, None)])
        filtering.engine.submit(c.Enlist(client.peer, "t", publish, body, confirm=True))
    await filtering.settled()
    assert client.receipts == [b"6"]
    assert client.refused == [(b"7", "filtered", "drop_odd")]


async def test_further_messages_are_part_of_the_transaction(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "copy", service="stock"))
    client = Client(filtering)
    for transaction in ("kept", "given up"):
        filtering.engine.submit(c.Begin(client.peer, transaction))
        publish = c.Publish(client.peer, [(envelope_to(STOCK, {}), b"1", None)])
        filtering.engine.submit(c.Enlist(client.peer, transaction, publish))
    filtering.engine.submit(c.Commit(client.peer, "kept", "1"))
    filtering.engine.submit(c.Abort(client.peer, "given up", "2"))
    await filtering.settled()
    assert (filtering.depth("stock"), filtering.depth("copies")) == (1, 1)


async def test_headers_are_changed_for_the_reflexes_behind_and_for_consumers(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(
        reflex(ARRIVAL, "stamp", options={"name": "first"}, event="order.*"),
        reflex(
            ARRIVAL,
            "set_headers",
            library="mom",
            options={"set": {"copy": "${seen-by} ${@user}", "priority": "9"}, "rename": {"a": "b"}},
        ),
    )
    client = Client(filtering)
    client.subscribe()
    client.publish("1", type="order.new", a="x")
    await filtering.settled()
    assert client.headers == [b"seen-by:first\nb:x\ncopy:first anna\npriority:9\n"]
    assert client.peer.unsettled[1][1].envelope.priority == 9


async def test_a_message_that_is_not_published_again_after_a_repeat_is_not_filtered_twice(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(reflex(ARRIVAL, "audit"))
    client = Client(filtering)
    for _ in range(2):
        client.publish("1", **{"dedup-id": "x"})
        await filtering.settled()
    assert filtering.notes == ["audit stock 1"]
    assert client.receipts == [b"1", b"1"]


async def test_a_topic_and_a_delayed_message_are_filtered_when_they_arrive(
    filtering: FilteringBroker,
) -> None:
    filtering.declare(
        reflex(ARRIVAL, "drop_all", service="/topic/prices.>"),
        reflex(ARRIVAL, "drop_odd", service="stock"),
    )
    client = Client(filtering)
    client.subscribe("/topic/>")
    client.publish("1", to="/topic/prices.eu")
    client.publish("2", to="/topic/other")
    client.publish("3", **{"delay-s": "60"})
    client.publish("4", **{"delay-s": "60"})
    await filtering.settled()
    assert [receipt for receipt, _, _ in client.refused] == [b"1", b"3"]
    assert client.bodies == [b"2"]
    assert filtering.engine.broker.scheduler.delayed(STOCK) == 1


async def test_messages_of_the_broker_itself_are_not_filtered(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "audit"), reflex(ARRIVAL, "copy", service="stock"))
    client = Client(filtering)
    client.subscribe()
    client.publish("1")
    await filtering.settled()
    filtering.engine.submit(c.Return(client.peer, [1], dead_reason="REJECTED"))
    await filtering.settled()
    assert filtering.notes == ["audit stock 1"]
    assert (filtering.depth("copies"), filtering.depth("stock.dead")) == (1, 1)


async def test_requests_of_rest_are_independent_and_known_by_their_user(filtering: FilteringBroker) -> None:
    filtering.library("whose", "def eve(message):\n    return message.user != 'eve'\n")
    filtering.declare(
        reflex(ARRIVAL, "slowly", service="stock", time_limit_s=20.0), reflex(ARRIVAL, "eve", library="whose")
    )
    rest = RestClient(filtering)
    rest.post(b"1")
    rest.post(b"2", to="/queue/other")
    filtering.engine.submit(c.Answer(rest.peer, "behind"))
    rest.post(b"3", user="eve")
    await filtering.engine.wait_idle()
    assert [receipt for receipt, _ in rest.receipts] == ["behind"]
    await filtering.settled()
    assert [receipt for receipt, _ in rest.receipts][1:] == [b"2", b"1"]
    assert [(receipt, refusal.code) for receipt, refusal in rest.refusals] == [(b"3", "filtered")]


async def test_a_connection_of_which_much_is_held_is_not_read(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "slowly", time_limit_s=20.0))
    client, other = Client(filtering), Client(filtering)
    client.publish("x" * 700_000)
    assert not client.held
    client.publish("y" * 700_000)
    other.publish("z")
    assert (client.held, other.held) == (True, False)
    await filtering.settled()
    assert not client.held
    assert filtering.depth("stock") == 3


@pytest.mark.parametrize("held_bytes", [100_000])
async def test_requests_of_rest_are_refused_when_too_much_is_held(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "slowly", service="stock", time_limit_s=20.0))
    rest = RestClient(filtering)
    for number in range(3):
        rest.post(b"%d" % number + b"x" * 60_000)
    rest.post(b"3", to="/queue/other")
    await filtering.settled()
    assert [(receipt[:1], refusal.code) for receipt, refusal in rest.refusals] == [
        (b"1", "busy"),
        (b"2", "busy"),
    ]
    assert (filtering.depth("stock"), filtering.depth("other")) == (1, 1)


async def test_declarations_that_are_taken_back_let_pass_what_comes_later(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "drop_all"))
    client = Client(filtering)
    client.publish("1")
    filtering.declare()
    client.publish("2")
    await filtering.settled()
    client.publish("3")
    await filtering.settled()
    assert [receipt for receipt, _, _ in client.refused] == [b"1"]
    assert client.receipts == [b"2", b"3"]
    assert filtering.engine.command_interceptors == ()


async def test_a_disabled_declaration_is_not_asked(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "drop_all", enabled=False))
    client = Client(filtering)
    client.publish("1")
    await filtering.settled()
    assert client.receipts == [b"1"]
    assert filtering.reflexes.report()[0]["state"] == "disabled"


async def test_the_chains_of_many_messages_begin_in_several_turns_and_their_order_is_kept(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = reflex(ARRIVAL, "set_headers", library="mom", options={"set": {"x": "y"}})
    filtering.declare(stamp, reflex(ARRIVAL, "drop_odd"))
    client, other = Client(filtering), Client(filtering)
    client.subscribe(credit=1_000)
    await filtering.settled()
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    client.publish(*map(str, range(200)))
    client.publish("200", "202")
    other.publish("4", to="/queue/other")
    begun = await in_each_turn(lambda: filtering.reflexes.report()[0]["calls"], 203)
    assert max(begun) < 20
    await filtering.settled()
    assert client.bodies == [b"%d" % number for number in range(0, 203, 2)]
    assert other.receipts == [b"4"]


async def test_connections_take_turns_while_chains_begin(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = partial(reflex, ARRIVAL, "set_headers", library="mom", options={"set": {"x": "y"}})
    filtering.declare(stamp(name="many", service="stock"), stamp(name="one", service="other"))
    client, other = Client(filtering), Client(filtering)
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    client.publish(*map(str, range(500)))
    other.publish("x", to="/queue/other")
    calls = [row["calls"] for row in filtering.reflexes.report()]
    while not calls[1]:
        await asyncio.sleep(0)
        calls = [row["calls"] for row in filtering.reflexes.report()]
    assert calls[0] < 100
    await filtering.settled()
    assert (filtering.depth("stock"), filtering.depth("other")) == (500, 1)


async def test_what_waits_behind_an_undecided_message_goes_on_in_several_turns_and_in_order(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering.declare(reflex(ARRIVAL, "slowly", time_limit_s=20.0))
    client = Client(filtering)
    client.publish("first")
    for number in range(300):
        filtering.engine.submit(c.Answer(client.peer, number))
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    arrivals = filtering.reflexes._arrivals
    assert arrivals.held == 301
    assert max(await in_each_turn(lambda: -arrivals.held, 0)) < 20
    await filtering.settled()
    assert client.receipts == [b"first", *range(300)]
