"""Space comes back: dead segments are used again, survivors are carried on, history is kept as asked."""

import shutil
from pathlib import Path

import pytest

from broker_app.journal import codec
from broker_app.journal.errors import NoSuchPosition
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.tools.inspect import dump, verify

from .stage import Life, published, quick_journal


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def last_use(path: Path) -> int:
    """The larger, the later the file was put to its present use."""
    header = codec.decode_segment_header(path.read_bytes())
    assert header is not None
    return header.sequence


def publish_and_settle(life: Life, rounds: int, size: int = 300) -> None:
    for number in range(rounds):
        life.settle(*life.publish(bytes(size)))
        if number % 16 == 15:
            life.snapshot()


def test_one_old_message_does_not_pin_the_log(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    (old,) = life.publish(b"the old one")
    publish_and_settle(life, 100)
    after_100 = disk_bytes(tmp_path)
    publish_and_settle(life, 1000)
    assert disk_bytes(tmp_path) <= after_100 + 8192
    assert life.read([old]) == [published(b"the old one")]
    life.close()
    again = Life(quick_journal(tmp_path))
    again.restore([old])
    assert again.read([old]) == [published(b"the old one")]
    again.close()


def test_survivors_of_many_stretches_are_gathered_in_few_files(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    kept = []
    for number in range(60):
        kept += life.publish(b"kept %d" % number)
        publish_and_settle(life, 16)
    statistics = life.journal.statistics()
    assert statistics["carry_files"] <= 5
    assert statistics["segments"] <= 8
    assert statistics["live_records"] == 60
    expected = [published(b"kept %d" % number) for number in range(60)]
    assert life.read(kept) == expected
    assert life.read(kept[::-1]) == expected[::-1]
    with pytest.raises(NoSuchPosition, match="reclaimed"):
        life.read([kept[0] + 1])
    life.close()

    again = Life(quick_journal(tmp_path))
    again.restore(kept)
    assert again.read(kept) == expected
    again.settle(*kept)
    publish_and_settle(again, 32)
    assert again.journal.statistics()["carry_files"] == 0
    again.close()


def test_carried_records_keep_their_position_time_and_destinations(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    (old,) = life.publish(b"the old one")
    publish_and_settle(life, 64)
    life.close()
    (carried,) = [batch for batch in dump(tmp_path) if batch["carried"]]
    assert (carried["first_position"], carried["time_us"]) == (old, 1_700_000_000_000_000 + old)
    assert carried["destinations"] == ["/queue/orders", "/queue/größen"]
    assert [(record["position"], record["content"]) for record in carried["records"]] == [
        (old, published(b"the old one"))
    ]


def test_a_stretch_whose_few_survivors_are_its_bytes_is_left_alone(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    (big,) = life.publish(bytes(6000))
    for _ in range(8):
        life.settle()
    publish_and_settle(life, 64)
    statistics = life.journal.statistics()
    assert statistics["carry_files"] == 0
    assert life.read([big]) == [published(bytes(6000))]
    assert not list(tmp_path.glob("*.new"))
    life.close()


def test_files_are_used_again_and_their_old_content_is_never_taken_for_new(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    publish_and_settle(life, 200)
    statistics = life.journal.statistics()
    assert statistics["segments_recycled"] > 5
    life.snapshot()
    position = life.publish(b"the last")
    active = max(tmp_path.glob("log-*.seg"), key=last_use)
    assert active.read_bytes().count(codec.MAGIC) > 3, "the file should hold leftovers"
    copy = tmp_path.parent / "copy"
    shutil.copytree(tmp_path, copy)  # as a crash would leave it
    life.close()
    again = Life(quick_journal(copy))
    assert again.recovery.report == []
    assert [batch.records for batch in again.restore(position)] == [published(b"the last")]
    again.close()


def test_history_is_kept_as_long_as_asked(tmp_path: Path) -> None:
    sizes = []
    for retention in (0, 40_000):
        directory = tmp_path / str(retention)
        life = Life(quick_journal(directory, retention_bytes=retention))
        life.restore()
        publish_and_settle(life, 320)
        statistics = life.journal.statistics()
        sizes.append(statistics["bytes_stored"])
        newest = statistics["next_position"] - 2
        assert life.read([newest]) == [published(bytes(300))]
        life.close()
    assert sizes[0] < 20_000
    assert 30_000 < sizes[1] < 70_000


def test_nothing_is_freed_before_the_snapshot_and_before_retain(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    for _ in range(100):
        life.settle(*life.publish(bytes(300)))
    assert life.journal.statistics()["segments_recycled"] == 0
    life.snapshot()
    assert life.journal.statistics()["segments_recycled"] == 0
    life.journal.set_live_positions([])
    assert life.journal.statistics()["segments_recycled"] == 0, "the log is all there is besides the snapshot"
    life.snapshot()
    assert life.journal.statistics()["segments_recycled"] > 3
    life.close()


def test_sources_and_carry_file_may_both_be_there_after_a_crash(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    life = Life(quick_journal(directory, spare_segments=0))
    life.restore()
    (old,) = life.publish(b"the old one")
    for _ in range(64):
        life.settle(*life.publish(bytes(300)))
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    life.snapshot()
    life.snapshot()
    assert life.journal.statistics()["segments_copied"] == 1
    life.close()
    for name, content in before.items():
        if name.startswith("log-") and not (directory / name).exists():
            (directory / name).write_bytes(content)
    again = Life(quick_journal(directory))
    again.restore([old])
    assert again.read([old]) == [published(b"the old one")]
    assert again.journal.statistics()["carry_files"] == 1
    again.close()
    assert not [finding for finding in verify(directory) if finding.damage]


def test_a_large_batch_gets_a_segment_that_is_large_enough(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    small = life.publish(b"small")
    large = life.publish(bytes(100_000))
    assert life.read([*large, *small]) == [published(bytes(100_000)), published(b"small")]
    life.settle(*large, *small)
    publish_and_settle(life, 64)
    assert disk_bytes(tmp_path) < 60_000
    life.close()


def test_the_index_of_a_backlog_is_small(tmp_path: Path) -> None:
    journal: SegmentJournal = quick_journal(tmp_path, segment_bytes=1 << 20)
    life = Life(journal)
    life.restore()
    for _ in range(100):
        life.publish(*([bytes(100)] * 100))
    assert journal.statistics()["index_bytes"] < 10_000 * 2
    life.close()
