"""Partitions, and the checks of each: nothing is missing, nothing is another journal's."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_mom import ranges
from pyspark_mom.errors import DataLoss, JournalReplaced
from pyspark_mom.offsets import Place
from pyspark_mom.ranges import POSITIONS, Range, split
from pyspark_mom.transport.segment_files import SegmentFiles
from tests.pipeline.conftest import MakeStage
from tests.pipeline.stage import BROKER, JournalStage, rows_in
from tests.pipeline.test_segment_files import SMALL, empty, fill

BACKLOGS = st.dictionaries(
    st.sampled_from("ABC"), st.tuples(st.integers(0, 10**9), st.integers(0, 3 * POSITIONS)), max_size=3
)


@given(BACKLOGS, st.integers(1, 50))
def test_ranges_are_all_positions_once_in_about_equal_parts(
    backlogs: dict[str, tuple[int, int]], least: int
) -> None:
    start = {name: Place(1, first, 7) for name, (first, _) in backlogs.items()}
    end = {name: Place(2, first + count, 7) for name, (first, count) in backlogs.items()}
    parts = split(start, end, least)
    assert parts == split(start, end, least)
    for name, (first, count) in backlogs.items():
        mine = [part for part in parts if part.broker == name]
        assert [mine[0].start, mine[-1].end] == [first, first + count] if count else mine == []
        assert all(one.end == other.start for one, other in pairwise(mine))
        sizes = {part.end - part.start for part in mine}
        assert sizes <= set(range(1, POSITIONS + 1)) and (not sizes or max(sizes) - min(sizes) <= 1)
    assert len(parts) >= min(least, sum(count for _, count in backlogs.values()))


def test_a_broker_that_joins_has_no_rows_before_it_has_a_start() -> None:
    assert split({}, {"A": Place(1, 10, 7)}, 4) == []


def whole(stage: JournalStage) -> Range:
    return Range(BROKER, 1, stage.end, stage.journal.epoch, stage.tag)


def check(stage: JournalStage, part: Range, *, fail_on_loss: bool = True) -> list[tuple[int, int]]:
    frames = ranges.checked(SegmentFiles(BROKER, stage.directory), part, fail_on_loss=fail_on_loss)
    return [(found.frame.first_position, found.frame.next_position) for found in frames]


def test_a_partition_can_be_sent_to_a_worker(stage: JournalStage) -> None:
    part = whole(stage)
    assert pickle.loads(pickle.dumps(part)) == part


def test_positions_that_are_gone_are_an_error_with_their_times(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    low = without_the_beginning(stage)
    with pytest.raises(
        DataLoss,
        match=rf"\[DATA_LOSS\] A: the positions 1 to {low - 1} are gone from the journal, which begins at "
        rf"position {low}, written at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\. "
        r"Keep more with MOM_JOURNAL_RETENTION_BYTES",
    ):
        check(stage, whole(stage))
    with pytest.raises(DataLoss, match=f"the positions 1 to {low - 2} are gone"):
        check(stage, replace(whole(stage), end=low - 1))


def test_positions_that_are_gone_are_left_out_and_logged_if_that_is_wanted(
    make_stage: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(options=SMALL)
    low = without_the_beginning(stage)
    with caplog.at_level(logging.WARNING, "pyspark_mom"):
        found = check(stage, whole(stage), fail_on_loss=False)
    assert (found[0][0], found[-1][1]) == (low, stage.end)
    assert f"the positions 1 to {low - 1} are gone" in caplog.text
    rows = rows_in(whole(stage), stage.options(failOnDataLoss="false"))
    assert rows == [row for row in stage.expected if row["position"] >= low]


def without_the_beginning(stage: JournalStage) -> int:
    """Fill a journal whose first segments are gone; the position where it begins."""
    fill(stage, 4)
    empty(stage)
    for _ in range(3):
        fill(stage, 1)
        stage.snapshot()
    low = SegmentFiles(BROKER, stage.directory).span().low
    assert low > 10
    return low


def test_a_journal_that_ends_earlier_than_before_was_replaced(stage: JournalStage) -> None:
    stage.client().publish("/queue/a")
    with pytest.raises(JournalReplaced, match=r"A: the journal ends before position 2, but had reached 9"):
        check(stage, replace(whole(stage), end=9))


def test_positions_that_were_written_again_after_a_restore_are_noticed(stage: JournalStage) -> None:
    stage.client().publish("/queue/a")
    before = whole(stage)
    stage.reopen()
    stage.client().publish("/queue/a")
    with pytest.raises(
        JournalReplaced, match=r"position 2 was written in epoch 2, but was read before in epoch 1"
    ):
        check(stage, replace(before, end=stage.end))
    assert check(stage, whole(stage)) == [(1, 2), (2, 3)]
