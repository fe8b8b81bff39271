"""The index of segments: which positions are wanted, as recovery and a takeover say it of all at once."""

from __future__ import annotations

import random
from array import array

from benchmarks.instruction_counter import InstructionCounter
from broker_app.journal import codec
from broker_app.journal.log.segment import Segment, SegmentIndex
from tests.support.chance import FIRST_SEED

#: positions of a segment, and of the whole log
_SEGMENT, _END = 5_000, 30_001


def index_of_log() -> SegmentIndex:
    """Segments with all positions, of which each third has those alone that were carried over."""
    index = SegmentIndex()
    for number, first in enumerate(range(1, _END, _SEGMENT), 1):
        kind = codec.LOG if number % 3 else codec.CARRY
        segment = Segment(codec.SegmentHeader(kind, number, number, 0, 0), end=0)
        if kind == codec.LOG:
            for at in range(first, first + _SEGMENT, 100):
                segment.append(at, 100, 1)
        else:
            segment.first_position, segment.next_position = first, first + _SEGMENT
            segment.append_carried(first, range(first, first + _SEGMENT, 2), 1)
        index.add(segment)
    return index


def stored(index: SegmentIndex) -> list[int]:
    return [
        position
        for segment in index
        for position in range(segment.first_position, segment.next_position)
        if segment.slot(position) >= 0
    ]


def marked(index: SegmentIndex) -> list[int]:
    found = [
        position
        for segment in index
        for position in range(segment.first_position, segment.next_position)
        if segment.slot(position) >= 0 and segment.live[segment.slot(position)]
    ]
    assert sum(segment.live_count for segment in index) == len(found)
    return found


def test_positions_are_marked_in_any_order_with_any_gaps_and_once() -> None:
    chance = random.Random(FIRST_SEED)
    for share in (1.0, 0.999, 0.9, 0.1):
        index = index_of_log()
        wanted = [position for position in stored(index) if chance.random() < share]
        other = wanted.copy()
        chance.shuffle(other)
        assert index.mark(array("Q", wanted)) is None
        assert marked(index) == wanted
        assert index.mark(array("Q", other)) is None
        assert index.mark(other[:1_000]) is None, "a list does as well"
        assert marked(index) == wanted


def test_the_first_position_that_is_not_stored_is_reported() -> None:
    index = index_of_log()
    assert index.mark(array("Q", range(1, 2 * _SEGMENT + 10))) == 2 * _SEGMENT + 2, "not carried over"
    assert index.mark(array("Q", range(_END - 100, _END + 10))) == _END - 99, "not carried over"
    assert index.mark([_END]) == _END


def test_positions_without_a_gap_are_marked_at_once() -> None:
    index, counter = index_of_log(), InstructionCounter()
    positions = array("Q", range(1, 2 * _SEGMENT + 1))
    del positions[_SEGMENT // 2]
    counter.begin()
    assert index.mark(positions) is None
    counter.end()
    assert counter.instructions < 5_000
