"""Messages that a consumer chooses by position."""

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.chosen_delivery import NOT_READ
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.message import DeliveryOptions
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.core.storage.transfers import DONE, GONE, REFUSED, UNSETTLED
from tests.core.stage import Client, Stage

A = "/queue/a"


def stage_with(*bodies: bytes, stage: Stage | None = None) -> tuple[Stage, Client, list[int]]:
    """A stage, a client, and the positions of messages in a queue."""
    stage = stage or Stage()
    client = stage.client("anna")
    return stage, client, [client.publish(A, body).position for body in bodies]


def choose(client: Client, *positions: int, address: str = A, lease_ms: int = 0) -> list[str]:
    """The status of each position; bodies that are not in memory are handed in."""
    bodies = client.stage.bodies
    chosen = [c.Chosen(position, bodies.get(position)) for position in positions]
    answer: object = client.do(c.DeliverChosen(client.peer, "1", address, chosen, lease_ms))
    assert isinstance(answer, list)
    return [result.status for result in answer]


def test_chosen_messages_come_out_of_their_order_and_the_others_stay() -> None:
    stage, client, (one, two, three) = stage_with(b"1", b"2", b"3")
    assert choose(client, three, one) == [DONE, DONE]
    assert client.take() == [b"3", b"1"]
    other = stage.client()
    other.subscribe(A)
    assert other.take() == [b"2"]
    client.settle(*client.tags)
    other.settle(*other.tags)
    assert stage.queue(A).depth == stage.queue(A).unsettled == 0
    assert two


def test_what_does_not_wait_is_gone_and_what_another_consumer_holds_is_unsettled() -> None:
    stage, client, (one, two) = stage_with(b"1", b"2")
    other = stage.client()
    other.subscribe(A, credit=1)
    assert choose(client, one, two, 4_711) == [UNSETTLED, DONE, GONE]
    assert choose(client, two, two) == [UNSETTLED, UNSETTLED]
    assert choose(client, one, address="/queue/nowhere") == [GONE]


def test_a_message_that_comes_back_while_later_ones_are_read_keeps_its_place() -> None:
    bodies = [b"%d" % number for number in range(7)]
    stage, client, positions = stage_with(*bodies, stage=Stage(window=1, fetch_messages=2))
    assert choose(client, positions[2]) == [DONE]
    stage.loading = False
    consumer = stage.client()
    consumer.subscribe(A, credit=10)
    (fetch,) = stage.fetches
    assert fetch.positions == [positions[1], positions[3]]
    client.give_back(*client.tags)
    stage.loading = True
    stage.load()
    assert consumer.take() == bodies


def test_a_position_that_is_given_twice_is_delivered_once() -> None:
    _, client, (one,) = stage_with(b"1")
    assert choose(client, one, one) == [DONE, UNSETTLED]
    assert client.take() == [b"1"]


def test_messages_outside_memory_are_delivered_from_their_records() -> None:
    stage, client, positions = stage_with(
        *(b"%d" % n for n in range(9)), stage=Stage(window=2, fetch_messages=1)
    )
    assert choose(client, positions[7], positions[4]) == [DONE, DONE]
    assert client.take() == [b"7", b"4"]
    nothing_read = c.DeliverChosen(client.peer, "2", A, [c.Chosen(positions[8])])
    assert [result.status for result in client.do(nothing_read)] == [NOT_READ]  # type: ignore[union-attr]
    client.give_back(1)
    other = stage.client()
    other.subscribe(A)
    assert other.take() == [b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"8"]


def test_the_lease_returns_a_chosen_message_to_its_place() -> None:
    stage, client, (one, two, _) = stage_with(b"1", b"2", b"3")
    assert choose(client, two, lease_ms=1_000) == [DONE]
    client.take()
    stage.pass_time(1_000)
    assert client.tags == []
    other = stage.client()
    other.subscribe(A)
    assert other.take_attempts() == [(b"1", 0), (b"2", 1), (b"3", 0)]
    assert one


def test_attempts_of_chosen_messages_survive_a_restart() -> None:
    stage, client, (_, two) = stage_with(b"1", b"2")
    assert choose(client, two) == [DONE]
    assert take_snapshot(stage.recovered()) == stage.take_snapshot()
    stage.restart()
    other = stage.client()
    other.subscribe(A)
    assert other.take_attempts() == [(b"1", 0), (b"2", 1)]


def test_messages_that_expired_or_were_delivered_too_often_are_gone() -> None:
    stage = Stage(max_attempts=1)
    client = stage.client()
    late = client.publish(A, b"late", ttl_ms=100).position
    tried = client.publish(A, b"tried").position
    client.subscribe(A)
    stage.restart()
    client = stage.client()
    stage.now_us += 200_000
    assert choose(client, late, tried) == [GONE, GONE]
    assert client.take() == []
    assert stage.queue("/queue/a.dead").depth == 1


def test_queues_that_deliver_in_another_way_refuse() -> None:
    stage, client, (one,) = stage_with(b"1")
    exclusive = stage.client()
    exclusive.subscribe(A, exclusive=True)
    with pytest.raises(Refused, match="exclusive consumer"):
        choose(client, one)
    exclusive.disconnect()
    stage.decide(c.Reconfigure(Policies(DestinationPolicy(paused="consumers"))))
    with pytest.raises(Refused, match="paused"):
        choose(client, one)


def grouped(client: Client, *bodies: bytes) -> list[int]:
    facts = {"block": b"group:g\n", "options": DeliveryOptions(group="g")}
    return [client.publish(A, body, **facts).position for body in bodies]


def test_a_group_has_no_consumer_while_chosen_messages_of_it_are_unsettled() -> None:
    stage = Stage()
    client, other = stage.client(), stage.client()
    one, two, _ = grouped(client, b"1", b"2", b"3")
    assert choose(client, one, two) == [DONE, DONE]
    other.subscribe(A)
    client.settle(1)
    assert other.take() == []
    client.settle(2)
    assert other.take() == [b"3"]


def test_a_message_of_a_group_that_a_consumer_owns_is_refused() -> None:
    stage = Stage()
    client, owner = stage.client(), stage.client()
    owner.subscribe(A, credit=1)
    _, two = grouped(client, b"1", b"2")
    assert choose(client, two) == [REFUSED]
    owner.settle(1)
    assert owner.take() == [b"1", b"2"]


def test_a_consumer_with_a_selector_receives_the_rest() -> None:
    stage, client, (one, two) = stage_with(b"1", b"2")
    chooser = stage.client()
    chooser.subscribe(A, selector="colour = 'red'")
    assert choose(client, two) == [DONE]
    client.give_back(1)
    everything = stage.client()
    everything.subscribe(A)
    assert everything.take_attempts() == [(b"1", 0), (b"2", 1)]
    assert one


def test_the_first_delivery_of_a_chosen_message_is_recorded_as_an_attempt() -> None:
    stage, client, (_, two) = stage_with(b"1", b"2")
    assert choose(client, two) == [DONE]
    kinds = [kind for kind, *_ in records.walk(stage.batches[-1].records)]
    assert kinds == [records.RETURNED]
