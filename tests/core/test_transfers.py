"""Messages moved, copied, deleted and inserted; headers of dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability import records
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.storage import dead_letter_headers
from broker_app.core.storage.transfers import DONE, GONE, REFUSED, UNSETTLED, TransferResult
from tests.core.stage import Client, Fact, Stage, read

A, B = "/queue/a", "/queue/b"


def fill(stage: Stage, *bodies: bytes, **facts: Any) -> list[int]:
    """Publish to /queue/a; the positions."""
    client = stage.client()
    return [client.publish(A, body, **facts).position for body in bodies]


def transfer(
    stage: Stage, positions: list[int], target: str = B, source: str = A, **how: Any
) -> list[TransferResult]:
    chosen = [c.Chosen(position, stage.bodies.get(position)) for position in positions]
    command = c.Transfer(stage.client().peer, source, chosen, target, **how)
    return ask(command)


def ask(command: c.Transfer | c.Insert) -> list[TransferResult]:
    client = command.peer.receiver
    assert isinstance(client, Client)
    answer: Any = client.do(command)
    assert isinstance(answer, list)
    return answer


def statuses(moved: list[TransferResult]) -> list[str]:
    return [one.status for one in moved]


def taken(stage: Stage, address: str) -> list[bytes]:
    consumer = stage.client()
    consumer.subscribe(address, credit=1000)
    return consumer.take()


def causes(stage: Stage) -> list[str]:
    return [
        records.CAUSES[record.flags]
        for batch in stage.batches
        for record in read(batch)
        if record.kind == records.ACKED
        for _ in record.numbers
    ]


class TestMoving:
    def test_a_move_takes_from_the_middle_and_keeps_ids_headers_and_order(self) -> None:
        stage = Stage()
        _, second, _, fourth = fill(stage, b"1", b"2", b"3", b"4", block=b"h:1\n", priority=7)
        ids = stage.broker.turn.ids
        before = {m.position: ids.of(m) for lane in stage.queue(A).lanes for m in lane.in_memory()}
        moved = transfer(stage, [second, fourth])
        assert statuses(moved) == [DONE, DONE]
        there = list(stage.queue(B).lanes[0].in_memory())
        assert [(ids.of(m), m.envelope.block, m.envelope.priority) for m in there] == [
            (before[second], b"h:1\n", 7),
            (before[fourth], b"h:1\n", 7),
        ]
        assert [one.message for one in moved] == there
        assert (taken(stage, A), taken(stage, B)) == ([b"1", b"3"], [b"2", b"4"])
        assert causes(stage) == ["moved", "moved"]

    def test_a_move_is_one_batch(self) -> None:
        stage = Stage()
        positions = fill(stage, b"1", b"2")
        before = len(stage.batches)
        transfer(stage, positions)
        assert len(stage.batches) == before + 1
        stage.restart()
        assert (A in stage.queues, taken(stage, B)) == (False, [b"1", b"2"])

    def test_a_moved_message_is_given_to_consumers_that_wait_at_the_target(self) -> None:
        stage = Stage()
        consumer = stage.client()
        consumer.subscribe(B)
        transfer(stage, fill(stage, b"1"))
        assert consumer.take_attempts() == [(b"1", 0)]

    def test_a_message_that_is_delivered_or_gone_is_left_alone(self) -> None:
        stage = Stage()
        positions = fill(stage, b"1", b"2", b"3")
        consumer = stage.client()
        consumer.subscribe(A, credit=2)
        consumer.settle(1)
        consumer.unsubscribe(keep_unsettled=True)
        moved = transfer(stage, [*positions, 999])
        assert sorted(statuses(moved)) == sorted([GONE, UNSETTLED, UNSETTLED, GONE])
        consumer.settle(*consumer.tags)
        assert consumer.take() == [b"1", b"2", b"3"]

    def test_one_position_is_moved_once(self) -> None:
        stage = Stage()
        (position,) = fill(stage, b"1")
        assert statuses(transfer(stage, [position, position])) == [DONE, GONE]
        assert taken(stage, B) == [b"1"]

    def test_a_message_that_came_back_is_moved_without_its_attempts(self) -> None:
        stage = Stage(max_attempts=9)
        positions = fill(stage, b"1", b"2")
        consumer = stage.client()
        consumer.subscribe(A)
        consumer.give_back(1)
        consumer.give_back(3)
        consumer.disconnect()
        transfer(stage, positions)
        other = stage.client()
        other.subscribe(B)
        assert other.take_attempts() == [(b"1", 0), (b"2", 0)]
        assert stage.queue(A).depth == 0

    def test_a_message_that_is_not_persistent_is_moved_as_such(self) -> None:
        stage = Stage()
        positions = fill(stage, b"1", persistent=False)
        moved = transfer(stage, positions)
        assert statuses(moved) == [DONE]
        assert stage.batches == []
        assert taken(stage, B) == [b"1"]

    def test_a_move_keeps_the_end_of_a_life(self) -> None:
        stage = Stage()
        positions = fill(stage, b"1", ttl_ms=5_000)
        stage.pass_time(4_000)
        transfer(stage, positions)
        stage.pass_time(2_000)
        assert stage.queue(B).depth == 0

    def test_deleting_needs_no_target_and_no_body(self) -> None:
        stage = Stage(window=1)
        positions = fill(stage, b"1", b"2", b"3", b"4")
        command = c.Transfer(stage.client().peer, A, [c.Chosen(position) for position in positions[1:3]])
        assert statuses(ask(command)) == [DONE, DONE]
        assert taken(stage, A) == [b"1", b"4"]
        assert causes(stage) == ["purged", "purged"]

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_the_facts_of_moved_messages_are_known_in_memory_or_not(self, in_memory: bool) -> None:
        stage = Stage(max_attempts=9)
        positions = fill(stage, b"1", b"22", b"333")
        consumer = stage.client()
        consumer.subscribe(A, credit=9)
        consumer.give_back(2)
        consumer.disconnect()
        if not in_memory:
            stage.restart()
        stage.now_us += 10_000
        assert any(stage.queue(A).lanes[0].in_memory()) is in_memory
        transfer(stage, positions)
        (record,) = (record for record in read(stage.batches[-1]) if record.kind == records.ACKED)
        expected = {1: Fact(10, 1, 0, 1, 0), 2: Fact(10, 2, 0, 2, 0), 3: Fact(10, 3, 0, 1, 0)}
        assert (record.flags, record.facts) == (records.MOVED, expected)

    def test_a_copy_stays_at_the_source(self) -> None:
        stage = Stage()
        positions = fill(stage, b"1", b"2")
        assert statuses(transfer(stage, positions, keep=True)) == [DONE, DONE]
        assert (taken(stage, A), taken(stage, B)) == ([b"1", b"2"], [b"1", b"2"])

    def test_given_lines_become_headers(self) -> None:
        stage = Stage()
        (position,) = fill(stage, b"1", block=b"a:1\n")
        ask(c.Transfer(stage.client().peer, A, [c.Chosen(position, lines=b"b:2\n")], B))
        (message,) = stage.queue(B).lanes[0].in_memory()
        assert message.envelope.block == b"a:1\nb:2\n"

    @pytest.mark.parametrize("target", ["/topic/t", "/temp-queue/t", "/queue/$x", "/queue/", A])
    def test_targets_that_cannot_be(self, target: str) -> None:
        stage = Stage()
        positions = fill(stage, b"1")
        with pytest.raises(Refused):
            transfer(stage, positions, target)
        assert taken(stage, A) == [b"1"]

    def test_a_source_that_does_not_exist(self) -> None:
        with pytest.raises(Refused, match="no queue /queue/a"):
            transfer(Stage(), [1])

    def test_private_queues_are_not_sources(self) -> None:
        stage = Stage()
        owner = stage.client()
        owner.subscribe("/temp-queue/t", credit=1)
        position = owner.publish("/temp-queue/t").position
        with pytest.raises(Refused, match="no queue"):
            transfer(stage, [position], source="/temp-queue/t")

    def test_a_fault_at_one_message_leaves_it_where_it_is_and_moves_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage = Stage()
        positions = fill(stage, b"1", b"2", b"3")
        limits = stage.broker.destination_limits
        check, calls = limits.check_room, 0

        def fault_at_the_second(*given: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise ZeroDivisionError
            check(*given)

        monkeypatch.setattr(limits, "check_room", fault_at_the_second)
        moved = transfer(stage, positions)
        assert statuses(moved) == [DONE, REFUSED, DONE]
        assert moved[1].detail.startswith("internal error of the broker")
        assert (taken(stage, A), taken(stage, B)) == ([b"2"], [b"1", b"3"])


class TestMovingPaged:
    def test_paged_messages_are_moved_from_the_middle(self) -> None:
        stage = Stage(window=2, fetch_messages=3)
        positions = fill(stage, *[b"%d" % number for number in range(20)])
        moved = transfer(stage, positions[5:15:2])
        assert statuses(moved) == [DONE] * 5
        assert taken(stage, B) == [b"5", b"7", b"9", b"11", b"13"]
        left = [number for number in range(20) if number not in (5, 7, 9, 11, 13)]
        assert taken(stage, A) == [b"%d" % number for number in left]

    def test_a_message_that_is_just_being_read_back_can_be_moved(self) -> None:
        stage = Stage(window=1, fetch_messages=2)
        positions = fill(stage, *[b"%d" % number for number in range(6)])
        stage.loading = False
        consumer = stage.client()
        consumer.subscribe(A)
        (fetch,) = stage.fetches
        assert list(fetch.positions) == positions[1:2] or list(fetch.positions) == positions[1:3]
        transfer(stage, [fetch.positions[0]])
        stage.loading = True
        stage.load()
        assert consumer.take() == [b"0", *[b"%d" % number for number in range(2, 6)]]
        assert taken(stage, B) == [b"1"]

    def test_all_that_is_being_read_back_can_be_moved(self) -> None:
        stage = Stage(window=1, fetch_messages=2)
        positions = fill(stage, *[b"%d" % number for number in range(6)])
        stage.loading = False
        consumer = stage.client()
        consumer.subscribe(A)
        moved = list(stage.fetches[0].positions)
        transfer(stage, moved)
        stage.loading = True
        stage.load()
        rest = [b"%d" % number for number, position in enumerate(positions) if position not in moved]
        assert consumer.take() == rest

    def test_a_paged_message_whose_record_is_not_handed_in_stays(self) -> None:
        stage = Stage(window=1)
        positions = fill(stage, b"1", b"2")
        moved = ask(c.Transfer(stage.client().peer, A, [c.Chosen(positions[1])], B))
        assert statuses(moved) == [REFUSED]
        assert taken(stage, A) == [b"1", b"2"]

    def test_moving_a_whole_paged_queue_leaves_nothing(self) -> None:
        stage = Stage(window=10)
        positions = fill(stage, *[b"%d" % number for number in range(300)])
        for start in range(0, 300, 64):
            transfer(stage, positions[start : start + 64])
        assert stage.queue(A).depth == 0
        assert stage.broker.store.memory_bytes == sum(
            m.size for lane in stage.queue(B).lanes for m in lane.in_memory()
        )
        assert taken(stage, B) == [b"%d" % number for number in range(300)]


class TestRetrying:
    def dead(self, stage: Stage, *bodies: bytes, **facts: Any) -> list[int]:
        """Messages that died in /queue/a; their positions in /queue/a.dead."""
        fill(stage, *bodies, **facts)
        consumer = stage.client()
        consumer.subscribe(A, credit=1000)
        consumer.reject(*consumer.tags, detail="no: \\ good")
        consumer.disconnect()
        return [m.position for lane in stage.queue(A + ".dead").lanes for m in lane.in_memory()]

    def test_a_retry_goes_to_the_true_origin_as_if_it_was_never_dead_lettered(self) -> None:
        stage = Stage()
        positions = self.dead(stage, b"1", b"2", block=b"h:1\n")
        moved = transfer(stage, positions, c.ORIGIN, A + ".dead", revive=True)
        assert statuses(moved) == [DONE, DONE]
        back = list(stage.queue(A).lanes[0].in_memory())
        assert [(m.body, m.envelope.block, m.attempts) for m in back] == [
            (b"1", b"h:1\n", 0),
            (b"2", b"h:1\n", 0),
        ]
        assert moved[0].lines.startswith(b"origin:/queue/a\ndead-reason:REJECTED\n")

    def test_a_retry_can_be_undone_with_what_it_took_off(self) -> None:
        stage = Stage()
        (position,) = self.dead(stage, b"1", block=b"h:1\n")
        (before,) = (m.envelope.block for m in stage.queue(A + ".dead").lanes[0].in_memory())
        (moved,) = transfer(stage, [position], c.ORIGIN, A + ".dead", revive=True)
        assert moved.message is not None
        back = c.Chosen(moved.message.position, lines=moved.lines)
        ask(c.Transfer(stage.client().peer, A, [back], A + ".dead"))
        (after,) = (m.envelope.block for m in stage.queue(A + ".dead").lanes[0].in_memory())
        assert after == before

    def test_a_retry_finds_the_origin_of_what_was_moved_on(self) -> None:
        stage = Stage()
        positions = self.dead(stage, b"1")
        (moved,) = transfer(stage, positions, "/queue/graveyard", A + ".dead")
        assert moved.message is not None
        transfer(stage, [moved.message.position], c.ORIGIN, "/queue/graveyard", revive=True)
        assert taken(stage, A) == [b"1"]

    def test_a_message_that_was_never_dead_lettered_has_no_origin(self) -> None:
        stage = Stage()
        (moved,) = transfer(stage, fill(stage, b"1"), c.ORIGIN)
        assert (moved.status, "not a dead letter" in moved.detail) == (REFUSED, True)
        assert taken(stage, A) == [b"1"]


class TestScheduled:
    def test_a_message_that_is_not_due_can_be_cancelled_and_not_moved(self) -> None:
        stage = Stage()
        first, _ = fill(stage, b"1", b"2", options=DeliveryOptions(delay_ms=5_000))
        assert statuses(transfer(stage, [first])) == [REFUSED]
        assert statuses(transfer(stage, [first, 999], "")) == [DONE, GONE]
        assert statuses(transfer(stage, [first], "")) == [GONE]
        stage.pass_time(6_000)
        stage.load()
        assert taken(stage, A) == [b"2"]

    def test_a_queue_of_which_nothing_is_due_can_be_emptied_after_a_restart(self) -> None:
        stage = Stage()
        (position,) = fill(stage, b"1", options=DeliveryOptions(delay_ms=5_000))
        stage.restart()
        assert statuses(transfer(stage, [position], "")) == [DONE]
        stage.pass_time(6_000)
        assert taken(stage, A) == []


class TestInserting:
    def test_a_message_that_is_inserted_has_the_ids_it_was_given(self) -> None:
        stage = Stage()
        client = stage.client()
        given = [b"%036d" % number for number in range(3)]
        envelope = Envelope(A, b"h:1\n")
        moved = ask(c.Insert(client.peer, A, [(an_id, envelope, b"x") for an_id in given]))
        assert statuses(moved) == [DONE] * 3
        stage.restart()
        consumer = stage.client()
        consumer.subscribe(A)
        assert [stage.broker.turn.ids.of(message) for _, _, message in consumer.got] == given

    def test_inserting_needs_a_valid_target(self) -> None:
        stage = Stage()
        with pytest.raises(Refused):
            ask(c.Insert(stage.client().peer, "/topic/t", [(b"x" * 36, Envelope("/topic/t"), b"")]))
        assert stage.queues == {}


class TestDeadLetterFacts:
    @pytest.mark.parametrize("address", ["/queue/a", "/queue/a:b\\n", "/queue/\\c", "/queue/ä\\\\c"])
    def test_the_origin_is_read_as_it_was_written(self, address: str) -> None:
        block = b"h:1\n" + dead_letter_headers.lines(
            {"origin": address, "dead-reason": "X", "dead-detail": ""}
        )
        assert dead_letter_headers.origin_of(block) == address
        assert dead_letter_headers.divide(block) == (b"h:1\n", block.removeprefix(b"h:1\n"))

    def test_a_living_message_has_none(self) -> None:
        assert dead_letter_headers.origin_of(b"h:origin\nan-origin:1\n") == ""
        assert dead_letter_headers.divide(b"h:1\nan-origin:1\n") == (b"h:1\nan-origin:1\n", b"")
