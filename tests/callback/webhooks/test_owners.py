"""Owners with callbacks to one host: what a receiver answers to one of them concerns no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from broker_app.features.callbacks.webhooks.breaker import FAILURES
from broker_app.features.callbacks.webhooks.callback import Callback
from tests.callback.webhooks.hooks import Hooks, callback, hooks, until
from tests.callback.webhooks.receiver import Receiver, answer, receiver


async def of_both(own: Hooks, url: str) -> tuple[Callback, Callback]:
    """Callbacks of anna and of boss, whose URLs are verified."""
    slow = {"retry_s": 0.01, "max_retry_s": 0.01}
    hers, his = (
        callback(url, "hers", queue="hers", **slow),
        replace(callback(url, "his", queue="his", **slow), owner="boss"),
    )
    await own.have(hers, his)
    for one in (hers, his):
        await own.state("running", one.name)
    return hers, his


async def accepts_hers(own: Hooks, there: Receiver) -> None:
    await own.publish(b"hers", to="/queue/hers")
    await until(lambda: own.report("hers")["pushes"]["accepted"] == 1, lambda: own.report("hers"))
    assert b"hers" in there.bodies


async def test_a_pause_that_one_owner_is_asked_for_stops_no_pushes_of_others(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.special[b"his"] = answer(429, retry_after="999999")
        await of_both(own, there.url)
        await own.publish(b"his", to="/queue/his")
        await until(lambda: own.report("his")["breaker"]["pause"] == "retry-after", lambda: own.report("his"))
        await accepts_hers(own, there)
        assert own.report("hers")["breaker"]["until"] is None
        assert own.report("his")["breaker"]["until"] is not None


async def test_a_breaker_that_answers_to_one_owner_have_opened_stops_no_pushes_of_others(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.special[b"his"] = answer(500)
        await of_both(own, there.url)
        await own.publish(b"his", to="/queue/his")
        await until(lambda: own.report("his")["breaker"]["state"] == "open", lambda: own.report("his"))
        assert there.bodies.count(b"his") == FAILURES
        assert own.report("hers")["breaker"]["state"] == "closed"
        await accepts_hers(own, there)


async def test_a_host_that_accepts_no_connections_is_left_alone_for_all_owners(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own:
        async with receiver() as there:
            await of_both(own, there.url)
            port = there.port
        await own.publish(b"his", to="/queue/his")
        await until(lambda: own.report("his")["breaker"]["state"] == "open", lambda: own.report("his"))
        assert own.report("hers")["breaker"]["state"] == "open"
        await own.publish(b"hers", to="/queue/hers")
        async with receiver(port) as back:
            own.supervisor.push_now("his")
            await back.count(2)
            for name in ("hers", "his"):
                await until(lambda name=name: own.report(name)["breaker"]["state"] == "closed")  # type: ignore[misc]
