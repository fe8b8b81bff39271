"""A damaged journal is repaired: it opens again, losses are reported, and the files as they were are kept."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.files import Files
from broker_app.journal.log import meta
from broker_app.journal.log.scan import scan
from broker_app.journal.log.segment import segment_name
from broker_app.journal.tools.inspect import verify
from broker_app.journal.tools.repair import Repair, describe
from tests.support.samples import sample

from .stage import SETTLED, Life, QuickSystem, published, quick_journal, read_now

NOTHING = codec.encode_record(SETTLED, b"")


def frames_of(path: Path) -> list[tuple[int, codec.Frame]]:
    content = path.read_bytes()
    header = codec.decode_segment_header(content)
    assert header is not None
    return scan(content, header.segment_id).frames


def log_files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.glob("log-*.seg")) if frames_of(path)]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def repair_of(directory: Path) -> Repair:
    return Repair(Files(directory, QuickSystem()), NOTHING)


@pytest.fixture
def three_batches(tmp_path: Path) -> Path:
    """A journal of one segment with three batches: positions 1 and 2, 3 and 4, 5 and 6."""
    directory = tmp_path / "journal"
    life = Life(quick_journal(directory))
    life.restore()
    for number in range(3):
        life.publish(b"first of %d" % number, b"second of %d" % number)
    life.close()
    return directory


def test_nothing_is_found_in_a_good_journal(three_batches: Path) -> None:
    assert repair_of(three_batches).damages == []


@pytest.mark.slow
def test_a_byte_flipped_anywhere_in_the_middle_is_repaired(three_batches: Path, tmp_path: Path) -> None:
    (log,) = log_files(three_batches)
    frames = frames_of(log)
    places = range(frames[2][0])
    for at in sample(places, len(places) // 3):
        directory = tmp_path / "copy"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(three_batches, directory)
        flip(directory / log.name, at)
        damaged = (directory / log.name).read_bytes()
        repair = repair_of(directory)
        hit = [number for number, (offset, f) in enumerate(frames) if offset <= at < offset + f.length]
        if hit:
            first = 1 + 2 * hit[0]
            (damage,) = repair.damages
            assert (damage.positions, damage.offset) == ((first, first + 2), frames[hit[0]][0])
            assert f"positions {first} to {first + 1}" in describe(repair.damages)[0]
        elif not repair.damages:
            continue  # a byte of the head that means nothing
        else:
            assert not repair.has_losses
        kept = Path(repair.apply())
        assert (kept / log.name).read_bytes() == damaged
        left = [position for position in range(1, 7) if not hit or (position - 1) // 2 != hit[0]]
        life = Life(quick_journal(directory))
        assert life.recovery.report == []
        replayed = life.restore(left)
        assert [batch.first_position for batch in replayed] == [1, 3, 5]
        if hit:
            assert replayed[hit[0]].records == NOTHING * 2
        assert len(life.read(left)) == len(left)
        life.close()
        assert not [finding for finding in verify(directory) if finding.damage]


def test_readable_parts_of_a_damaged_batch_are_reported(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    (_, (offset, frame), _) = frames_of(log)
    flip(log, offset + frame.length - 1)
    (damage,) = repair_of(three_batches).damages
    assert damage.destinations == ("/queue/orders", "/queue/größen")


def test_a_state_of_all_that_can_be_read_takes_the_place_of_a_missing_segment(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.close()
    files = log_files(tmp_path)
    lost = [frame.first_position for _, frame in frames_of(files[1])]
    files[1].unlink()
    repair = repair_of(tmp_path)
    assert [damage.positions for damage in repair.damages] == [(lost[0], lost[-1] + 1)]
    left = [position for position in range(1, 7) if position not in lost]
    assert [batch.first_position for batch in repair.batches()] == left
    assert [position for position in range(1, 9) if repair.stores(position)] == left
    repair.apply(b"state")
    again = Life(quick_journal(tmp_path, segment_bytes=512))
    assert (again.recovery.snapshot, again.recovery.report) == (b"state", [])
    assert again.restore(left) == []
    assert again.read(left) == [published(bytes(300))] * len(left)
    again.close()


def test_a_damaged_carry_file_keeps_what_can_be_read(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    kept = []
    for _ in range(3):
        kept += life.publish(b"kept")
        for _ in range(40):
            life.settle(*life.publish(bytes(300)))
        life.snapshot()
    life.close()
    carry = max(tmp_path.glob("carry-*.seg"), key=lambda path: len(frames_of(path)))
    frames = frames_of(carry)
    assert len(frames) > 1
    flip(carry, frames[0][0] + frames[0][1].length - 1)
    (tmp_path / (carry.stem + ".idx")).unlink()
    with pytest.raises(JournalDamaged):
        quick_journal(tmp_path).open()
    repair = repair_of(tmp_path)
    assert [damage.offset for damage in repair.damages] == [frames[0][0]]
    repair.apply()
    journal = quick_journal(tmp_path)
    again = Life(journal)
    list(journal.replay())
    assert journal.missing([kept]) == [frames[0][1].first_position]
    left = [position for position in kept if position != frames[0][1].first_position]
    journal.set_live_positions([left])
    assert read_now(journal, left) == [published(b"kept")] * len(left)
    again.close()


def test_a_record_that_two_carry_files_have_is_replayed_once(tmp_path: Path) -> None:
    """A crash between writing a carry file and removing what it was made from leaves both."""
    life = Life(quick_journal(tmp_path))
    life.restore()
    kept = []
    for _ in range(3):
        kept += life.publish(b"kept")
        for _ in range(40):
            life.settle(*life.publish(bytes(300)))
        life.snapshot()
    life.close()
    carry = max(tmp_path.glob("carry-*.seg"), key=lambda path: len(frames_of(path)))
    content = carry.read_bytes()
    header = codec.decode_segment_header(content)
    assert header is not None
    later = replace(header, sequence=header.sequence + 1_000)
    rest = content[codec.SEGMENT_HEADER_BYTES :]
    (tmp_path / segment_name(codec.CARRY, later.sequence)).write_bytes(
        codec.encode_segment_header(later) + rest
    )
    for snapshot in tmp_path.glob("*.snap"):
        snapshot.unlink()  # what was carried is read from the carry files alone
    repair = repair_of(tmp_path)
    assert repair.has_gaps
    positions = [batch.first_position for batch in repair.batches()]
    assert sorted(set(positions)) == positions
    assert set(kept[:1]) <= set(positions)


def test_damaged_meta_and_snapshot_files_are_set_aside(three_batches: Path) -> None:
    life = Life(quick_journal(three_batches))
    life.restore(range(1, 7))
    life.snapshot(b"state")
    life.close()
    (snapshot,) = three_batches.glob("*.snap")
    snapshot.write_bytes(b"")
    (three_batches / meta.META).write_bytes(b"{}")
    repair = repair_of(three_batches)
    assert {damage.file for damage in repair.damages} == {snapshot.name, meta.META}
    assert not repair.has_losses
    kept = Path(repair.apply())
    assert {path.name for path in kept.iterdir()} == {snapshot.name, meta.META}
    again = Life(quick_journal(three_batches))
    assert [batch.first_position for batch in again.restore(range(1, 7))] == [1, 3, 5]
    again.close()


def test_damage_that_truncation_cannot_repair_is_refused(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    header = codec.decode_segment_header(log.read_bytes())
    assert header is not None
    pieces = codec.encode_frame(
        segment_id=header.segment_id, epoch=1, first_position=3, time_us=0, count=1, table=bytes(4),
        parts=[NOTHING],
    )  # fmt: skip
    offset, frame = frames_of(log)[-1]
    end = offset + frame.length
    log.write_bytes(log.read_bytes()[:end] + b"".join(pieces))
    with pytest.raises(
        JournalDamaged, match=f"the batch at offset {end} starts at position 3, but 7 was expected"
    ):
        repair_of(three_batches)


def test_a_repair_that_is_interrupted_can_be_made_again(three_batches: Path) -> None:
    class Interrupted(QuickSystem):
        def rename(self, old: Path, new: Path) -> None:
            raise KeyboardInterrupt

    (log,) = log_files(three_batches)
    offset, frame = frames_of(log)[1]
    flip(log, offset + frame.length - 1)
    with pytest.raises(KeyboardInterrupt):
        Repair(Files(three_batches, Interrupted()), NOTHING).apply()
    repair_of(three_batches).apply()
    life = Life(quick_journal(three_batches))
    assert [batch.first_position for batch in life.restore([1, 2, 5, 6])] == [1, 3, 5]
    life.close()
