"""The use of limits that all brokers share, as others report it: summed, bounded, and forgotten in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from broker_app.core.broker import Broker
from broker_app.core.remote.cluster_usage import NONE, Usage
from broker_app.features.cluster import shared_limits
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.shared_limits import SharedLimits

A = "/queue/a"


class Counting:
    """Limits of one broker; `later` is what the loop has yet to do."""

    def __init__(self) -> None:
        self.later: deque[Callable[[], None]] = deque()
        broker = Broker()
        self.usage = broker.cluster_usage
        self.limits = SharedLimits(broker, self.later.append)


def test_the_uses_of_all_brokers_are_summed_and_those_of_one_that_has_left_are_not() -> None:
    counting = Counting()
    counting.limits.receive("b2", f.SharedUse([(A, 1, 10, 1)]))
    counting.limits.receive("b3", f.SharedUse([(A, 2, 20, 0)]))
    assert counting.usage.of(A) == Usage(3, 30, 1)
    counting.limits.receive("b3", f.SharedUse([(A, 5, 50, 0)]))
    counting.limits.forget("b2")
    assert counting.usage.of(A) == Usage(5, 50, 0)
    counting.limits.receive("b3", f.SharedUse([(A, 0, 0, 0)]))
    assert counting.usage.of(A) == NONE


def test_one_broker_cannot_have_uses_counted_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_limits, "_MOST_BYTES", 1_100)
    counting = Counting()
    entries = [(f"/queue/{number}", 1, 1, 1) for number in range(50)]
    counting.limits.receive("b9", f.SharedUse(entries))
    counting.limits.receive("b2", f.SharedUse(entries))
    counted = [counting.usage.of(address).messages for address, *_ in entries]
    assert counted == [2] * 10 + [0] * 40
    counting.limits.receive("b9", f.SharedUse([("/queue/0", 0, 0, 0), ("/queue/49", 1, 1, 1)]))
    assert counting.usage.of("/queue/49").messages == 1, "there is room again"


def test_the_uses_of_a_broker_that_has_left_are_forgotten_in_turns() -> None:
    counting = Counting()
    entries = [(f"/queue/{number}", 1, 1, 1) for number in range(2 * f.MOST_USES + 1)]
    for at in range(0, len(entries), f.MOST_USES):
        counting.limits.receive("b9", f.SharedUse(entries[at : at + f.MOST_USES]))
        counting.limits.receive("b2", f.SharedUse(entries[at : at + f.MOST_USES]))

    def counted(most: int) -> int:
        return sum(counting.usage.of(address).messages == most for address, *_ in entries)

    counting.limits.forget("b9")
    assert counted(1) == f.MOST_USES
    counting.limits.forget("b2")
    assert len(counting.later) == 1
    while counting.later:
        counting.later.popleft()()
    assert counted(0) == len(entries)
