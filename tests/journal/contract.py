"""The promises of `journal.port`, as tests that every implementation runs.

A test module for an implementation derives from `JournalContract` and provides the fixture `open_life`:
a function that opens the same storage each time it is called.
"""

import pytest

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalInUse, NoSuchPosition
from broker_app.journal.port import FIRST_POSITION

from .stage import SETTLED, Open, batch_of, published


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
