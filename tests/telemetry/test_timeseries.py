"""Columns of the past: what was put in comes out, idle time is filled in, memory stays."""

from __future__ import annotations

from random import Random

import pytest

from broker_app.telemetry.timeseries import AGES, COLUMNS, COUNTS, DURATIONS, GAUGES, History, Ring

START = 1_800_000_000


def row(**values: float) -> list[float]:
    nothing = dict.fromkeys(DURATIONS, float("nan"))
    return [values.get(name, nothing.get(name, 0)) for name in COLUMNS]


def ring(length: int = 5, step_s: int = 1) -> Ring:
    return Ring(step_s, length)


def test_rows_come_back_in_order_and_nothing_is_known_before_the_first() -> None:
    past = ring()
    for after in range(3):
        past.put(START + after, row(**{"in": after + 1, "depth": 10 * after}))
    series = past.series(START + 2, 5)
    assert series["in"] == [None, None, 1, 2, 3]
    assert series["depth"] == [None, None, 0, 10, 20]
    assert series["wait_p50_s"] == [None] * 5


def test_the_oldest_rows_make_room() -> None:
    past = ring()
    for after in range(12):
        past.put(START + after, row(**{"in": after}))
    assert past.series(START + 11, 6)["in"] == [None, 7, 8, 9, 10, 11]


def test_at_rest_nothing_moves_and_what_waits_grows_older() -> None:
    past = ring(length=6)
    past.put(START, row(**{"in": 4, "depth": 4, "oldest_s": 0.5, "wait_p50_s": 1.0}))
    past.put(START + 3, row(**{"in": 1, "depth": 5, "oldest_s": 3.5}))
    series = past.series(START + 5, 6)
    assert series["in"] == [4, 0, 0, 1, 0, 0]
    assert series["depth"] == [4, 4, 4, 5, 5, 5]
    assert series["oldest_s"] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert series["wait_p50_s"] == [1, None, None, None, None, None]


@pytest.mark.parametrize("rest", [5, 6, 7, 1_000_000])
def test_a_rest_longer_than_the_ring_leaves_only_rest(rest: int) -> None:
    past = ring()
    for after in range(3):
        past.put(START + after, row(**{"in": 1, "depth": 7, "oldest_s": 1}))
    series = past.series(START + 2 + rest, 5)
    assert series["in"] == [0] * 5
    assert series["depth"] == [7] * 5
    assert series["oldest_s"] == [1 + rest - behind for behind in range(4, -1, -1)]
    past.put(START + 3 + rest, row(**{"in": 9}))
    assert past.series(START + 3 + rest, 5)["in"] == [0, 0, 0, 0, 9]


def test_counts_of_one_step_add_up_and_the_last_state_counts() -> None:
    past = ring(step_s=10)
    past.put(START, row(**{"in": 3, "depth": 3}))
    past.put(START + 9, row(**{"in": 4, "depth": 7}))
    past.put(START + 4, row(**{"in": 1, "depth": 8}))  # the clock went back
    assert past.series(START + 9, 1)["in"] == [8]
    assert past.series(START + 9, 1)["depth"] == [8]


def test_numbers_too_large_for_a_column_stay_at_its_end() -> None:
    past = ring()
    past.put(START, row(**{"in": 1 << 40}))
    past.put(START, row(**{"in": 1 << 40}))
    assert past.series(START, 1)["in"] == [(1 << 32) - 1]


def test_steps_put_together_keep_the_sums() -> None:
    random = Random(1)
    history = History()
    given = {}
    for after in range(600):
        if random.random() < 0.3:
            given[START + after] = random.randrange(100)
            history.put(START + after, row(**{"in": given[START + after], "depth": after}))
    for step_s in (1, 2, 7, 30, 60):
        window = history.window(START + 599, 600, step_s)
        for index, count in enumerate(window.series["in"]):
            first = window.t0 + index * step_s
            expected = sum(given.get(second, 0) for second in range(first, first + step_s))
            assert (count or 0) == expected
    assert sum(value or 0 for value in history.window(START + 599, 3_600, 10).series["in"]) == sum(
        given.values()
    )
    assert sum(value or 0 for value in history.window(START + 599, 86_400, 60).series["in"]) == sum(
        given.values()
    )


@pytest.mark.parametrize(
    ("window_s", "step_s", "finest"),
    [(600, 1, 1), (601, 1, 10), (3_600, 10, 10), (3_600, 15, 20), (86_400, 1, 60)],
)
def test_a_window_has_the_finest_steps_that_reach_so_far_back(
    window_s: int, step_s: int, finest: int
) -> None:
    history = History()
    history.put(START, row(**{"in": 1}))
    window = history.window(START, window_s, step_s)
    assert window.step_s == finest
    assert window.t0 % finest == 0
    assert window.t0 <= START - window_s + finest
    assert {len(column) for column in window.series.values()} == {-(-window_s // finest)}
    assert set(window.series) == set(COUNTS + GAUGES + AGES + DURATIONS)
