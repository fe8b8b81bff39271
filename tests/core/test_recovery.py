from array import array
from collections.abc import Callable
from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.durability import records
from broker_app.core.durability.recovery import Recovery, live_positions
from broker_app.core.durability.snapshot import SnapshotBuilder, take_snapshot
from broker_app.core.durability.snapshot_format import FORMAT, read
from broker_app.core.message import DeliveryOptions
from tests.core.stage import Client, Record, Stage, Stored
from tests.core.stage import read as records_of
from tests.core.storm import Storm
from tests.support.chance import rounds


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.fixture
def stage() -> Stage:
    return Stage(max_attempts=5)


def consumer_of(stage: Stage, *bodies: bytes, **facts: Any) -> Client:
    stage.decide(stage.client().sending("/queue/a", *bodies))
    return consumer(stage, **facts)


def consumer(stage: Stage, **facts: Any) -> Client:
    client = stage.client()
    client.subscribe("/queue/a", **facts)
    return client


def test_persistent_messages_come_back_in_order(stage: Stage) -> None:
    stage.decide(stage.client().sending("/queue/a", *numbered(5)))
    stage.client().publish("/queue/a", b"urgent", priority=9)
    stage.restart()
    assert consumer(stage).take() == [b"urgent", *numbered(5)]


def test_acknowledged_messages_do_not_come_back(stage: Stage) -> None:
    consumer_of(stage, *numbered(4)).settle(1, 3)
    stage.restart()
    assert consumer(stage).take() == [b"1", b"3"]


def test_other_messages_do_not_come_back(stage: Stage) -> None:
    stage.client().publish("/queue/a", b"1", persistent=False)
    stage.restart()
    assert stage.queues == {}


def test_a_message_that_was_delivered_before_is_marked_and_the_rest_is_not(stage: Stage) -> None:
    consumer_of(stage, *numbered(4), credit=2)
    stage.restart()
    assert consumer(stage).take_attempts() == [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0)]


def test_repeated_attempts_are_remembered(stage: Stage) -> None:
    client = consumer_of(stage, b"1")
    client.give_back(1)
    client.give_back(2)
    stage.restart()
    client = consumer(stage)
    assert client.take_attempts() == [(b"1", 3)], "it was held when the broker ended, for the third time"
    client.give_back(1)
    client.give_back(2)
    assert stage.queue("/queue/a.dead").depth == 1


@pytest.mark.parametrize("facts", [{}, {"selector": "x IS NULL"}], ids=["plain", "selector"])
@pytest.mark.parametrize("snapshots", [False, True])
def test_a_message_that_is_held_at_each_end_of_the_broker_becomes_a_dead_letter(
    stage: Stage, facts: dict[str, str], snapshots: bool
) -> None:
    client = consumer_of(stage, b"poison", b"behind it", credit=1, **facts)
    for attempt in range(5):
        assert client.take_attempts() == [(b"poison", attempt)]
        if snapshots:
            snapshot = stage.take_snapshot()
            assert take_snapshot(stage.recovered(snapshot, len(stage.batches))) == snapshot
        stage.restart()
        client = consumer(stage, credit=1, **facts)
    assert client.take_attempts() == [(b"behind it", 0)]
    (dead,) = stage.queue("/queue/a.dead").lanes[0].in_memory()
    assert dead.body == b"poison" and b"dead-reason:MAX_ATTEMPTS\n" in dead.envelope.block
    assert b"dead-attempts:5\n" in dead.envelope.block


def test_dead_letters_come_back(stage: Stage) -> None:
    client = consumer_of(stage, b"1")
    client.reject(1)
    stage.restart()
    client = stage.client()
    client.subscribe("/queue/a.dead")
    assert client.take_attempts() == [(b"1", 0)]


def test_purged_messages_do_not_come_back(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", credit=1)
    client.purge("/queue/a")
    stage.restart()
    assert consumer(stage).take_attempts() == [(b"1", 1)]


def test_positions_go_on_where_they_ended(stage: Stage) -> None:
    consumer_of(stage, b"1", b"2").settle(1, 2)
    following = stage.broker.turn.next_position
    stage.restart()
    assert stage.broker.turn.next_position == following
    assert stage.client().publish("/queue/a", b"3").position == following


def test_a_snapshot_stands_for_the_batches_before_it(stage: Stage) -> None:
    client = consumer_of(stage, *numbered(5), credit=2)
    client.give_back(1)
    client.give_back(3)
    snapshot, before = stage.take_snapshot(), len(stage.batches)
    client.settle(2)
    stage.client().publish("/queue/a", b"5")
    assert (
        take_snapshot(stage.recovered(snapshot, before))
        == take_snapshot(stage.recovered())
        == stage.take_snapshot()
    )


def test_a_snapshot_of_an_idle_broker_holds_no_queues(stage: Stage) -> None:
    client = consumer_of(stage, b"1")
    client.settle(1)
    client.subscribe("/temp-queue/mine", id="2")
    stage.client().publish("/temp-queue/mine", b"")
    stage.client().publish("/queue/b", b"", persistent=False)
    assert stage.take_snapshot() == bytes((FORMAT,))


def test_a_snapshot_is_written_as_documented(stage: Stage) -> None:
    client = consumer_of(stage, b"1", b"2", b"3", credit=2)
    client.give_back(1)
    client.give_back(3)
    (section,) = read(stage.take_snapshot())
    assert (section.address, section.position) == ("/queue/a", stage.broker.turn.next_position)
    assert section.lanes == [(4, 2, array("Q", (1, 2, 3)), {1: 3})]


def test_a_snapshot_may_be_made_in_steps_while_the_broker_works_on(stage: Stage) -> None:
    producer, consumer = stage.client(), stage.client()
    for number in range(20):
        producer.publish(f"/queue/{number}", b"before")
    consumer.subscribe("/queue/3", ack=c.INDIVIDUAL)
    freezing, before = SnapshotBuilder(stage.broker), len(stage.batches)
    number = 0
    while not freezing.step(work=1):
        producer.publish(f"/queue/{number}", b"meanwhile")
        producer.publish(f"/queue/{19 - number}", b"meanwhile")
        producer.do(c.Purge(producer.peer, f"/queue/{(number + 7) % 20}"))
        number += 1
    assert number >= 19
    assert freezing.position < freezing.through <= stage.broker.turn.next_position
    consumer.settle(1)
    assert take_snapshot(stage.recovered(b"".join(freezing.parts()), before)) == stage.take_snapshot()


def test_a_snapshot_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match=f"has format {FORMAT + 1}, this program reads format {FORMAT}"):
        Recovery(Broker()).load(bytes((FORMAT + 1,)))


def test_a_record_of_an_unknown_type_is_refused() -> None:
    record = bytearray(records.acked(0, 0, [1]))
    record[4] = 99
    with pytest.raises(ValueError, match="record 7 has the unknown type 99"):
        Recovery(Broker()).apply(["/queue/a"], 7, bytes(record))


def of_the_first_version(batch: Stored) -> Stored:
    """A batch as a broker without facts wrote it."""
    parts = []
    for record in records_of(batch):
        place = batch.destinations.index(record.address)
        if record.kind == records.RETURNED and record.flags == records.GIVEN_BACK:
            parts.append(records.acked(0, records.DISCARDED, ()))  # only to keep the positions
        elif record.kind == records.ACKED:
            parts.append(records.acked(place, record.flags, record.numbers))
        else:
            parts.append(without_clients(record, place))
    return batch._replace(records=b"".join(parts))


def of_the_second_version(batch: Stored) -> Stored:
    """A batch as a broker wrote it that did not record clients and reasons."""
    parts = [
        without_clients(record, batch.destinations.index(record.address)) for record in records_of(batch)
    ]
    return batch._replace(records=b"".join(parts))


def without_clients(record: Record, place: int) -> bytes:
    """A record as it was before records named clients and reasons; `place` is the index of its address.
    Histories count the bytes of their records, so those stay as they are."""
    content = bytearray(record.content)
    if record.kind == records.RETURNED:
        numbers = record.numbers
        return records.returned(place, zip(numbers[::2], numbers[1::2], strict=True), record.flags)
    if record.kind == records.ACKED:
        content[records.FLAGS_AT + 1] = 0
        if record.clients:
            del content[-4 * len(record.clients) :]
            content[records.VERSION_AT] = records.WITH_FACTS
    elif in_queue(record) and record.flags & records.HAS_CLIENT:
        end = records.block_at(record.content, 0, record.flags & ~records.HAS_ADDRESS)
        at = end - 4 - 12 * bool(record.flags & records.HAS_ORIGIN)
        del content[at : at + 4]
        content[records.FLAGS_AT] &= ~records.HAS_CLIENT
    content[:4] = len(content).to_bytes(4, "little")
    return bytes(content)


def in_queue(record: Record) -> bool:
    return record.kind == records.PUBLISHED and not record.address.startswith("/topic/")


@pytest.mark.parametrize("former", [of_the_first_version, of_the_second_version])
@pytest.mark.parametrize("seed", rounds(15, 60))
def test_records_of_former_versions_restore_the_same(seed: int, former: Callable[[Stored], Stored]) -> None:
    storm = Storm(seed)
    storm.blow(60, drain=False)
    stage = storm.stage
    expected = take_snapshot(stage.recovered())
    stage.batches = [former(batch) for batch in stage.batches]
    assert take_snapshot(stage.recovered()) == expected
    written = [one for batch in stage.batches for one in records_of(batch)]
    assert not any(one.client for one in written if in_queue(one))
    assert not any(one.clients for one in written if one.kind != records.PUBLISHED)
    older, middle = stage.new_broker(), len(stage.batches) // 2
    recovery = Recovery(older)
    for batch in stage.batches[:middle]:
        recovery.apply(*batch)
    older.turn.policies = stage.broker.turn.policies
    assert take_snapshot(stage.recovered(take_snapshot(older), middle)) == expected


def test_a_recovered_broker_names_the_positions_it_wants(stage: Stage) -> None:
    client = consumer_of(stage, *numbered(5))
    client.settle(2)
    stage.client().publish("/queue/b", b"", priority=9)
    positions = sorted(position for chunk in live_positions(stage.recovered()) for position in chunk)
    assert positions == sorted(position for position in stage.bodies if position != 2)


def test_expired_messages_go_after_a_restart(stage: Stage) -> None:
    stage.client().publish("/queue/a", b"1", ttl_ms=100)
    stage.restart()
    stage.pass_time(1_000)
    stage.pass_time(1_000)
    assert stage.queue("/queue/a").depth == 0


def test_an_unfinished_transaction_is_nothing_after_a_restart(stage: Stage) -> None:
    client = consumer_of(stage, b"1")
    client.do(c.Begin(client.peer, "t"))
    client.do(c.Enlist(client.peer, "t", c.Settle(client.peer, [1])))
    client.do(c.Enlist(client.peer, "t", client.sending("/queue/a", b"2")))
    stage.restart()
    assert consumer(stage).take() == [b"1"]


def test_a_broker_to_which_no_client_sends_is_restored_without_dedup_ids(stage: Stage) -> None:
    client = stage.client()
    for number in range(4):
        client.publish("/queue/a", b"%d" % number, options=DeliveryOptions(dedup_id=str(number)))
        if number == 1:
            snapshot, before = stage.take_snapshot(), len(stage.batches)
    recovery = Recovery(broker := stage.new_broker(), dedup_ids=False)
    recovery.load(snapshot)
    for batch in stage.batches[before:]:
        recovery.apply(*batch)
    recovery.finish(stage.broker.turn.next_position, stage.now_ms)
    assert broker.publisher.dedup_windows.addresses() == []
    stage.restart(broker)
    assert consumer(stage).take() == numbered(4)
