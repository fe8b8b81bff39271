"""Offsets: their text, and how much of a backlog one batch takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_mom import offsets
from pyspark_mom.offsets import InvalidOffset, Place

POSITIONS = st.integers(0, 2**63 - 1)
PLACES = st.builds(Place, st.integers(0, 2**31 - 1), POSITIONS, st.integers(0, 2**26 - 1))
OFFSETS = st.dictionaries(st.text(min_size=1, max_size=5), PLACES, max_size=5)
#: a start, and how many positions follow it, by broker
BACKLOGS = st.dictionaries(
    st.text(min_size=1, max_size=3), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=6
)


def both(backlogs: dict[str, tuple[int, int]]) -> tuple[dict[str, Place], dict[str, Place]]:
    start = {name: Place(1, first, 7) for name, (first, _) in backlogs.items()}
    return start, {name: Place(2, first + count, 7) for name, (first, count) in backlogs.items()}


@given(OFFSETS)
def test_an_offset_comes_back_from_its_text_and_has_only_one(offset: dict[str, Place]) -> None:
    text = offsets.text(offset)
    assert offsets.parse(json.loads(text)) == offset
    shuffled = dict(reversed(offset.items()))
    assert offsets.text(shuffled) == text == json.dumps(json.loads(text), sort_keys=True)


def test_the_text_is_the_one_that_is_documented() -> None:
    offset = {"B": Place(1, 2, 3), "A": Place(3, 812345, 51423906)}
    assert offsets.text(offset) == (
        '{"A": {"epoch": 3, "pos": 812345, "tag": 51423906}, "B": {"epoch": 1, "pos": 2, "tag": 3}}'
    )


@pytest.mark.parametrize(
    "wrong", [7, None, {}, {"epoch": 1, "pos": "x", "tag": 1}, {"epoch": 1, "pos": -1, "tag": 1}]
)
def test_what_is_no_offset_is_refused_by_the_name_of_its_broker(wrong: object) -> None:
    with pytest.raises(InvalidOffset, match=r"\[INVALID_OFFSET\] the offset of 'A'"):
        offsets.parse({"A": wrong})


@given(BACKLOGS, st.integers(1, 10**6))
def test_a_limit_is_kept_and_used_up(backlogs: dict[str, tuple[int, int]], most: int) -> None:
    start, end = both(backlogs)
    taken = offsets.backlog(start, offsets.limit(start, end, most))
    assert sum(taken.values()) == min(most, sum(offsets.backlog(start, end).values()))
    assert all(0 <= taken[name] <= count for name, (_, count) in backlogs.items())


@given(BACKLOGS, st.integers(1, 10**6))
def test_each_broker_has_its_part_in_proportion_to_its_backlog(
    backlogs: dict[str, tuple[int, int]], most: int
) -> None:
    start, end = both(backlogs)
    total = sum(count for _, count in backlogs.values())
    taken = offsets.backlog(start, offsets.limit(start, end, most))
    for name, (_, count) in backlogs.items():
        assert abs(taken[name] - min(1, most / max(total, 1)) * count) < 1


@given(BACKLOGS, st.integers(1, 1000))
def test_batches_one_after_the_other_read_everything(backlogs: dict[str, tuple[int, int]], most: int) -> None:
    start, end = both({name: (first, count % 5000) for name, (first, count) in backlogs.items()})
    for _ in range(5000 * 6 // most + 2):
        following = offsets.merge(start, offsets.limit(start, end, most))
        if following == start:
            break
        start = following
    assert {name: place.pos for name, place in start.items()} == {
        name: place.pos for name, place in end.items()
    }


def test_a_new_epoch_alone_is_no_progress() -> None:
    start = {"A": Place(1, 10, 7), "B": Place(1, 5, 8)}
    assert offsets.merge(start, {"A": Place(2, 10, 7), "B": Place(2, 6, 8)}) == {
        "A": Place(1, 10, 7),
        "B": Place(2, 6, 8),
    }


def test_a_broker_that_is_not_reached_keeps_its_place_and_a_new_one_is_added() -> None:
    start = {"A": Place(1, 10, 7)}
    assert offsets.merge(start, {"B": Place(1, 3, 9)}) == {"A": Place(1, 10, 7), "B": Place(1, 3, 9)}
