"""Pauses of the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from broker_app.node.collector_pauses import ALL_EVERY_S, CollectorPauses


class Clock:
    """Passes `step_s` each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pauses(clock: Clock) -> Iterator[CollectorPauses]:
    frozen = gc.get_freeze_count()
    pauses = CollectorPauses(0.02, clock)
    pauses.start()
    yield pauses
    pauses.stop()
    if frozen:
        gc.freeze()


def test_what_survives_a_long_collection_is_not_looked_at_again(
    pauses: CollectorPauses, clock: Clock
) -> None:
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    clock.step_s = 0.021
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_after_a_short_collection_nothing_is_set_aside(pauses: CollectorPauses, clock: Clock) -> None:
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    clock.step_s = 0.019
    gc.collect()
    gc.collect(1)
    assert gc.get_freeze_count() < before + len(kept)


def test_everything_is_looked_at_once_in_an_hour(pauses: CollectorPauses, clock: Clock) -> None:
    clock.now = ALL_EVERY_S - 1
    pauses.check()
    assert gc.get_freeze_count() > 0
    clock.now = ALL_EVERY_S
    pauses.check()
    assert gc.get_freeze_count() == 0


def test_when_it_has_stopped_a_long_collection_sets_nothing_aside(clock: Clock) -> None:
    pauses = CollectorPauses(0.0, clock)
    pauses.start()
    pauses.stop()
    gc.collect()
    assert gc.get_freeze_count() == 0
