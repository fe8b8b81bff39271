"""Records name the client that sent, received or acknowledged a message, and why a delivery or a message
ended."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.client_address import address_of
from broker_app.core.durability import records
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import REMOVE_LOW_PRIORITY, REMOVE_OLDEST, DestinationPolicy, Policies
from tests.core.stage import Client, Record, Stage, read

A, GRAVE = "/queue/a", "/queue/a.dead"
ANN, BOB = address_of("ann", "till-1"), address_of("bob")


@pytest.fixture
def stage() -> Stage:
    return Stage(max_attempts=3)


def client_of(stage: Stage, address: str) -> Client:
    client = stage.client()
    client.peer.client = address
    return client


def written(stage: Stage, kind: int, flags: int | None = None) -> list[Record]:
    return [
        record
        for batch in stage.batches
        for record in read(batch)
        if record.kind == kind and flags in (None, record.flags)
    ]


def senders(stage: Stage, address: str = A) -> list[str]:
    return [record.client for record in written(stage, records.PUBLISHED) if record.address == address]


def failures(stage: Stage) -> list[tuple[str, str]]:
    """(client, reason) of each delivery that failed."""
    found = written(stage, records.RETURNED, records.GIVEN_BACK)
    return [(record.client, record.reason) for record in found]


def ends(stage: Stage) -> list[tuple[str, str]]:
    """(cause, reason) of each record of removed messages."""
    return [(records.CAUSES[record.flags], record.reason) for record in written(stage, records.ACKED)]


def configured(stage: Stage, **policy: object) -> None:
    stage.decide(c.Reconfigure(Policies(exact={A: DestinationPolicy(**policy)})))  # type: ignore[arg-type]


# ---------------------------------------------------------------------- producers


def test_a_message_names_the_client_that_sent_it(stage: Stage) -> None:
    client_of(stage, ANN).publish(A)
    client_of(stage, BOB).publish(A)
    stage.client().publish(A)
    assert senders(stage) == [ANN, BOB, ""]


def test_a_peer_may_send_for_several_clients(stage: Stage) -> None:
    rest = stage.client()
    publish = rest.sending(A, b"1")
    publish.client = ANN
    stage.decide(publish, rest.sending(A, b"2"))
    assert senders(stage) == [ANN, ""]


def test_clients_of_one_batch_share_its_table(stage: Stage) -> None:
    ann, bob = client_of(stage, ANN), client_of(stage, BOB)
    stage.decide(*(one.sending(address, b"x") for address in (A, "/queue/b") for one in (ann, bob, ann)))
    assert stage.batches[-1].destinations == [ANN, A, BOB, "/queue/b"]
    assert senders(stage, "/queue/b") == [ANN, BOB, ANN]


def test_a_message_that_waited_for_room_names_its_client(stage: Stage) -> None:
    configured(stage, max_messages=1)
    ann, bob = client_of(stage, ANN), client_of(stage, BOB)
    stage.decide(ann.sending(A, b"1", b"2"), bob.sending(A, b"3"))
    stage.client().subscribe(A, c.AUTO)
    assert senders(stage) == [ANN, ANN, BOB]


def test_a_message_that_an_alarm_blocked_names_its_client(stage: Stage) -> None:
    stage.decide(c.StoreSpace(0))
    stage.decide(client_of(stage, ANN).sending(A, b"1"))
    assert senders(stage) == []
    stage.decide(c.StoreSpace(None))
    stage.decide()
    assert senders(stage) == [ANN]


def test_messages_of_a_transaction_name_their_client(stage: Stage) -> None:
    ann = client_of(stage, ANN)
    ann.do(c.Begin(ann.peer, "t"))
    ann.do(c.Enlist(ann.peer, "t", ann.sending(A, b"1")))
    ann.do(c.Commit(ann.peer, "t"))
    assert senders(stage) == [ANN]


def test_copies_and_histories_of_a_topic_name_the_client_that_sent(stage: Stage) -> None:
    stage.decide(c.Reconfigure(Policies(exact={"/topic/t": DestinationPolicy(retention_ms=60_000)})))
    stage.client().subscribe("/topic/t", name="kept", durable=True)
    client_of(stage, ANN).publish("/topic/t", b"1")
    assert senders(stage, "/topic/t") == senders(stage, "/topic-subscription/kept") == [ANN]


def test_a_message_with_options_names_its_client(stage: Stage) -> None:
    options = DeliveryOptions(dedup_id="once", group="g")
    block = b"group:g\n"
    client_of(stage, ANN).publish(A, b"1", block=block, options=options)
    assert senders(stage) == [ANN]
    stage.restart()
    reader = stage.client()
    reader.subscribe(A)
    assert [message.envelope.options.group for _, _, message in reader.got if message.envelope.options] == [
        "g"
    ]


def test_a_scheduled_message_names_its_client_where_it_waits_and_not_when_it_is_due(stage: Stage) -> None:
    client_of(stage, ANN).publish(A, b"1", options=DeliveryOptions(delay_ms=1_000))
    stage.pass_time(1_001)
    assert senders(stage) == [ANN, ""]


def test_a_forwarded_message_names_the_client_of_the_bridge_and_its_origin(stage: Stage) -> None:
    bridge = client_of(stage, BOB)
    bridge.do(c.BeginFlow(bridge.peer, "f", "home~7f", "q", A))
    stage.decide(c.Forward(bridge.peer, "f", [(Envelope(A), b"1", None)], [41]))
    (record,) = written(stage, records.PUBLISHED)
    assert (record.client, record.origin) == (BOB, ("/mark/home~7f/q", 41))


def test_rows_of_a_batch_name_owner_and_producer(stage: Stage) -> None:
    spark = stage.client()
    needs = {A: c.Need(2, 2, 1), "/topic/t": c.Need(1, 1, 1)}
    rows = [(Envelope(A), b"1"), (Envelope(A, options=DeliveryOptions(group="g")), b"2")]
    spark.do(c.PublishBulk(spark.peer, "query/1", "carla", 0, rows, needs))
    assert senders(stage) == [address_of("carla", "query/1")] * 2


def test_dead_letters_and_moved_messages_are_sent_by_no_client(stage: Stage) -> None:
    client_of(stage, ANN).publish(A, b"1")
    consumer = client_of(stage, BOB)
    consumer.subscribe(A)
    consumer.reject(1)
    operator = stage.client()
    (position,) = [record.position for record in written(stage, records.PUBLISHED) if record.address == GRAVE]
    operator.do(c.Transfer(operator.peer, GRAVE, [c.Chosen(position, None)], "/queue/b"))
    assert senders(stage, GRAVE) == senders(stage, "/queue/b") == [""]


# ---------------------------------------------------------------------- consumers


@pytest.mark.parametrize("ack", [c.AUTO, c.INDIVIDUAL])
def test_an_acknowledgement_names_its_client(stage: Stage, ack: str) -> None:
    ann, bob = client_of(stage, ANN), client_of(stage, BOB)
    ann.subscribe(A, ack, credit=2)
    bob.subscribe(A, ack, credit=2)
    stage.decide(stage.client().sending(A, b"1", b"2", b"3", b"4"))
    if ack != c.AUTO:
        stage.decide(*(c.Settle(one.peer, (tag,)) for tag in (1, 2) for one in (ann, bob)))
    (record,) = written(stage, records.ACKED)
    assert dict(zip(record.numbers, record.clients, strict=True)) == {1: ANN, 2: BOB, 3: ANN, 4: BOB}
    assert record.reason == ""


def test_a_peer_may_receive_for_several_clients(stage: Stage) -> None:
    rest = client_of(stage, BOB)
    stage.decide(c.Subscribe(rest.peer, "1", A, c.INDIVIDUAL, client=ANN))
    rest.publish(A, b"1")
    rest.settle(1)
    assert [record.clients for record in written(stage, records.ACKED)] == [(ANN,)]


def test_an_acknowledgement_of_a_client_without_a_name_names_none(stage: Stage) -> None:
    client = stage.client()
    client.subscribe(A, c.AUTO)
    client.publish(A)
    assert [record.clients for record in written(stage, records.ACKED)] == [("",)]
    assert stage.batches[-1].destinations == [A]


def test_a_delivery_out_of_order_names_its_consumer(stage: Stage) -> None:
    ann, bob = client_of(stage, ANN), client_of(stage, BOB)
    ann.subscribe(A)
    stage.client().publish(A, b"1")
    bob.subscribe(A)
    ann.disconnect()
    assert [record.client for record in written(stage, records.RETURNED, 0)] == [BOB]


def test_deliveries_to_consumers_with_selectors_name_each(stage: Stage) -> None:
    ann, bob = client_of(stage, ANN), client_of(stage, BOB)
    ann.subscribe(A, selector="n = '2'")
    bob.subscribe(A, selector="n = '1'")
    entries = [(Envelope(A, b"n:%d\n" % number), b"", None) for number in (2, 1, 2)]
    stage.decide(c.Publish(stage.client().peer, entries))
    ann.disconnect()
    bob.disconnect()
    (begun,) = written(stage, records.RETURNED, 0)
    assert dict(zip(begun.numbers[::2], begun.clients, strict=True)) == {1: ANN, 2: BOB, 3: ANN}


# ---------------------------------------------------------------------- reasons


def test_a_failed_delivery_shows_why(stage: Stage) -> None:
    ann = client_of(stage, ANN)
    ann.subscribe(A, lease_ms=100)
    stage.decide(stage.client().sending(A, b"1", b"2", b"3", b"4"))
    ann.give_back(1)
    ann.reject(2)
    ann.do(c.Return(ann.peer, [3], dead_reason="UNDELIVERABLE"))
    stage.pass_time(200)
    ann.unsubscribe()
    reasons = [reason for _, reason in failures(stage)]
    assert reasons[:3] == ["NACKED", "REJECTED", "UNDELIVERABLE"]
    assert set(reasons[3:5]) == {"LEASE_ENDED"} and set(reasons[5:]) == {"CONSUMER_LEFT"}
    assert {client for client, _ in failures(stage)} == {ANN}


def test_a_disconnected_consumer_has_left(stage: Stage) -> None:
    ann = client_of(stage, ANN)
    ann.subscribe(A)
    stage.client().publish(A)
    ann.disconnect()
    assert failures(stage) == [(ANN, "CONSUMER_LEFT")]


def test_a_dead_letter_shows_why_it_left_its_queue(stage: Stage) -> None:
    ann = client_of(stage, ANN)
    stage.decide(stage.client().sending(A, b"1", b"2"))
    ann.subscribe(A, credit=1)
    ann.reject(1)
    for tag in (2, 3, 4):
        ann.give_back(tag)
    assert ends(stage) == [("dead-lettered", "REJECTED"), ("dead-lettered", "MAX_ATTEMPTS")]


@pytest.mark.parametrize("buried", [False, True])
def test_an_expired_message_shows_it(stage: Stage, buried: bool) -> None:
    configured(stage, dead_letter_expired=buried)
    stage.client().publish(A, b"1", ttl_ms=100)
    stage.pass_time(5_000)
    assert ends(stage) == [("dead-lettered" if buried else "expired", "EXPIRED")]


@pytest.mark.parametrize(
    ("behavior", "reason"), [(REMOVE_OLDEST, "OLDEST"), (REMOVE_LOW_PRIORITY, "LOW_PRIORITY")]
)
@pytest.mark.parametrize(("kept", "cause"), [(True, "dead-lettered"), (False, "discarded")])
@pytest.mark.parametrize("paged", [False, True])
def test_a_message_that_made_room_shows_it(
    behavior: str, reason: str, kept: bool, cause: str, paged: bool
) -> None:
    stage = Stage(window=1 if paged else 100)
    configured(stage, max_messages=1, limit_behavior=behavior, use_dead_letters=kept)
    stage.decide(stage.client().sending(A, b"1", b"2", b"3"))
    assert ends(stage) == [(cause, reason)] * 2


def test_a_rejected_dead_letter_is_discarded_as_rejected(stage: Stage) -> None:
    stage.client().publish(A, b"1")
    ann = client_of(stage, ANN)
    ann.subscribe(A)
    ann.reject(1)
    ann.subscribe(GRAVE, id="dead")
    ann.reject(2)
    assert ends(stage) == [("dead-lettered", "REJECTED"), ("discarded", "REJECTED")]


def test_a_message_that_the_journal_cannot_read_shows_it(stage: Stage) -> None:
    sender = stage.client()
    lost = sender.publish(A, b"1")
    later = sender.publish(A, b"2", options=DeliveryOptions(delay_ms=1_000))
    stage.damaged = {lost.position, later.position}
    stage.restart()
    stage.client().subscribe(A)
    stage.pass_time(1_001)
    assert ends(stage) == [("dead-lettered", "DAMAGED")] * 2


def test_what_an_operator_removes_has_no_reason(stage: Stage) -> None:
    operator = stage.client()
    first = operator.publish(A, b"1")
    operator.publish(A, b"2")
    operator.do(c.Transfer(operator.peer, A, [c.Chosen(first.position, None)], "/queue/b"))
    operator.purge(A)
    assert ends(stage) == [("moved", ""), ("purged", "")]
