"""By how much the messages of all brokers together exceed a limit that they share: what arrives between two
reports, and never more than the limit at each."""

from __future__ import annotations

import contextlib

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.policy import CLUSTER, REJECT_NEWEST, DestinationPolicy, Policies
from broker_app.features.cluster.shared_limits import SharedLimits
from tests.cluster.conftest import BROKERS
from tests.core.stage import Stage

QUEUE, MOST = "/queue/a", 100


class Home:
    """A broker with a queue whose limit all share, and a producer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stage = Stage()
        policy = DestinationPolicy(max_messages=MOST, scope=CLUSTER, limit_behavior=REJECT_NEWEST)
        self._stage.decide(c.Reconfigure(Policies(exact={QUEUE: policy})))
        self.limits = SharedLimits(self._stage.broker, lambda later: later())
        self._producer, self._consumer = self._stage.client("p"), self._stage.client("c")

    @property
    def held(self) -> int:
        return int(self._stage.queue(QUEUE).depth)

    def take(self, number: int) -> int:
        """How many of so many messages it accepts."""
        before = self.held
        for _ in range(number):
            with contextlib.suppress(Refused):
                self._producer.publish(QUEUE, b"x")
        return self.held - before

    def settle(self, number: int) -> None:
        """Have so many messages consumed."""
        self._consumer.subscribe(QUEUE, credit=number)
        self._consumer.settle(*self._consumer.tags)
        self._consumer.unsubscribe()


class Homes:
    """All brokers of a cluster. They report at once, as each second."""

    def __init__(self) -> None:
        self.all = [Home(f"b{number}") for number in range(BROKERS)]

    def report(self) -> None:
        for home, frames in [(home, home.limits.changes()) for home in self.all]:
            for other in self.all:
                for frame in frames if other is not home else ():
                    other.limits.receive(home.name, frame)

    @property
    def held(self) -> int:
        return sum(home.held for home in self.all)


@pytest.mark.parametrize("rate", [1, 7, 10, 33, 50])
def test_the_excess_is_what_the_others_take_until_the_next_report(rate: int) -> None:
    homes = Homes()
    for _ in range(MOST):
        for home in homes.all:
            home.take(rate)
        homes.report()
    assert MOST <= homes.held <= MOST + (BROKERS - 1) * rate


def test_brokers_that_are_filled_between_two_reports_have_the_limit_each_until_they_are_emptied() -> None:
    homes = Homes()
    assert [home.take(2 * MOST) for home in homes.all] == [MOST] * BROKERS
    homes.report()
    assert [home.take(1) for home in homes.all] == [0] * BROKERS
    for home in homes.all[1:]:
        home.settle(MOST)
    homes.report()
    assert [home.take(1) for home in homes.all] == [0] * BROKERS
    homes.all[0].settle(1)
    homes.report()
    assert homes.all[1].take(2) == 1
