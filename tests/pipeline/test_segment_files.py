"""Segment files are read while their broker writes, uses them again, and is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.journal import codec
from broker_app.journal.files import Files
from pyspark_mom import ranges
from pyspark_mom.errors import BrokerUnreachable, DataLoss, JournalUnreadable
from pyspark_mom.transport import Span, StoredFrame
from pyspark_mom.transport.segment_files import SegmentFiles
from tests.pipeline.conftest import MakeStage
from tests.pipeline.stage import BROKER, JournalStage

#: of the journals here, so that segments are many
SMALL = {"segment_bytes": 4096, "spare_segments": 2}


def files_of(stage: JournalStage) -> SegmentFiles:
    return SegmentFiles(BROKER, stage.directory)


def positions(frames: Iterator[StoredFrame]) -> list[tuple[int, int]]:
    return [(found.frame.first_position, found.frame.next_position) for found in frames]


def fill(stage: JournalStage, segments: int, body: bytes = b"x" * 300) -> None:
    """Send messages until so many segments have been begun, and leave them in the queue."""
    client = stage.client()
    before = segment_count(stage)
    while segment_count(stage) < before + segments:
        client.publish("/queue/a", body)
        stage.now_us += 1000


def empty(stage: JournalStage) -> None:
    """Remove all messages, so that no segment is needed any more."""
    stage.client().purge("/queue/a")


def segment_count(stage: JournalStage) -> int:
    return sum(1 for name in names_of(stage, "log-"))


def names_of(stage: JournalStage, prefix: str) -> list[str]:
    return sorted(
        name for name in os.listdir(stage.directory) if name.startswith(prefix) and name.endswith(".seg")
    )


def test_a_journal_that_is_empty_has_no_positions(stage: JournalStage) -> None:
    assert files_of(stage).span() == Span(1, 1, stage.journal.epoch, stage.journal.tag)


def test_the_end_follows_the_broker_and_frames_are_whole(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    client, files = stage.client(), files_of(stage)
    read = 1
    for _ in range(200):
        client.publish("/queue/a", b"x" * 100)
        span = files.span()
        assert (span.low, span.end) == (1, stage.end)
        frames = list(files.frames(read, span.end))
        assert all(codec.is_whole(content, 0, frame) for frame, content in frames)
        assert positions(iter(frames)) == [(read, span.end)]
        read = span.end
    assert segment_count(stage) > 3
    assert positions(files.frames(1, read)) == positions(files_of(stage).frames(1, read))


def test_the_frames_of_a_range_are_those_that_overlap_it(stage: JournalStage) -> None:
    client = stage.client()
    for count in (3, 2, 4):
        stage.decide(client.sending("/queue/a", *[b"x"] * count))
    files = files_of(stage)
    assert positions(files.frames(1, 10)) == [(1, 4), (4, 6), (6, 10)]
    assert positions(files.frames(3, 5)) == [(1, 4), (4, 6)]
    assert positions(files.frames(4, 6)) == [(4, 6)]
    assert positions(files.frames(5, 5)) == []


def test_what_is_reported_as_stored_was_synced(stage: JournalStage, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fdatasync(self, fd: int) -> None:
            synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr("pyspark_mom.transport.segment_files.Files", lambda path: Files(path, Watched()))
    files = files_of(stage)
    stage.client().publish("/queue/a")
    end = files.span().end
    (last,) = names_of(stage, "log-")
    assert (end, synced) == (2, [last])
    files.span()
    assert synced == [last], "nothing was written since"
    stage.client().publish("/queue/a")
    files.span()
    assert synced == [last, last]


def test_a_batch_that_is_being_written_is_not_there_yet(stage: JournalStage) -> None:
    client = stage.client()
    client.publish("/queue/a", b"first")
    (name,) = names_of(stage, "log-")
    path = stage.directory / name
    before = path.read_bytes()
    client.publish("/queue/a", b"second" * 50)
    after = path.read_bytes()
    end = max(at for at in range(len(after)) if after[at : at + 1] != b"\0") + 1
    start = max(at for at in range(len(before)) if before[at : at + 1] != b"\0") + 1
    files = files_of(stage)
    for cut in (start + 3, start + 30, start + 100, end - 1):
        path.write_bytes(after[:cut] + bytes(len(after) - cut))
        assert files.span().end == files_of(stage).span().end == 2
    path.write_bytes(after)
    assert files.span().end == 3


def test_the_log_begins_behind_the_last_gap(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    files = files_of(stage)
    fill(stage, 4)
    empty(stage)
    fill(stage, 2)
    assert files.span().low == 1
    for _ in range(3):
        stage.snapshot()
        fill(stage, 1)
    span = files.span()
    assert 1 < span.low < span.end == stage.end
    assert span == files_of(stage).span()
    assert positions(files.frames(1, span.end))[0][0] == span.low


def test_files_that_are_used_again_while_they_are_read_are_no_frames_of_the_log(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(options=SMALL)
    fill(stage, 3)
    files = files_of(stage)
    end = files.span().end
    before = positions(files.frames(1, end))
    read = Files.open

    def use_again(self: Files, name: str, **how: bool) -> Any:
        file = read(self, name, **how)
        if name == "log-000000000001.seg" and not how:
            monkeypatch.setattr(Files, "open", read)
            empty(stage)
            for _ in range(4):
                stage.snapshot()
                fill(stage, 2)
        return file

    monkeypatch.setattr(Files, "open", use_again)
    assert names_of(stage, "log-")[0] == "log-000000000001.seg"
    found = positions(files.frames(1, end))
    assert names_of(stage, "log-")[0] != "log-000000000001.seg", "it was used again"
    assert found == [each for each in before if each[0] >= (found[0][0] if found else end)]
    part = ranges.Range(BROKER, 1, end, stage.journal.epoch, stage.tag)
    with pytest.raises(
        DataLoss, match=r"\[DATA_LOSS\] A: the positions 1 to \d+ are gone from the journal, which"
    ):
        list(ranges.checked(files, part, fail_on_loss=True))


def test_a_broker_that_starts_again_continues_the_log(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    fill(stage, 2)
    files = files_of(stage)
    before = files.span()
    stage.reopen()
    fill(stage, 2)
    after = files.span()
    assert (after.tag, after.low, after.end) == (before.tag, 1, stage.end)
    assert after.epoch > before.epoch
    assert sorted({found.frame.epoch for found in files.frames(1, after.end)}) == [before.epoch, after.epoch]
    assert stage.rows() == stage.expected


def test_a_lost_index_is_no_loss(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    fill(stage, 4)
    assert list(stage.directory.glob("*.idx"))
    expected = positions(files_of(stage).frames(1, stage.end))
    for index in stage.directory.glob("*.idx"):
        index.write_bytes(index.read_bytes()[:-1])
    assert files_of(stage).span()[:2] == (1, stage.end)
    assert positions(files_of(stage).frames(1, stage.end)) == expected


def test_a_position_is_found_by_its_time(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    start = stage.now_us
    fill(stage, 4)
    files = files_of(stage)
    starts = [(found.frame.time_us, found.frame.first_position) for found in files.frames(1, stage.end)]
    for time_us, position in starts:
        assert files.position_at(time_us) == position
        assert files.position_at(time_us - 1) == position
    assert files.position_at(start - 10**9) == 1
    assert files.position_at(stage.now_us + 10**9) == stage.end


def test_a_damaged_batch_is_an_error_that_names_its_position(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    fill(stage, 3)
    files = files_of(stage)
    end = files.span().end
    path = stage.directory / names_of(stage, "log-")[0]
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(bytes(content))
    part = ranges.Range(BROKER, 1, end, stage.journal.epoch, stage.tag)
    with pytest.raises(
        JournalUnreadable, match=r"\[JOURNAL_UNREADABLE\] A: the batch at position \d+ is damaged"
    ):
        list(ranges.checked(files, part, fail_on_loss=False))


@pytest.mark.parametrize("make", [lambda path: path, lambda path: path.mkdir() or path])
def test_a_directory_without_a_journal_is_refused_in_words(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    """And not advised to start the broker again, which the user of Spark cannot."""
    with pytest.raises(BrokerUnreachable, match=r"\[BROKER_UNREACHABLE\] A: .*/none") as refused:
        SegmentFiles(BROKER, make(tmp_path / "none")).span()
    remedies = "url must be a directory that every machine of Spark", "must have been started once"
    assert any(remedy in str(refused.value) for remedy in remedies)
    assert "start the broker again" not in str(refused.value)


def test_the_data_directory_of_a_broker_is_as_good_as_its_journal(make_stage: MakeStage) -> None:
    stage = make_stage("data/journal")
    stage.client().publish("/queue/a")
    assert SegmentFiles(BROKER, stage.directory.parent).span().end == 2
