"""Pauses of the garbage collector, and whose collector it is."""

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.config import MIB, Config
from broker_app.net.auth.login import Logins
from broker_app.net.server.listeners import Ports, bound
from broker_app.node.collector_pauses import GROWN_BYTES, MANY, CollectorPauses
from broker_app.node.node import Node
from broker_app.node.process import Site, run
from tests.support.small_node import policy_of, small_node

POLICY = policy_of(users={"anna": ()})


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


@pytest.fixture(autouse=True)
def frozen_again() -> Iterator[None]:
    """Sets aside again what was set aside before: a process that runs tests would otherwise look at all of
    them in each collection. In between it collects only when a test does: a part of what a test makes would
    be set aside before the rest."""
    frozen = gc.get_freeze_count()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
    if frozen:
        gc.freeze()


@pytest.fixture
def pauses(clock: Clock) -> Iterator[CollectorPauses]:
    pauses = CollectorPauses(0.02, clock)
    pauses.start()
    yield pauses
    pauses.stop()


def test_what_survives_a_long_collection_is_not_looked_at_again(
    pauses: CollectorPauses, clock: Clock
) -> None:
    kept = [[number] for number in range(MANY)]
    before = gc.get_freeze_count()
    clock.step_s = 0.021
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_a_collection_that_takes_long_for_its_garbage_sets_nothing_aside(
    pauses: CollectorPauses, clock: Clock
) -> None:
    kept = [[number] for number in range(1_000)]
    for _ in range(MANY + 1):
        cycle: list[object] = []
        cycle.append(cycle)
    before = gc.get_freeze_count()
    clock.step_s = 0.021
    gc.collect()
    assert gc.get_freeze_count() < before + len(kept)


def test_full_collections_are_frequent_until_it_has_stopped(clock: Clock) -> None:
    former = gc.get_threshold()
    pauses = CollectorPauses(0.02, clock)
    pauses.start()
    meanwhile = gc.get_threshold()
    pauses.stop()
    assert meanwhile[2] < former[2]
    assert gc.get_threshold() == former


def test_after_a_short_collection_nothing_is_set_aside(pauses: CollectorPauses, clock: Clock) -> None:
    kept = [[number] for number in range(MANY)]
    before = gc.get_freeze_count()
    clock.step_s = 0.019
    gc.collect()
    gc.collect(1)
    assert gc.get_freeze_count() < before + len(kept)


def test_everything_is_looked_at_again_when_the_process_has_grown(clock: Clock) -> None:
    memory = [GROWN_BYTES]
    pauses = CollectorPauses(0.02, clock, lambda: memory[0])
    pauses.start()
    pauses.check()
    assert gc.get_freeze_count() > 0, "it has not grown"
    everything = gc.get_freeze_count()
    memory[0] += GROWN_BYTES + 1
    pauses.check()
    assert gc.get_freeze_count() == 0
    pauses.check()
    assert gc.get_freeze_count() == 0, "it was not looked at yet"
    gc.collect()
    assert gc.get_freeze_count() > everything / 2, "what is alive is set aside as before"
    pauses.check()
    pauses.check()
    assert gc.get_freeze_count() > everything / 2, "it has not grown since"
    pauses.stop()


def test_a_large_process_may_grow_by_half(clock: Clock) -> None:
    memory = [10 * GROWN_BYTES]
    pauses = CollectorPauses(0.02, clock, lambda: memory[0])
    pauses.start()
    memory[0] = 15 * GROWN_BYTES
    pauses.check()
    assert gc.get_freeze_count() > 0
    memory[0] += 1
    pauses.check()
    assert gc.get_freeze_count() == 0
    pauses.stop()


def test_python_counts_new_objects_from_none_when_everything_was_looked_at(clock: Clock) -> None:
    """Else it puts the next full collection off until a quarter of everything is new."""
    everything = [[number] for number in range(20 * MANY)]
    gc.collect()
    full: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.append(info["generation"])

    pauses = CollectorPauses(0.02, clock)
    pauses.start()
    gc.callbacks.append(note)
    gc.enable()
    new = [[number] for number in range(3 * MANY)]
    gc.callbacks.remove(note)
    pauses.stop()
    assert full, f"there was none for {len(new)} new objects and {len(everything)} former ones"


def test_when_it_has_stopped_a_long_collection_sets_nothing_aside(clock: Clock) -> None:
    pauses = CollectorPauses(0.0, clock)
    pauses.start()
    pauses.stop()
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_a_collection_disturbs_no_other_thread(pauses: CollectorPauses, clock: Clock) -> None:
    """A list of all objects refers to tuples that other threads make: CPython cannot finish these then."""
    clock.step_s = 0.021
    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect()

    collecting = threading.Thread(target=collect)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    collecting.start()
    try:
        for _ in range(2_000):
            assert len(tuple(number for number in range(300))) == 300
    finally:
        ended.set()
        collecting.join()
        sys.setswitchinterval(interval)


def are_short() -> bool:
    return any(isinstance(getattr(one, "__self__", None), CollectorPauses) for one in gc.callbacks)


async def test_a_node_within_another_program_leaves_the_collector_to_that(tmp_path: Path) -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    async with small_node(tmp_path, POLICY):
        assert not are_short()
    # Objects that are set aside are still freed when nothing refers to them, but none are added.
    assert 0.9 * before < gc.get_freeze_count() <= before


async def test_the_process_of_a_broker_has_short_pauses_until_it_stops(tmp_path: Path) -> None:
    config = Config(data=tmp_path, segment_bytes=MIB, port=0, stomp_port=0, drain=1)
    running: list[Node] = []
    seen: list[bool] = []

    def app(node: Node) -> Any:
        running.append(node)
        return node.rest

    def ready(_: Ports) -> None:
        seen.append(are_short())
        running[0].shut_down.set_result(False)

    async def never(_: object) -> None:
        await asyncio.Event().wait()

    logins = Logins(POLICY, lambda given, expected: given == expected)
    with bound(config) as listeners:
        await run(config, logins, listeners, Site(app=app, follow=never, keep=never), ready=ready)
    assert (seen, are_short()) == ([True], False)
