"""Statistics of a broker whose clock the test turns."""

from __future__ import annotations

import gc
import time
import tracemalloc
from random import Random
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.core import commands as c
from broker_app.core.model import NO_SAMPLES
from broker_app.telemetry import Statistics
from broker_app.telemetry.activity import IDLE_S
from broker_app.telemetry.figures import DestinationFigures
from broker_app.telemetry.statistics import consumer
from tests.core.stage import Stage


class Watched:
    """A stage and its statistics."""

    def __init__(self, **settings: Any) -> None:
        self.stage = Stage()
        self.statistics = Statistics(self.stage.broker, "mom", "1", **settings)
        self.statistics.sample(self.stage.now_us / 1e6)

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.stage.pass_time(1_000)
            self.statistics.sample(self.stage.now_us / 1e6)

    def row(self, address: str) -> DestinationFigures:
        return next(row for row in self.statistics.latest()["destinations"] if row["name"] == address)

    def series(self, address: str, window_s: int = 600, step_s: int = 1) -> dict[str, list[float | None]]:
        return self.statistics.window(address, window_s, step_s).series


def test_rates_depth_and_age_of_a_queue() -> None:
    watched = Watched()
    producer, consumer_ = watched.stage.client(), watched.stage.client()
    for _ in range(10):
        producer.publish("/queue/a")
    consumer_.subscribe("/queue/a", credit=4)
    watched.tick()
    assert watched.row("/queue/a") == {
        "name": "/queue/a", "kind": "queue", "depth": 6, "unsettled": 4, "delayed": 0, "consumers": 1,
        "in_rate": 10.0, "out_rate": 4.0, "oldest_s": 1.0,
    }  # fmt: skip
    node = watched.statistics.latest()["node"]
    assert (node["in_rate"], node["out_rate"], node["published"], node["delivered"]) == (10.0, 4.0, 10, 4)
    watched.tick()
    assert watched.row("/queue/a")["in_rate"] == 0.0
    assert watched.row("/queue/a")["oldest_s"] == 2.0
    assert watched.statistics.latest()["node"]["in_rate"] == 0.0


def test_a_sample_of_many_queues_is_taken_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    producer = watched.stage.client()
    watched.stage.decide(*[producer.sending(f"/queue/{number}", b"x") for number in range(200)])
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    assert sum(1 for _ in watched.statistics.passing(watched.stage.now_us / 1e6)) > 200 / 17


def test_system_topics_are_not_counted_as_traffic_of_users() -> None:
    watched = Watched()
    producer, listeners = watched.stage.client(), [watched.stage.client() for _ in range(2)]
    for listener in listeners:
        listener.subscribe("/topic/$mom.node")
    producer.publish("/queue/a")
    for _ in range(3):
        producer.publish("/topic/$mom.node")
    watched.tick()
    node = watched.statistics.latest()["node"]
    assert (node["in_rate"], node["out_rate"], node["published"], node["delivered"]) == (1.0, 0.0, 1, 0)


def test_rates_and_subscribers_of_a_topic() -> None:
    watched = Watched()
    watched.stage.client().subscribe("/topic/t.*", c.AUTO)
    watched.stage.client().subscribe("/topic/t.x", c.AUTO)
    producer = watched.stage.client()
    for _ in range(3):
        producer.publish("/topic/t.x")
    producer.publish("/topic/$mom.x")
    watched.tick()
    row = watched.row("/topic/t.x")
    assert (row["kind"], row["consumers"], row["in_rate"], row["out_rate"]) == ("topic", 2, 3.0, 6.0)
    assert not any("$mom" in row["name"] for row in watched.statistics.latest()["destinations"])
    assert watched.series("/topic/t.x", 1)["out"] == [6]


def test_the_past_adds_up_to_the_totals() -> None:
    watched = Watched()
    random = Random(3)
    stage = watched.stage
    producer, taker = stage.client(), stage.client()
    taker.subscribe("/queue/a", credit=1_000)
    for _ in range(300):
        for _ in range(random.choice((0, 0, 1, 7))):
            producer.publish("/queue/a", expires_ms=random.choice((0, 0, stage.now_ms - 1)))
        tags = taker.tags
        if tags and random.random() < 0.5:
            taker.settle(*random.sample(tags, min(3, len(tags))))
        if taker.tags and random.random() < 0.2:
            taker.reject(taker.tags[0])
        watched.tick(random.choice((1, 1, 3)))
    queue = stage.queue("/queue/a")
    for window_s, step_s in ((3_600, 10), (86_400, 60)):
        series = watched.series("/queue/a", window_s, step_s)
        sums = {name: sum(value or 0 for value in column) for name, column in series.items()}
        assert sums["in"] == queue.counters.published
        assert sums["out"] == queue.counters.delivered
        assert sums["acked"] == queue.counters.acked
        assert sums["dead"] == queue.counters.dead
        assert sums["expired"] == queue.counters.expired
        assert series["unsettled"][-1] == queue.unsettled
    full = watched.statistics.full("/queue/a")
    assert full["published"] == (
        full["acknowledged"] + full["dead"] + full["expired"] + full["depth"] + full["unsettled"]
    )


def test_times_in_the_queue_and_in_the_hands_of_a_consumer_are_sampled() -> None:
    watched = Watched()
    producer, taker = watched.stage.client(), watched.stage.client()
    producer.publish("/queue/a")
    watched.tick(2)
    taker.subscribe("/queue/a")
    watched.tick(4)
    taker.settle(*taker.tags)
    watched.tick()
    full: Any = watched.statistics.full("/queue/a")
    assert full["wait_s"]["samples"] == full["hold_s"]["samples"] == 1
    assert 2.0 <= full["wait_s"]["p50"] <= 2.3
    assert 4.0 <= full["hold_s"]["p99"] <= 4.6
    assert watched.series("/queue/a", 1)["hold_p50_s"] == [pytest.approx(full["hold_s"]["p50"])]


def test_a_delivery_that_comes_back_is_no_sample_of_holding() -> None:
    watched = Watched()
    watched.stage.client().publish("/queue/a")
    taker = watched.stage.client()
    taker.subscribe("/queue/a", credit=1)
    watched.tick()
    taker.give_back(*taker.tags)
    watched.tick(3)
    taker.settle(*taker.tags)
    watched.tick()
    hold: Any = watched.statistics.full("/queue/a")["hold_s"]
    assert hold["samples"] == 1
    assert 3.0 <= hold["p50"] <= 3.5


def test_samples_are_bounded_and_cost_nothing_when_they_are_not_read() -> None:
    watched = Watched(destinations=1)
    producer, taker = watched.stage.client(), watched.stage.client()
    taker.subscribe("/queue/a", c.AUTO)
    taker.subscribe("/queue/b", c.AUTO, id="2")
    producer.publish("/queue/a")
    watched.tick()
    for _ in range(1_000):
        producer.publish("/queue/a")
        producer.publish("/queue/b")
    assert len(watched.stage.queue("/queue/a").samples.wait_ms) <= 128
    assert watched.stage.queue("/queue/b").samples.wait_ms is NO_SAMPLES
    assert not NO_SAMPLES


def test_a_consumer_in_numbers() -> None:
    stage = Stage()
    taker = stage.client("anna")
    subscription = taker.subscribe("/queue/a", credit=2, priority=7)
    for _ in range(4):
        stage.client().publish("/queue/a")
    stage.pass_time(60_000)
    assert consumer(stage.broker, subscription)["slow_since"] == "2027-01-15T08:01:00.000Z"
    taker.settle(taker.tags[0])
    taker.give_back(taker.tags[0])
    taker.settle(*taker.tags)
    stage.pass_time(60_000)
    facts = consumer(stage.broker, subscription)
    assert facts == {
        "id": "1", "destination": "/queue/a", "connection": None, "user": "anna", "ack": c.INDIVIDUAL,
        "selector": None, "exclusive": False, "active": True, "priority": 7,
        "credit": 2, "unsettled": 1, "delivered": 5, "acknowledged": 3, "returned": 1, "waiting": 0,
        "since": "2027-01-15T08:00:00.000Z", "slow_since": None,
    }  # fmt: skip


def test_a_queue_created_again_starts_from_zero() -> None:
    watched = Watched()
    watched.stage.client().publish("/queue/a", persistent=False)
    watched.tick()
    del watched.stage.broker.destinations.queues["/queue/a"]
    watched.tick()
    assert watched.statistics.knows("/queue/a")
    assert watched.series("/queue/a", 2)["in"] == [1, 0]
    watched.stage.client().publish("/queue/a")
    watched.tick()
    assert watched.series("/queue/a", 3)["in"] == [1, 0, 1]


def test_the_destination_at_rest_the_longest_gives_its_past_to_an_active_one() -> None:
    watched = Watched(destinations=2)
    producer = watched.stage.client()
    for name in "ab":
        producer.publish(f"/queue/{name}")
        watched.tick()
    producer.publish("/queue/c")
    watched.tick()
    assert watched.series("/queue/c", 1)["in"] == [None], "an active destination is not replaced"
    assert watched.row("/queue/c")["in_rate"] == 1.0
    watched.tick(IDLE_S)
    producer.publish("/queue/b")
    producer.publish("/queue/c")
    watched.tick()
    assert watched.series("/queue/c", 1)["in"] == [1]
    assert watched.series("/queue/a", 1)["in"] == [None]
    assert watched.series("/queue/b", 1)["in"] == [1]


@pytest.mark.slow
def test_many_destinations_stay_within_bounds() -> None:
    watched = Watched(destinations=20)
    producer = watched.stage.client()
    watched.stage.decide(*[producer.sending(f"/queue/{number}", b"x") for number in range(3_000)])
    gc.collect()
    tracemalloc.start()
    watched.tick()
    watched.stage.decide(*[producer.sending(f"/queue/{number}", b"x") for number in range(0, 3_000, 3)])
    watched.tick(5)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 6_000_000, "a pulse of each, and the past of few"
    latest = watched.statistics.latest()
    assert len(latest["destinations"]) == 1_000
    assert latest["node"]["destinations"] == 3_000
    began = time.process_time()
    watched.statistics.sample(watched.stage.now_us / 1e6 + 1)
    assert time.process_time() - began < 0.03, "some 1 ms on an idle machine"


def test_temporary_queues_leave_nothing_behind() -> None:
    watched = Watched()
    producer = watched.stage.client()
    for number in range(3_000):
        owner = watched.stage.client()
        owner.subscribe(f"/temp-queue/{number}")
        producer.publish(f"/temp-queue/{number}")
        if number % 100 == 0:
            watched.tick()
        owner.disconnect()
    watched.tick(2)
    assert len(watched.statistics._activity) < 2_000
    assert not watched.statistics._activity.histories


def test_the_past_of_the_node_has_what_waits_everywhere_and_dead_letters_apart() -> None:
    watched = Watched()
    producer, taker = watched.stage.client(), watched.stage.client()
    producer.publish("/queue/a")
    producer.publish("/queue/a")
    watched.tick()
    producer.publish("/queue/b")
    taker.subscribe("/queue/b")
    producer.publish("/queue/a.dead")
    watched.tick()
    past = watched.statistics.window_of_node(2, 1).series
    assert past["in"] == [2, 2]
    assert past["out"] == [0, 1]
    assert past["backlog"] == [2, 2]
    assert past["unsettled"] == [0, 1]
    assert past["dead"] == [0, 1]
    assert past["oldest_s"] == [1.0, 2.0]
    node = watched.statistics.head()["node"]
    assert (node["backlog"], node["unsettled"], node["dead"], node["oldest_s"]) == (2, 1, 1, 2.0)
    taker.disconnect()
    watched.tick()
    assert watched.statistics.head()["node"]["backlog"] == 3


def test_messages_of_a_deleted_queue_leave_the_backlog() -> None:
    watched = Watched()
    watched.stage.client().publish("/queue/a")
    watched.tick()
    del watched.stage.broker.destinations.queues["/queue/a"]
    watched.tick()
    node = watched.statistics.head()["node"]
    assert (node["backlog"], node["oldest_s"]) == (0, 0.0)


def test_the_past_of_the_node_reaches_back_a_day_in_bounded_memory() -> None:
    watched = Watched()
    watched.tick(1_000)
    steps = [watched.statistics.window_of_node(window_s, 1).step_s for window_s in (900, 901, 10_800, 86_400)]
    assert steps == [1, 10, 10, 60]


def test_recovered_messages_are_in_the_backlog_at_once() -> None:
    watched = Watched()
    watched.stage.client().publish("/queue/a")
    watched.stage.restart()
    anew = Statistics(watched.stage.broker, "mom", "1")
    anew.sample(watched.stage.now_us / 1e6)
    assert anew.latest()["node"]["backlog"] == 1


def test_a_queue_untouched_since_a_restart_has_a_history_and_an_age() -> None:
    watched = Watched()
    watched.stage.client().publish("/queue/a")
    watched.stage.restart()
    watched.statistics = Statistics(watched.stage.broker, "mom", "1")
    watched.statistics.sample(watched.stage.now_us / 1e6)
    assert watched.series("/queue/a", 1)["depth"] == [1]
    watched.tick(5)
    node = watched.statistics.head()["node"]
    assert node["oldest_s"] >= 5.0 and watched.row("/queue/a")["oldest_s"] >= 5.0
    series = watched.series("/queue/a", 6)
    assert series["depth"] == [1] * 6 and series["in"] == [0] * 6
    assert series["oldest_s"] == pytest.approx([0, 1, 2, 3, 4, 5], abs=0.1)
    watched.stage.client().publish("/queue/a")  # the restored message is still the oldest
    watched.tick()
    assert watched.row("/queue/a")["oldest_s"] >= 6.0


def test_restored_queues_make_room_for_the_history_of_an_active_one() -> None:
    watched = Watched()
    for name in ("/queue/a", "/queue/b"):
        watched.stage.client().publish(name)
    watched.stage.restart()
    watched.statistics = Statistics(watched.stage.broker, "mom", "1", destinations=1)
    watched.statistics.sample(watched.stage.now_us / 1e6)
    watched.stage.client().publish("/queue/b")
    watched.tick()
    assert watched.series("/queue/b", 1)["in"] == [1]
    assert watched.statistics.moving() == ["/queue/b"]


def test_a_topic_that_made_room_for_others_is_counted_again_when_it_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_app.core.publishing.publisher.MAX_COUNTED_TOPICS", 1)
    watched = Watched()
    producer = watched.stage.client()
    for _ in range(3):
        producer.publish("/topic/a")
    watched.tick()
    producer.publish("/topic/b")
    producer.publish("/topic/a")
    watched.tick()
    assert watched.row("/topic/a")["in_rate"] == 1.0
    assert watched.series("/topic/a", 2)["in"] == [3, 1]
