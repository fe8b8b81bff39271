"""The totals of all callbacks, as metrics show them: they only grow, also when a callback is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_app.features.callbacks.webhooks.breaker import FAILURES
from broker_app.features.callbacks.webhooks.push_log import LoggedPush
from broker_app.features.callbacks.webhooks.push_totals import BOUNDS_S, PushTotals
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.telemetry.metrics.families import Histogram
from broker_app.telemetry.metrics.node_metrics import of_callbacks
from tests.callback.webhooks.hooks import Hooks, callback, hooks, until
from tests.callback.webhooks.receiver import answer, receiver


def figures(own: Hooks) -> dict[str, Any]:
    """The samples without labels, by name."""
    return {name: samples.get((), samples) for name, samples in of_callbacks(own.supervisor.totals())}


async def test_pushes_are_counted_by_outcome_and_stay_counted_without_their_callback(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url))
        await own.publish(b"1", b"2")
        await there.count(2)
        await until(lambda: own.report()["pending"] == 0, own.report)
        await own.have()
        found = figures(own)
        assert found["mom_callback_pushes_total"][("accepted",)] == 2
        assert found["mom_callback_retries_total"] == found["mom_callback_dead_lettered_total"] == 0
        assert sum(found["mom_callback_push_seconds"].counts) == 2
        assert found["mom_callback_push_seconds"].sum > 0


async def test_retries_dead_letters_and_messages_that_wait_are_counted(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.small.change(destinations=Destinations({"/queue/a": Own({"max_attempts": 3}, 1)}))
        there.behavior = answer(404)
        await own.have(callback(there.url))
        await own.publish(b"1", b"2")
        await until(lambda: figures(own)["mom_callback_dead_lettered_total"] == 2, lambda: figures(own))
        found = figures(own)
        assert found["mom_callback_pushes_total"][("refused",)] == 6
        assert found["mom_callback_retries_total"] == 4
        assert found["mom_callback_pending"] == found["mom_callback_breaker_open"] == 0


async def test_a_host_that_fails_is_counted_until_it_is_back(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(500)
        await own.have(callback(there.url, max_in_flight=FAILURES))
        await own.publish(*[b"x"] * FAILURES)
        await until(lambda: figures(own)["mom_callback_breaker_open"] == 1, lambda: figures(own))
        assert figures(own)["mom_callback_pending"] == FAILURES
        there.behavior = answer(204)
        own.supervisor.push_now("hook")
        await until(lambda: figures(own)["mom_callback_pending"] == 0, lambda: figures(own))
        assert figures(own)["mom_callback_breaker_open"] == 0


def test_a_push_is_in_the_bucket_of_its_duration() -> None:
    totals = PushTotals()
    for seconds in (BOUNDS_S[0], 0.3, 1000.0):
        totals.note(LoggedPush(0, "id", 1, "accepted", 204, seconds, ""))
    observed = Histogram(*totals.durations())
    assert observed.counts[0] == observed.counts[BOUNDS_S.index(0.5)] == observed.counts[-1] == 1
    assert observed.sum == BOUNDS_S[0] + 1000.3
