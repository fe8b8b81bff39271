"""The clock is set while the broker runs: what lasts is not touched by it, what is stored follows it."""

from __future__ import annotations

import asyncio

import pytest

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.engine import Engine
from broker_app.telemetry import Statistics
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal

HOUR_S = 3600.0
QUEUE = Envelope("/queue/a")


class Time:
    """An engine whose clock can be set, and a steady clock that goes on."""

    def __init__(self, policy: DestinationPolicy | None = None) -> None:
        self.wall_s, self.steady_s = 1_800_000_000.0, 500.0
        self.engine = Engine(
            Broker(policies=Policies(policy or DestinationPolicy())),
            MemoryJournal(),
            clock=lambda: round(self.wall_s * 1_000_000),
            steady=lambda: self.steady_s,
        )
        self.engine.recover()
        self.client = Listener()

    async def do(self, *commands: c.Command) -> None:
        for command in commands:
            self.engine.submit(command)
        await self.engine.wait_idle()

    async def go_on(self, seconds: float) -> None:
        """Time passes, and the broker looks at the clock as it does by itself each second."""
        for _ in range(round(seconds)):
            self.wall_s += 1
            self.steady_s += 1
            await self.do(c.Answer(self.client.peer, None))

    async def set_clock(self, by_s: float) -> None:
        self.wall_s += by_s
        await self.do(c.Answer(self.client.peer, None))


@pytest.fixture(params=[HOUR_S, -HOUR_S], ids=["forward", "back"])
def step_s(request: pytest.FixtureRequest) -> float:
    step_s: float = request.param
    return step_s


async def test_a_producer_is_blocked_for_the_configured_time(step_s: float) -> None:
    time = Time(DestinationPolicy(max_messages=1))
    await time.do(c.Publish(time.client.peer, [(QUEUE, b"1", b"1"), (QUEUE, b"2", b"2")]))
    await time.go_on(10)
    await time.set_clock(step_s)
    await time.go_on(15)
    assert time.client.refusals == []
    await time.go_on(10)
    ((receipt, refusal),) = time.client.refusals
    assert (receipt, refusal.code) == (b"2", "queue-full")


async def test_a_lease_ends_when_it_was_to_end(step_s: float) -> None:
    time = Time()
    await time.do(
        c.Publish(time.client.peer, [(QUEUE, b"1", None)]),
        c.Subscribe(time.client.peer, "1", "/queue/a", c.INDIVIDUAL, lease_ms=30_000),
    )
    await time.go_on(10)
    await time.set_clock(step_s)
    await time.go_on(15)
    assert time.client.bodies == [b"1"]
    await time.go_on(10)
    assert time.client.bodies == [b"1", b"1"]


async def test_a_slow_consumer_is_ended_when_it_was_slow_for_so_long(step_s: float) -> None:
    time = Time(DestinationPolicy(slow_consumer_ms=30_000))
    await time.do(
        c.Subscribe(time.client.peer, "1", "/queue/a", c.INDIVIDUAL, credit=1),
        c.Publish(time.client.peer, [(QUEUE, b"1", None), (QUEUE, b"2", None)]),
    )
    await time.go_on(10)
    await time.set_clock(step_s)
    await time.go_on(15)
    assert time.client.refusals == []
    await time.go_on(20)
    assert [refusal.code for _, refusal in time.client.refusals] == ["slow-consumer"]


async def test_unused_queues_are_deleted_neither_sooner_nor_later(step_s: float) -> None:
    time = Time()
    limit_s = time.engine.broker.turn.limits.idle_queue_ms / 1000
    await time.do(c.CreateQueue(time.client.peer, "/queue/a"))
    await time.go_on(limit_s / 2)
    await time.set_clock(step_s * max(1, limit_s / HOUR_S))
    await time.go_on(limit_s / 2 - 10)
    assert "/queue/a" in time.engine.broker.destinations.queues
    await time.go_on(20)
    assert "/queue/a" not in time.engine.broker.destinations.queues


async def test_expiry_and_delays_follow_the_clock() -> None:
    time = Time()
    expiring = Envelope("/queue/a", expires_ms=round((time.wall_s + 600) * 1000))
    delayed = Envelope("/queue/b", options=DeliveryOptions(delay_ms=600_000))
    await time.do(c.Publish(time.client.peer, [(expiring, b"1", None), (delayed, b"2", None)]))
    await time.set_clock(HOUR_S)
    await time.go_on(2)
    queues = time.engine.broker.destinations.queues
    assert (queues["/queue/a"].depth, queues["/queue/a"].counters.expired, queues["/queue/b"].depth) == (
        0,
        1,
        1,
    )


async def test_the_loops_own_timer_is_set_by_the_clock_of_now() -> None:
    time = Time()
    await time.do(c.CreateQueue(time.client.peer, "/queue/a"))
    time.wall_s -= HOUR_S
    ringing = time.engine._clock._timer
    assert ringing is not None
    ringing.cancel()
    time.engine._clock._ring(time.engine._ring)  # nothing else wakes a broker at rest
    await asyncio.sleep(0)
    loop, timer = asyncio.get_running_loop(), time.engine._clock._timer
    assert timer is not None
    assert timer is not ringing
    assert timer.when() - loop.time() <= 2


async def test_a_step_is_logged_once_and_slow_drift_is_none(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    for _ in range(20):
        await time.set_clock(0.5)
    assert "the clock was set" not in caplog.text
    await time.set_clock(-HOUR_S)
    await time.go_on(3)
    assert caplog.text.count("the clock was set back by 3600 s") == 1


async def test_rates_and_courses_go_on_over_a_step(step_s: float) -> None:
    time = Time()
    statistics = Statistics(time.engine.broker, "mom", "1")
    time.engine.clock_listeners.add(statistics.clock_stepped)

    async def second(*bodies: bytes) -> None:
        await time.go_on(1)
        await time.do(c.Publish(time.client.peer, [(QUEUE, body, None) for body in bodies]))
        statistics.sample(time.wall_s)

    for _ in range(5):
        await second(b"1", b"2")
    await time.set_clock(step_s)
    await second(b"3")
    assert statistics.rates("/queue/a") == (1.0, 0.0)
    await second()
    await second()
    assert statistics.rates("/queue/a") == (0.0, 0.0)
    assert statistics.window("/queue/a", 8, 1).series["in"] == [2, 2, 2, 2, 2, 1, 0, 0]
