"""The promises of `journal.port`, as tests that every implementation runs.

A test module for an implementation derives from `JournalContract` and provides two fixtures: `open_life` is a
function that opens the same storage each time it is called, `broken` lets that storage fail. The tests run
with journals that answer at once, and with those that answer later.
"""

import time

import pytest

from broker_app.journal import codec
from broker_app.journal.errors import (
    Busy,
    JournalDamaged,
    JournalFailed,
    JournalInUse,
    NoSuchPosition,
    TooManyCursors,
)
from broker_app.journal.port import FIRST_POSITION

from .stage import SETTLED, Broken, Open, batch_of, batches_of, published

#: what every journal reports
STATISTICS = {
    "commits", "records", "bytes_written", "snapshots", "epoch", "next_position", "snapshot_position",
    "live_records", "bytes_stored", "bytes_on_disk",
}  # fmt: skip


class JournalContract:
    def test_a_new_journal_is_empty(self, open_life: Open) -> None:
        life = open_life()
        assert life.recovery.snapshot is None
        assert life.recovery.snapshot_position == life.recovery.next_position == FIRST_POSITION
        assert life.restore() == []

    def test_committed_batches_are_replayed_in_order_and_complete(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two")
        life.settle(1)
        epoch = life.journal.epoch
        life.close()

        first, second = open_life().restore([2])
        assert (first.first_position, first.count, first.epoch) == (1, 2, epoch)
        assert first.time_us == 1_700_000_000_000_001
        assert first.destinations == ["/queue/orders", "/queue/größen"]
        assert first.records == published(b"one") + published(b"two")
        assert (second.first_position, second.count) == (3, 1)
        assert list(codec.iterate_records(second.records)) == [(SETTLED, codec.encode_record(SETTLED, b""))]

    def test_a_record_may_span_several_parts(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        record = published(b"head" + b"body" * 100)
        batch = batch_of(1, [record[:4], record[4:9], record[9:]], keep=[1])
        batch.count = 1
        life.commit(batch)
        assert life.read([1]) == [record]

    def test_records_are_read_in_the_order_asked(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(*(b"%d" % i for i in range(10)))
        life.publish(*(b"%d" % i for i in range(10, 20)))
        assert life.read([20, 1, 12, 3, 1]) == [published(b"%d" % i) for i in (19, 0, 11, 2, 0)]
        assert life.read([]) == []

    def test_reads_that_are_asked_for_together_are_all_answered(self, open_life: Open) -> None:
        life = open_life()
        for number in range(5):
            life.publish(b"%d" % number)
        life.close()
        again = open_life()
        again.restore([1, 2, 3, 4, 5])
        answers = [again.ask(positions) for positions in ([1, 2], [9], [2, 3, 4], [5])]
        for answer in answers:
            again.wait(answer.is_there)
        with pytest.raises(NoSuchPosition, match="position 9 "):
            _ = answers.pop(1).result
        assert [answer.result for answer in answers] == [
            [published(b"%d" % number) for number in run] for run in ([0, 1], [1, 2, 3], [4])
        ]

    def test_a_journal_measures_how_much_can_be_read_with_so_many_bytes(self, open_life: Open) -> None:
        life = open_life()
        life.commit(batch_of(1, [published(bytes(1_000)), published(bytes(1_000))], keep=[1, 2]))
        life.commit(batch_of(3, [published(bytes(5_000))], keep=[3]))
        life.commit(batch_of(4, [published(bytes(100))], keep=[4]))
        measure = life.journal.measure
        assert measure([1, 2, 3, 4], 100_000).length == 4
        assert measure([1, 2, 3, 4], 2_500).length == 2
        assert measure([4, 3, 2, 1], 6_000).length == 2
        run = measure([3, 4], 1_000)
        assert run.length == 1, "one is read, however large it is"
        assert 5_000 <= run.size < 6_000

    def test_reading_says_when_it_is_worth_trying_again(self, open_life: Open, broken: Broken) -> None:
        life = open_life()
        life.publish(b"one")
        life.close()
        again = open_life()
        again.restore([1])
        with broken(again, "reads"), pytest.raises(Busy):
            again.read([1])
        assert again.read([1]) == [published(b"one")]
        assert again.publish(b"two") == [2]

    def test_reading_what_was_never_written_names_the_position(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one")
        with pytest.raises(NoSuchPosition, match="position 77 "):
            life.read([1, 77])

    def test_records_are_read_after_reopening(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two")
        life.close()
        again = open_life()
        again.restore([1, 2])
        assert again.read([1, 2]) == [published(b"one"), published(b"two")]

    def test_retaining_what_is_not_stored_is_damage(self, open_life: Open) -> None:
        life = open_life()
        life.publish(b"one")
        with pytest.raises(JournalDamaged, match="position 5 "):
            life.restore([1, 5])

    def test_positions_go_on_after_reopening(self, open_life: Open) -> None:
        life = open_life()
        life.publish(b"one", b"two")
        life.close()
        again = open_life()
        assert again.recovery.next_position == 3
        again.restore()
        assert again.publish(b"three") == [3]

    def test_the_epoch_grows_and_the_tag_stays(self, open_life: Open) -> None:
        life = open_life()
        before = (life.journal.epoch, life.journal.tag, life.journal.created_us)
        life.close()
        after = open_life().journal
        assert after.epoch > before[0] > 0
        assert (after.tag, after.created_us) == before[1:]
        assert 0 <= after.tag < 2**26

    def test_a_batch_may_publish_and_free_the_same_position(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.commit(batch_of(1, [published(b"brief")], keep=[1], free=[1]))
        assert life.journal.statistics()["live_records"] == 0

    def test_a_batch_may_hold_no_published_record(self, open_life: Open) -> None:
        life = open_life()
        life.settle()
        life.close()
        assert [batch.count for batch in open_life().restore()] == [1]

    def test_a_batch_at_the_wrong_position_is_refused(self, open_life: Open) -> None:
        life = open_life()
        for wrong in (0, 2):
            with pytest.raises(ValueError, match="expected"):
                life.journal.commit(batch_of(wrong, [published(b"x")]), lambda error: None)
        with pytest.raises(ValueError, match="expected"):
            life.journal.commit(batch_of(1, []), lambda error: None)

    def test_after_a_failure_every_commit_fails(self, open_life: Open, broken: Broken) -> None:
        life = open_life()
        life.restore()
        life.publish(b"kept")
        with broken(life, "commits"):
            assert isinstance(life.try_commit(batch_of(2, [published(b"failed")])), JournalFailed)
        for first in (2, 3):
            error = life.try_commit(batch_of(first, [published(b"too late")]))
            assert isinstance(error, JournalFailed)
        life.close()
        stored = [batch.records for batch in open_life().restore()]
        # A batch that failed may have been stored.
        assert stored in ([published(b"kept")], [published(b"kept"), published(b"failed")])

    def test_replay_starts_at_the_snapshot(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one")
        life.publish(b"two")
        life.snapshot(b"after one", position=2)
        life.publish(b"three")
        life.close()
        again = open_life()
        assert (again.recovery.snapshot, again.recovery.snapshot_position) == (b"after one", 2)
        assert [batch.first_position for batch in again.restore([1, 2, 3])] == [2, 3]
        assert again.read([1]) == [published(b"one")]

    def test_a_later_snapshot_takes_the_place_of_the_former(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        for i in range(5):
            life.publish(b"x")
            life.snapshot(b"%d" % i)
        life.close()
        again = open_life()
        assert (again.recovery.snapshot, again.recovery.snapshot_position) == (b"4", 6)
        assert again.restore() == []

    def test_a_snapshot_that_fails_leaves_the_former_one(self, open_life: Open, broken: Broken) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one")
        life.snapshot(b"first")
        assert life.journal.background_error is None
        life.publish(b"two")
        with broken(life, "snapshots"):
            error = life.try_snapshot(b"second")
        assert error is not None
        assert life.journal.background_error is error
        life.publish(b"three")
        life.close()
        again = open_life()
        assert (again.recovery.snapshot, again.recovery.snapshot_position) == (b"first", 2)
        assert [batch.first_position for batch in again.restore()] == [2, 3]
        again.snapshot(b"third")

    def test_a_snapshot_in_many_parts_is_stored_as_one(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        parts = [b"%d," % number for number in range(1500)]
        life.journal.snapshot(life.next, parts, lambda error: None)
        life.close()
        assert open_life().recovery.snapshot == b"".join(parts)

    def test_an_empty_journal_can_have_a_snapshot(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.snapshot(b"empty")
        life.close()
        again = open_life()
        assert again.recovery.snapshot == b"empty"
        assert again.recovery.next_position == FIRST_POSITION

    def test_a_snapshot_inside_a_batch_is_refused(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two", b"three")
        for wrong in (0, 2, 5):
            with pytest.raises(ValueError, match="not the start"):
                life.journal.snapshot(wrong, [], lambda error: None)

    def test_an_open_journal_is_held(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        assert life.journal.is_held
        life.publish(b"one")
        assert life.journal.is_held

    def test_an_open_journal_has_room(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        assert life.journal.available_bytes() > 0
        life.publish(b"one")
        assert life.journal.available_bytes() > 0
        life.close()
        assert life.journal.available_bytes() == 0

    def test_a_second_holder_is_refused(self, open_life: Open) -> None:
        life = open_life()
        with pytest.raises(JournalInUse):
            open_life()
        life.close()
        open_life()

    def test_closing_twice_is_harmless(self, open_life: Open) -> None:
        life = open_life()
        life.close()
        life.close()

    def test_statistics_count(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two")
        life.settle(1)
        seen = life.journal.statistics()
        assert (seen["commits"], seen["records"], seen["live_records"], seen["next_position"]) == (2, 3, 1, 4)
        assert seen.keys() >= STATISTICS
        assert (seen["snapshots"], seen["snapshot_position"]) == (0, 1)
        assert 0 < seen["bytes_stored"] <= seen["bytes_on_disk"]
        life.snapshot()
        seen = life.journal.statistics()
        assert (seen["snapshots"], seen["snapshot_position"]) == (1, 4)

    # -------------------------------------------------------------------- reading the log

    def test_the_log_of_a_new_journal_is_empty(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        assert life.journal.span() == (FIRST_POSITION, FIRST_POSITION)
        assert life.log_from(FIRST_POSITION) == (FIRST_POSITION, FIRST_POSITION, b"")

    @pytest.mark.parametrize("max_bytes", [1, 2000, 1 << 20])
    def test_the_log_is_read_as_it_was_written(self, open_life: Open, max_bytes: int) -> None:
        life = open_life()
        life.restore()
        written = []
        for number in range(40):
            first = life.next
            records = [published(b"%d:" % number + bytes(40 * number)), codec.encode_record(SETTLED, b"")]
            life.commit(batch_of(first, records, keep=[first]))
            written.append((first, 1_700_000_000_000_000 + first, b"".join(records)))
        assert life.journal.span() == (1, 81)
        found = life.whole_log(max_bytes)
        assert [(batch.first_position, batch.time_us, batch.records) for batch in found] == written
        assert {batch.epoch for batch in found} == {life.journal.epoch}
        assert found[0].destinations == ["/queue/orders", "/queue/größen"]

    def test_a_run_begins_with_the_batch_that_contains_the_position(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two", b"three")
        life.publish(b"four", b"five")
        for position in (1, 2, 3):
            assert [batch.first_position for batch in batches_of(life.log_from(position))] == [1, 4]
        assert life.log_from(5).position == 4
        assert life.log_from(6) == (6, 6, b"")

    def test_a_run_has_no_more_bytes_than_asked_for_unless_its_only_batch_has(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        for _ in range(10):
            life.publish(bytes(100))
        one = len(life.log_from(1, 1).frames)
        assert one > 100
        for batches in (1, 2, 7):
            for limit in (batches * one, batches * one + one - 1):
                assert len(life.log_from(1, limit).frames) == batches * one

    def test_positions_outside_of_the_log_are_refused(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one")
        for wrong in (0, 3):
            with pytest.raises(NoSuchPosition, match=f"position {wrong} .* from 1 to before 2"):
                life.log_from(wrong)

    def test_the_log_is_there_after_reopening(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        for number in range(60):
            life.publish(b"%d" % number + bytes(300))
        before = life.whole_log()
        life.close()
        again = open_life()
        again.restore(range(1, 61))
        assert again.journal.span() == (1, 61)
        assert again.whole_log() == before
        again.publish(b"more")
        assert again.journal.span() == (1, 62)

    def test_the_log_begins_behind_what_was_let_go(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        (old,) = life.publish(b"old")
        for number in range(300):
            life.settle(*life.publish(bytes(300)))
            if number % 50 == 49:
                life.snapshot()
        life.wait(lambda: life.journal.span().low > old)
        low, end = life.journal.span()
        assert old < low <= end == life.next
        assert life.read([old]) == [published(b"old")], "a message that waits is kept, wherever it is"
        with pytest.raises(NoSuchPosition, match=f"position {low - 1} "):
            life.log_from(low - 1)
        for _ in range(3):
            life.publish(b"new")
        # More may be let go meanwhile, but not what is being written.
        assert [batch.first_position for batch in batches_of(life.log_from(end))] == [end, end + 1, end + 2]

    # ---------------------------------------------------------------------------- cursors

    def test_a_cursor_has_its_last_position_and_the_time_of_its_report(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.publish(b"one", b"two")
        assert life.journal.cursors() == {}
        began_us = time.time_ns() // 1000
        life.set_cursor("archive:a", 1)
        life.set_cursor("statistics", 3)
        life.set_cursor("archive:a", 2)
        found = life.journal.cursors()
        assert [(name, state.position, state.lost) for name, state in found.items()] == [
            ("archive:a", 2, None),
            ("statistics", 3, None),
        ]
        for state in found.values():
            assert began_us - 1000 <= state.reported_us <= time.time_ns() // 1000 + 1000
            assert state.keeps_log
        life.close()
        assert open_life().journal.cursors() == found

    def test_a_dropped_cursor_does_not_come_back(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.set_cursor("archive", 1)
        for _ in range(2):
            life.drop_cursor("archive")
            assert life.journal.cursors() == {}
        life.close()
        assert open_life().journal.cursors() == {}

    def test_a_cursor_is_within_the_log(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.settle_much(64)
        life.wait_until_let_go()
        low, end = life.journal.span()
        assert 1 < low <= end
        for wrong in (0, low - 1, end + 1):
            with pytest.raises(NoSuchPosition, match=f"from {low} to before {end}"):
                life.set_cursor("archive", wrong)
        assert life.journal.cursors() == {}
        for right in (low, end):
            life.set_cursor("archive", right)

    def test_a_cursor_needs_a_name_and_there_are_a_hundred_of_them(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        for wrong in ("", "a b", "Archive", "a" * 101, "a/b", "a\n"):
            with pytest.raises(ValueError, match="no name of a cursor"):
                life.set_cursor(wrong, 1)
        for number in range(100):
            life.set_cursor(f"a.{number}_-:", 1)
        life.set_cursor("a.7_-:", 1)
        with pytest.raises(TooManyCursors, match="100 cursors"):
            life.set_cursor("one-more", 1)
        life.close()
        assert len(open_life().journal.cursors()) == 100

    def test_the_log_is_kept_from_the_smallest_cursor_on(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.settle_much(64)
        life.wait_until_let_go()
        low = life.journal.span().low
        assert low > 1
        life.set_cursor("slow", low)
        life.set_cursor("fast", life.next)
        life.settle_much(200)
        assert life.journal.span().low == low
        assert sum(batch.count for batch in life.whole_log()) == life.next - low
        life.close()
        again = open_life()
        again.restore()
        again.settle_much(64)
        assert again.journal.span().low == low, "also after a restart"
        again.set_cursor("fast", again.next)
        assert again.journal.span().low == low
        again.set_cursor("slow", again.next)
        again.wait(lambda: again.journal.span().low > low)
        assert again.journal.cursors()["slow"].lost is None

    def test_a_dropped_cursor_keeps_nothing(self, open_life: Open) -> None:
        life = open_life()
        life.restore()
        life.set_cursor("archive", 1)
        life.settle_much(64)
        assert life.journal.span().low == 1
        life.drop_cursor("archive")
        life.wait(lambda: life.journal.span().low > 1)
