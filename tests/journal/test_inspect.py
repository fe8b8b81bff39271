"""A journal is looked at from outside, running or stopped."""

import threading
from pathlib import Path

from broker_app.journal.tools.inspect import dump, verify

from .stage import SETTLED, Life, published, quick_journal


def test_a_good_journal_has_only_a_summary_and_its_snapshots(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()
    life.publish(b"one", b"two")
    life.snapshot(b"12345")
    life.settle(1)
    running = list(verify(tmp_path))
    life.close()
    assert list(verify(tmp_path)) == running
    snapshot, summary = running
    assert snapshot.sentence == "a good snapshot of 5 bytes"
    assert summary.sentence == "2 batches, 3 records, log ends before position 4; no damage"
    assert not summary.damage


def test_verify_changes_nothing(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.publish(b"one")
    life.close()
    log = next(tmp_path.glob("log-*.seg"))
    log.write_bytes(log.read_bytes()[:100])
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    list(verify(tmp_path))
    list(dump(tmp_path))
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_a_journal_at_work_is_not_taken_for_damaged(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.restore()

    def work() -> None:
        for number in range(2000):
            life.settle(*life.publish(bytes(200)))
            if number % 10 == 0:
                life.snapshot()

    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        assert not [finding for finding in verify(tmp_path) if finding.damage]
    worker.join()
    life.close()


def test_an_incomplete_last_batch_is_reported_but_is_not_damage(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.publish(b"one")
    life.publish(b"two")
    end = life.journal.statistics()["bytes_stored"]
    life.close()
    log = next(tmp_path.glob("log-*.seg"))
    log.write_bytes(log.read_bytes()[: end - 1])
    finding, summary = verify(tmp_path)
    assert (finding.file, finding.damage) == (log.name, False)
    assert finding.sentence.startswith("the last batch is incomplete")
    assert summary.sentence.endswith("no damage")


def test_a_damaged_snapshot_is_damage(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.snapshot()
    life.close()
    (snapshot,) = tmp_path.glob("*.snap")
    snapshot.write_bytes(b"")
    finding, summary = verify(tmp_path)
    assert (finding.file, finding.sentence, finding.damage) == (
        snapshot.name,
        "the snapshot is damaged",
        True,
    )
    assert summary.sentence.endswith("1 damaged places")


def test_dump_shows_batches_and_records(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.publish(b"one", b"two")
    life.settle(1)
    life.close()
    first, second = dump(tmp_path)
    assert (first["first_position"], first["count"], first["carried"], first["epoch"]) == (1, 2, False, 1)
    assert first["destinations"] == ["/queue/orders", "/queue/größen"]
    assert first["records"][1] == {"position": 2, "type": 1, "bytes": 8, "content": published(b"two")}
    assert [record["type"] for record in second["records"]] == [SETTLED]
    assert [batch["first_position"] for batch in dump(tmp_path, first_position=3)] == [3]
    (only,) = [batch for batch in dump(tmp_path, first_position=2, records=False) if batch["count"] == 2]
    assert "records" not in only
