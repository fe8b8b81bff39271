"""The state of a destination: the one word that page, API and command line show."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy, Policies
from broker_app.telemetry import Statistics
from broker_app.telemetry.health import Health
from broker_app.telemetry.trend import STEPS, Traffic, Trend
from tests.core.stage import Stage


class Watched(Stage):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.statistics = Statistics(self.broker, "mom", "1")
        self.statistics.sample(self.now_us / 1e6)

    def second(self) -> None:
        self.pass_time(1_000)
        self.statistics.sample(self.now_us / 1e6)

    def condition(self, address: str = "/queue/a") -> Health:
        return self.statistics.condition(address)


def test_a_queue_flows_rests_and_misses_a_consumer() -> None:
    stage = Watched()
    taker = stage.client()
    taker.subscribe("/queue/a")
    stage.client().publish("/queue/a")
    stage.second()
    assert stage.condition() == ("flowing", None, None)
    stage.second()
    assert stage.condition().state == "idle"
    taker.disconnect()
    stage.second()
    assert stage.condition().state == "no-consumer", "its message came back"


def test_dead_letters_want_no_consumer() -> None:
    stage = Watched()
    taker = stage.client()
    taker.subscribe("/queue/a")
    stage.client().publish("/queue/a")
    taker.reject(*taker.tags)
    stage.second()
    stage.second()
    assert stage.condition("/queue/a.dead").state == "idle"


def test_a_queue_that_grows_for_two_minutes_has_an_estimated_time_until_full() -> None:
    stage = Watched(policy=DestinationPolicy(max_messages=1_000))
    stage.client().subscribe("/queue/a", credit=1)
    producer = stage.client()
    for second in range(160):
        for _ in range(4 if second % 2 else 0):  # in bursts, two a second
            producer.publish("/queue/a")
        stage.second()
        assert (stage.condition().state == "growing") == (second >= 119), second
    condition = stage.condition()
    assert condition.fill == pytest.approx(0.32)
    assert condition.full_in_s == pytest.approx(680 / 2, rel=0.1)
    for _ in range(40):
        stage.second()
    assert stage.condition().state == "idle"


def test_a_reached_limit_and_a_pause_are_reported_first() -> None:
    stage = Watched(policy=DestinationPolicy(max_messages=2, limit_behavior=REJECT_NEWEST))
    for _ in range(2):
        stage.client().publish("/queue/a")
    stage.second()
    assert stage.condition() == ("at-limit", 1.0, None)
    held = DestinationPolicy(max_messages=4, paused="consumers")
    stage.decide(c.Reconfigure(Policies(stage.policy, {"/queue/a": held, "/topic/t": held})))
    assert stage.condition() == ("paused", 0.5, None)
    assert stage.condition("/topic/t").state == "paused"


def test_a_trend_keeps_five_minutes_and_fills_gaps() -> None:
    course, traffic = Trend(), Traffic()
    assert course.trend(1_000) == []
    for second, number in ((1_000, 5), (1_009, 7), (1_031, 2)):
        course.put(second, number)
        traffic.put(second, number)
    assert course.trend(1_039) == [7, 7, 7, 2]
    assert traffic.trend(1_059) == [12, 0, 0, 2, 0, 0]
    assert course.trend(9_000) == [2] * STEPS
    assert traffic.trend(9_000) == [0] * STEPS
