"""Store-and-forward queues: in order, recorded, and with events while they have no consumer."""

from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.inspection.browse import browse
from broker_app.core.inspection.why import why
from broker_app.core.message import DeliveryOptions
from broker_app.core.outcome import Arrived
from broker_app.core.policy import DestinationPolicy, Policies
from tests.core.stage import Client, Stage, read

QUEUE = "/queue/storeAndForward:b/queue/q"


def arrived(stage: Stage, *run: c.Command) -> list[str]:
    """The queues that were reported when `run` was carried out."""
    told = stage.decide(*run).take_events()
    return [fact.address for fact in told if isinstance(fact, Arrived)]


def test_nothing_overtakes_whatever_its_priority_or_group() -> None:
    stage = Stage()
    producer, bridge = stage.client(), stage.client()
    producer.publish(QUEUE, b"1", priority=0)
    producer.publish(QUEUE, b"2", priority=9)
    producer.publish(QUEUE, b"3", options=DeliveryOptions(group="g"))
    producer.publish(QUEUE, b"4")
    bridge.subscribe(QUEUE, exclusive=True)
    assert bridge.take() == [b"1", b"2", b"3", b"4"]
    bridge.give_back(3)
    bridge.give_back(1)
    assert bridge.take() == [b"3", b"1"]
    bridge.disconnect()
    bridge = stage.client()
    bridge.subscribe(QUEUE)
    assert bridge.take() == [b"1", b"2", b"3", b"4"]


def test_priorities_are_kept_for_the_broker_they_are_for() -> None:
    stage = Stage(window=1)
    producer, bridge = stage.client(), stage.client()
    for priority in (9, 0, 5):
        producer.publish(QUEUE, b"%d" % priority, priority=priority)
    stage.restart()
    bridge.subscribe(QUEUE)
    assert [message.envelope.priority for _, _, message in bridge.got] == [9, 0, 5]


def test_all_of_it_is_recorded_and_numbered_without_a_gap_in_the_order() -> None:
    stage = Stage()
    producer, bridge = stage.client(), stage.client()
    producer.publish(QUEUE, b"1", persistent=False)
    producer.publish(QUEUE, b"2")
    bridge.subscribe(QUEUE)
    first, second = (message.position for _, _, message in bridge.got)
    assert (first, second) == (1, 2)
    stored = [record for batch in stage.batches for record in read(batch) if record.kind == records.PUBLISHED]
    assert [record.flags for record in stored] == [records.TRANSIENT, 0]
    stage.restart()
    bridge = stage.client()
    bridge.subscribe(QUEUE)
    assert [(m.position, m.envelope.persistent) for _, _, m in bridge.got] == [(first, False), (second, True)]


def test_its_state_is_the_same_from_the_journal_and_from_a_snapshot() -> None:
    stage = Stage(window=2)
    producer, bridge = stage.client(), stage.client()
    for number in range(6):
        producer.publish(QUEUE, b"%d" % number, priority=number, persistent=number % 2 == 0)
    bridge.subscribe(QUEUE, credit=4)
    bridge.settle(1, 3)
    frozen = stage.take_snapshot()
    for broker in (stage.recovered(), stage.recovered(frozen, len(stage.batches))):
        assert broker.destinations.queues[QUEUE].depth == 4
        assert [lane.priority for lane in broker.destinations.queues[QUEUE].lanes] == [4]
    stage.restart()
    assert stage.take_snapshot() == frozen


def test_a_message_that_comes_back_is_neither_given_up_nor_left_behind() -> None:
    stage = Stage(policy=DestinationPolicy(max_attempts=2, retry_delay_ms=1_000))
    producer, bridge = stage.client(), stage.client()
    producer.publish(QUEUE, b"1")
    producer.publish(QUEUE, b"2")
    bridge.subscribe(QUEUE, credit=1)
    for attempts in range(6):
        assert bridge.take_attempts() == [(b"1", attempts)]
        bridge.give_back(attempts + 1, delay_ms=500)


def test_dead_letters_and_moves_work_as_everywhere() -> None:
    stage = Stage()
    producer, bridge = stage.client(), stage.client()
    for number in range(3):
        producer.publish(QUEUE, b"%d" % number)
    bridge.subscribe(QUEUE)
    bridge.reject(2, detail="too large")
    dead = browse(stage.broker, QUEUE + ".dead")
    assert dead is not None and [item.message.body for item in dead if item.message] == [b"1"]
    revive = c.Transfer(producer.peer, QUEUE + ".dead", [c.Chosen(dead[0].position)], c.ORIGIN, revive=True)
    producer.do(revive)
    assert bridge.take() == [b"0", b"1", b"2", b"1"]
    bridge.disconnect()
    producer.purge(QUEUE)
    assert stage.queue(QUEUE).depth == 0


def test_it_is_browsed_and_explained_in_its_order() -> None:
    stage = Stage()
    producer, bridge = stage.client(), stage.client()
    for priority in (1, 9, 4):
        producer.publish(QUEUE, b"%d" % priority, priority=priority)
    bridge.subscribe(QUEUE, credit=1)
    items = browse(stage.broker, QUEUE)
    assert items is not None
    assert [(item.message and item.message.body, item.state) for item in items] == [
        (b"1", "unsettled"),
        (b"9", "ready"),
        (b"4", "ready"),
    ]
    last = items[2].message
    assert last is not None
    behind = [reason for reason in why(stage.broker, QUEUE, last, stage.now_ms) if reason.code == "behind"]
    assert behind[0].facts == {"ahead": 1, "depth": 2}


def test_an_arrival_is_reported_once_a_batch_while_there_is_no_consumer() -> None:
    stage = Stage()
    producer = stage.client()
    assert arrived(stage, producer.sending(QUEUE, b"1", b"2"), producer.sending("/queue/a", b"3")) == [QUEUE]
    assert arrived(stage, producer.sending(QUEUE, b"4")) == [QUEUE]
    assert arrived(stage, producer.sending("/queue/a", b"5")) == []
    assert arrived(stage, producer.sending(QUEUE + ".dead", b"6")) == []
    bridge = stage.client()
    bridge.subscribe(QUEUE, credit=1)
    assert arrived(stage, producer.sending(QUEUE, b"7")) == []
    assert arrived(stage, c.Settle(bridge.peer, bridge.tags)) == []


def test_messages_that_are_due_moved_or_given_back_have_arrived_too() -> None:
    stage = Stage()
    producer, reader = stage.client(), stage.client()
    later = producer.sending(QUEUE, b"1", options=DeliveryOptions(delay_ms=1_000))
    assert arrived(stage, later) == []
    stage.loading = False
    stage.pass_time(1_001)
    (fetch,) = stage.fetches
    assert arrived(stage, stage.loaded(fetch)) == [QUEUE]
    stage.fetches.clear()
    stage.loading = True
    reader.subscribe(QUEUE)
    assert arrived(stage, c.Disconnect(reader.peer)) == [QUEUE]
    position = producer.publish("/queue/a", b"2").position
    moving = c.Transfer(producer.peer, "/queue/a", [c.Chosen(position)], QUEUE)
    assert arrived(stage, moving) == [QUEUE]
    assert arrived(stage, c.Purge(producer.peer, QUEUE)) == []


def test_a_queue_of_another_name_that_is_configured_alike_keeps_its_priorities() -> None:
    stage = Stage()
    stage.broker = type(stage.broker)(
        policies=Policies(exact={"/queue/storeAndForward": DestinationPolicy()})
    )
    producer, consumer = Client(stage), Client(stage)
    producer.publish("/queue/storeAndForward", b"1", priority=1)
    producer.publish("/queue/storeAndForward", b"9", priority=9)
    consumer.subscribe("/queue/storeAndForward")
    assert consumer.take() == [b"9", b"1"]
