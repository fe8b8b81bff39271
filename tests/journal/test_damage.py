"""Torn tails are cut and reported; damage anywhere else stops with the file, the place and what is lost."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged
from broker_app.journal.log import meta
from broker_app.journal.log.scan import scan
from broker_app.journal.log.segment import index_name
from broker_app.journal.port import Damaged
from broker_app.journal.tools.inspect import verify
from tests.support.samples import sample

from .stage import Life, published, quick_journal

Copy = Callable[[Path], Path]


def log_files(directory: Path) -> list[Path]:
    """The log segments that hold frames, in order."""
    return [path for path in sorted(directory.glob("log-*.seg")) if frames_of(path)]


def frames_of(path: Path) -> list[tuple[int, codec.Frame]]:
    content = path.read_bytes()
    header = codec.decode_segment_header(content)
    assert header is not None
    return scan(content, header.segment_id).frames


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    def copied(source: Path) -> Path:
        target = tmp_path / "copy"
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(source, target))

    return copied


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


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["nothing", "zeros", "garbage"])
def test_the_last_batch_cut_at_every_byte_is_cut_away(three_batches: Path, copy: Copy, rest: str) -> None:
    (log,) = log_files(three_batches)
    (offset, frame) = frames_of(log)[-1]
    content = log.read_bytes()
    places = range(offset, offset + frame.length)
    for cut in sample(places, len(places) // 3):
        directory = copy(three_batches)
        missing = len(content) - cut
        tail = {"nothing": b"", "zeros": bytes(missing), "garbage": b"\xa5MOMB" * (missing // 5)}[rest]
        (directory / log.name).write_bytes(content[:cut] + tail)

        life = Life(quick_journal(directory))
        assert life.recovery.next_position == 5
        if cut >= offset + codec.FRAME_HEADER_BYTES:
            assert f"offset {offset}, position 5" in life.recovery.report[0]
        assert [batch.first_position for batch in life.restore([1, 2, 3, 4])] == [1, 3]
        assert life.publish(b"anew") == [5]
        assert life.read([4, 5]) == [published(b"second of 1"), published(b"anew")]
        life.close()
        again = Life(quick_journal(directory))
        assert again.recovery.report == []
        assert again.recovery.next_position == 6
        again.close()


def test_no_flipped_bit_is_ever_read_as_content(three_batches: Path, copy: Copy) -> None:
    (log,) = log_files(three_batches)
    frames = frames_of(log)
    last, frame = frames[-1]
    good = log.read_bytes()
    places = range(codec.SEGMENT_HEADER_BYTES, last + frame.length)
    for at in sample(places, len(places) // 3):
        directory = copy(three_batches)
        flipped = bytearray(good)
        flipped[at] ^= 1 << (at % 8)
        (directory / log.name).write_bytes(flipped)
        journal = quick_journal(directory)
        if at < last:
            damaged = next(offset for offset, frame in frames if at < offset + frame.length)
            with pytest.raises(JournalDamaged, match=rf"{log.name}: damaged from offset {damaged} .*verify"):
                journal.open()
            assert (directory / log.name).read_bytes() == flipped, "nothing may be changed"
            assert any(finding.damage and finding.offset == damaged for finding in verify(directory))
        else:
            recovery = journal.open()
            assert recovery.next_position == 5
            assert f"offset {last}, position 5" in recovery.report[0], at
        journal.close()


def test_damage_between_segments_names_the_missing_positions(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.close()
    second = log_files(tmp_path)[1]
    (offset, frame) = frames_of(second)[-1]
    content = bytearray(second.read_bytes())
    content[offset + frame.length - 1] ^= 1
    second.write_bytes(content)
    with pytest.raises(JournalDamaged, match=f"{second.name} is damaged at offset {offset}"):
        quick_journal(tmp_path).open()
    assert any(finding.damage for finding in verify(tmp_path))


def test_a_lost_index_is_made_again(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.snapshot()
    life.close()
    indexes = sorted(tmp_path.glob("log-*.idx"))
    assert len(indexes) >= 2
    indexes[0].unlink()
    indexes[1].write_bytes(indexes[1].read_bytes()[:-1])
    again = Life(quick_journal(tmp_path, segment_bytes=512))
    again.restore(range(1, 7))
    assert again.read(range(1, 7)) == [published(bytes(300))] * 6
    again.close()
    assert all(path.exists() for path in indexes)


def test_only_what_is_damaged_before_the_snapshot_cannot_be_read(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.snapshot()
    life.close()
    first = log_files(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    assert (tmp_path / index_name(first.name)).exists()
    again = Life(quick_journal(tmp_path, segment_bytes=512))
    again.restore(range(1, 7))
    damaged, whole = again.read([1, 6])
    assert damaged == Damaged(
        1, f"{first.name}, offset 64: the batch of 1 records at position 1 is damaged", 1_700_000_000_000_001
    )
    assert whole == published(bytes(300))
    again.close()


def test_a_segment_that_is_gone_or_that_the_disk_refuses_is_damage_of_its_messages_alone(
    tmp_path: Path,
) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(6):
        life.publish(bytes(300))
    life.snapshot()
    life.close()
    again = Life(quick_journal(tmp_path, segment_bytes=512))
    again.restore(range(1, 7))
    first, second = log_files(tmp_path)[:2]
    lost = frames_of(first)[-1][1].next_position
    first.unlink()
    second.write_bytes(b"")
    records = again.read(range(1, 7))
    assert all(isinstance(record, Damaged) for record in records[: lost - 1])
    assert records[5] == published(bytes(300))
    again.close()


def test_a_damaged_batch_does_not_keep_other_segments_from_being_copied(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    (damaged,) = life.publish(b"damaged" * 20)
    for _ in range(64):
        life.settle(*life.publish(bytes(300)))
    first = log_files(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    (kept,) = life.publish(b"kept")
    for _ in range(64):
        life.settle(*life.publish(bytes(300)))
        life.snapshot()
    statistics = life.journal.statistics()
    assert statistics["segments_copied"] > 0
    assert statistics["segments_recycled"] > 3
    assert isinstance(life.read([damaged])[0], Damaged)
    assert life.read([kept]) == [published(b"kept")]
    life.close()


def test_small_neighbours_one_of_which_is_damaged_are_not_copied_again_and_again(tmp_path: Path) -> None:
    journal = quick_journal(tmp_path)
    life = Life(journal)
    life.restore()

    def carry_on(body: bytes) -> list[int]:
        kept = life.publish(*[body] * 8)
        for _ in range(64):
            life.settle(*life.publish(bytes(300)))
        for _ in range(3):
            life.snapshot()
        return kept

    first = carry_on(b"first" * 8)
    journal.roll()
    (between,) = life.publish(b"between")
    journal.roll()
    second = carry_on(b"second" * 8)
    carry = min(tmp_path.glob("carry-*.seg"))
    content = bytearray(carry.read_bytes())
    content[200] ^= 1
    carry.write_bytes(content)
    life.settle(between)
    for _ in range(3):
        life.snapshot()
    assert life.journal.statistics()["background_failures"] == 1
    assert any(isinstance(record, Damaged) for record in life.read(first))
    assert life.read(second) == [published(b"second" * 8)] * 8
    life.close()


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_a_damaged_snapshot_gives_way_to_the_one_before(tmp_path: Path, cut: int) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=1 << 20))
    life.restore()
    life.publish(b"one")
    life.snapshot(b"former")
    life.publish(b"two")
    life.snapshot(b"newest")
    life.publish(b"three")
    life.close()
    newest = sorted(tmp_path.glob("*.snap"))[-1]
    newest.write_bytes(newest.read_bytes()[:cut])
    again = Life(quick_journal(tmp_path, segment_bytes=1 << 20))
    assert (again.recovery.snapshot, again.recovery.snapshot_position) == (b"former", 2)
    assert newest.name in again.recovery.report[0]
    assert [batch.first_position for batch in again.restore([1, 2, 3])] == [2, 3]
    again.close()


def test_segments_that_the_older_snapshot_needs_are_kept(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    (kept,) = life.publish(b"kept")
    for number in range(200):
        life.settle(*life.publish(bytes(300)))
        if number % 50 == 49:
            life.snapshot(b"at %d" % number)
    statistics = life.journal.statistics()
    life.close()
    assert statistics["segments_recycled"] and statistics["carry_files"]
    older, newest = sorted(tmp_path.glob("*.snap"))
    newest.write_bytes(b"")
    again = Life(quick_journal(tmp_path))
    assert again.recovery.snapshot == b"at 149"
    positions = [batch.first_position for batch in again.restore([kept])]
    assert positions[0] == again.recovery.snapshot_position
    assert again.read([kept]) == [published(b"kept")]
    assert not newest.exists()
    again.snapshot(b"next")
    again.close()
    assert older in tmp_path.glob("*.snap"), "the damaged one must not take its place"


def test_the_first_snapshot_alone_is_not_relied_upon(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(8):
        life.settle(*life.publish(bytes(300)))
    life.snapshot()
    life.close()
    (only,) = tmp_path.glob("*.snap")
    only.write_bytes(b"")
    again = Life(quick_journal(tmp_path, segment_bytes=512))
    assert again.recovery.snapshot is None
    assert len(again.restore()) == 16
    again.close()


def test_a_second_snapshot_at_the_same_position_lets_space_come_back(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for _ in range(8):
        life.settle(*life.publish(bytes(300)))
    life.snapshot(b"one")
    before = life.journal.statistics()["segments"]
    life.snapshot(b"again")
    assert life.journal.statistics()["segments"] < before
    life.close()
    names = sorted(path.name for path in tmp_path.glob("*.snap"))
    assert len(names) == 2
    for name in names:
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b"")
        again = Life(quick_journal(tmp_path, segment_bytes=512))
        assert again.recovery.snapshot in (b"one", b"again")
        again.close()
        (tmp_path / name).write_bytes(content)


def test_a_damaged_snapshot_whose_log_is_gone_is_an_error(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path, segment_bytes=512))
    life.restore()
    for number in range(8):
        position = life.publish(bytes(300))
        life.settle(*position)
        if number % 3 == 2:
            life.snapshot()
    life.close()
    for snapshot in tmp_path.glob("*.snap"):
        snapshot.write_bytes(b"")
    with pytest.raises(JournalDamaged, match=r"stored nowhere.*snapshot is damaged"):
        quick_journal(tmp_path).open()


def test_a_damaged_newest_snapshot_never_lets_positions_be_used_again(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    life.publish(b"one")
    life.snapshot()
    life.publish(b"two")
    life.snapshot()
    life.close()
    (log,) = log_files(tmp_path)
    (offset, _) = frames_of(log)[-1]
    log.write_bytes(log.read_bytes()[:offset])
    newest = sorted(tmp_path.glob("*.snap"))[-1]
    newest.write_bytes(b"")
    with pytest.raises(JournalDamaged, match="had reached 3"):
        quick_journal(tmp_path).open()


def test_a_damaged_head_of_a_segment_is_an_error(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    content = bytearray(log.read_bytes())
    content[20] ^= 1
    log.write_bytes(content)
    with pytest.raises(JournalDamaged, match=f"{log.name}: the header of the file is damaged"):
        quick_journal(three_batches).open()


def test_a_lost_meta_file_is_made_again_with_a_larger_epoch(three_batches: Path) -> None:
    life = Life(quick_journal(three_batches))
    epoch = life.journal.epoch
    life.publish(b"x")
    life.close()
    (three_batches / meta.META).unlink()
    life = Life(quick_journal(three_batches))
    assert life.journal.epoch > epoch
    assert "was missing" in life.recovery.report[0]
    life.close()


def test_no_flipped_bit_of_the_meta_file_is_taken(three_batches: Path) -> None:
    good = (three_batches / meta.META).read_bytes()
    places = range(len(good.rstrip()))
    for at in sample(places, len(places) // 3):
        for bit in range(8):
            content = bytearray(good)
            content[at] ^= 1 << bit
            (three_batches / meta.META).write_bytes(content)
            if content.rstrip() == good.rstrip():
                continue
            with pytest.raises(JournalDamaged, match=r"meta\.json"):
                quick_journal(three_batches).open()
            assert [finding.file for finding in verify(three_batches) if finding.damage] == [meta.META]


def test_a_meta_file_of_before_checksums_is_taken_and_gets_one(three_batches: Path) -> None:
    stored = json.loads((three_batches / meta.META).read_bytes())
    for name in ("checksum", "segment_bytes"):
        del stored[name]
    (three_batches / meta.META).write_text(json.dumps(stored))
    life = Life(quick_journal(three_batches))
    assert (life.journal.tag, life.recovery.report) == (stored["tag"], [])
    life.close()
    assert "checksum" in json.loads((three_batches / meta.META).read_bytes())


def test_a_file_that_was_cut_between_two_batches_is_noticed(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    offset, _ = frames_of(log)[2]
    log.write_bytes(log.read_bytes()[:offset])
    life = Life(quick_journal(three_batches))
    (line,) = life.recovery.report
    assert f"has {offset} bytes and was made with 8192" in line
    assert "from position 5 on" in line
    life.close()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", json.dumps({"epoch": "x"}).encode()])
def test_a_damaged_meta_file_is_an_error(three_batches: Path, content: bytes) -> None:
    (three_batches / meta.META).write_bytes(content)
    with pytest.raises(JournalDamaged, match=r"meta\.json: damaged"):
        quick_journal(three_batches).open()


def test_a_newer_format_is_refused(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    header = codec.decode_segment_header(log.read_bytes())
    assert header is not None
    head, body = codec.encode_frame(
        segment_id=header.segment_id, epoch=9, first_position=7, time_us=0, count=1, table=bytes(4), parts=[]
    )
    body = bytes([codec.FORMAT + 1]) + body[1:]
    newer = head[:8] + codec.checksum(body).to_bytes(4, "little") + body
    end = sum(frame.length for _, frame in frames_of(log)) + codec.SEGMENT_HEADER_BYTES
    log.write_bytes(log.read_bytes()[:end] + newer)
    with pytest.raises(JournalDamaged, match="format 2"):
        quick_journal(three_batches).open()


def test_a_failed_open_gives_the_lock_back(three_batches: Path) -> None:
    (log,) = log_files(three_batches)
    good = log.read_bytes()
    log.write_bytes(b"")
    journal = quick_journal(three_batches)
    with pytest.raises(JournalDamaged):
        journal.open()
    log.write_bytes(good)
    assert journal.open().next_position == 7
    journal.close()
