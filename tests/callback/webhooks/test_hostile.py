"""Receivers that are slow, broken or hostile: nothing is lost, and others notice nothing."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.callbacks.webhooks.breaker import Breaker
from broker_app.peers.http_client.answer import MAX_BODY
from tests.callback.webhooks import receiver as behaviors
from tests.callback.webhooks.hooks import Hooks, callback, hooks, until
from tests.callback.webhooks.receiver import Behavior, answer, receiver
from tests.support.authority import Authority


async def outcome_of(own: Hooks, url: str, **said: Any) -> tuple[str, str]:
    """Outcome and detail of the first push to a receiver that passes its challenge."""
    await own.have(callback(url, **{"retry_s": 60.0, "max_retry_s": 60.0, **said}))
    await own.state("running")
    await own.publish(b"1")
    await until(lambda: own.report()["last"], own.report)
    last = own.report()["last"]
    assert last is not None
    assert own.report()["pending"] == 1, "it is still there"
    return last["outcome"], last["detail"]


@pytest.mark.parametrize(
    ("behavior", "outcome", "detail"),
    [
        (behaviors.hang, "timed-out", "there was no complete answer within 0.5 s"),
        (behaviors.drip, "timed-out", "there was no complete answer within 0.5 s"),
        (behaviors.reset, "unreachable", "it closed the connection before it had answered"),
        (behaviors.babble, "unreachable", "its answer is no valid HTTP"),
        (answer(307, location="/other"), "refused", "a redirect to '/other', which is not followed"),
        (answer(500, b"<html>\x00\x1b[31m" + b"a" * 5000), "failed", "it answered 500: <html>"),
    ],
)
async def test_a_failed_push_is_named_and_its_message_stays(
    tmp_path: Path, behavior: Behavior, outcome: str, detail: str
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = behavior
        found = await outcome_of(own, there.url, timeout_s=0.5)
        assert found[0] == outcome
        assert detail in found[1]
        assert len(found[1]) < 400
        assert found[1].isprintable()
        # A second request where the first one found a connection that had been kept.
        assert len(there.received) <= 1 + (behavior is behaviors.reset)


async def test_of_an_endless_answer_only_the_beginning_is_read(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = behaviors.flood
        began = time.monotonic()
        assert await outcome_of(own, there.url, timeout_s=5.0) == (
            "failed",
            "it answered 500: " + "x" * 200,
        )
        assert time.monotonic() - began < 4.0, "it did not wait for the end"
        assert MAX_BODY == 65_536


async def test_a_receiver_that_is_away_is_asked_again_until_it_is_there(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own:
        async with receiver() as there:
            await own.have(callback(there.url))
            await own.state("running")
            port = there.port
        await own.publish(b"1")
        await until(lambda: own.report()["pushes"]["unreachable"] >= 2, own.report)
        async with receiver(port) as back:
            own.supervisor.push_now("hook")
            await back.count(1)
            await until(lambda: own.report()["pending"] == 0, own.report)


async def test_a_wrong_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = Authority(tmp_path, "right"), Authority(tmp_path, "wrong")
    monkeypatch.setenv("SSL_CERT_FILE", str(right.ca_file))
    contexts = []
    for authority in (right, wrong):
        files = authority.server()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files["tls_cert"], files["tls_key"])
        contexts.append(context)
    async with (
        hooks(tmp_path / "data") as own,
        receiver(tls=contexts[0]) as trusted,
        receiver(tls=contexts[1]) as stranger,
    ):
        await own.have(callback(trusted.url), callback(stranger.url, "stranger", queue="b"))
        await own.publish(b"1")
        await trusted.count(1)
        report = await own.state("unverified", "stranger")
        assert "its certificate is not trusted" in report["reason"]
        assert not stranger.all


async def test_a_host_that_fails_is_left_alone_and_costs_no_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        monkeypatch.setattr(own.supervisor._hosts, "_make_breaker", lambda: Breaker(0.4, 0.4))
        there.behavior = answer(503)
        await own.have(callback(there.url, retry_s=0.01, max_retry_s=0.01, max_in_flight=2))
        await own.state("running")
        await own.publish(*[b"%d" % number for number in range(20)])
        await until(lambda: own.report()["breaker"]["state"] == "open", own.report)
        assert own.report()["breaker"]["until"] is not None
        asked = len(there.received)
        assert asked <= 7, "five failures, and what was in flight"
        # One push at a time shows whether it is back.
        await there.count(asked + 2)
        assert len(there.received) <= asked + 3
        there.behavior = answer(200)
        await until(lambda: own.report()["pending"] == 0, own.report)
        assert own.report()["breaker"] == {
            "host": f"127.0.0.1:{there.port}",
            "state": "closed",
            "until": None,
            "pause": "",
        }
        # Messages that waited behind the breaker had no attempts.
        attempts = [int(push.headers["mom-attempt"]) for push in there.received]
        assert sum(attempt > 1 for attempt in attempts) <= asked + 3
        host = f"127.0.0.1:{there.port}"
        assert [event for name, event in own.events() if name == host] == ["breaker opened", "breaker closed"]


async def test_a_message_that_alone_is_refused_does_not_open_the_breaker(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.special[b"bad"] = answer(400)
        await own.have(callback(there.url, retry_s=0.01, max_retry_s=0.01))
        await own.publish(b"bad")
        await there.count(6)
        assert own.report()["breaker"]["state"] == "closed"
        await own.publish(b"good")
        await there.count(len(there.received) + 1)


async def test_a_receiver_that_refuses_everything_at_once_is_asked_less_and_less(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(404)
        await own.have(callback(there.url, retry_s=0.01, max_retry_s=0.01, max_in_flight=2))
        await own.publish(*[b"%d" % number for number in range(200)])
        await there.count(5)
        began = time.monotonic()
        await there.count(8)
        assert time.monotonic() - began > 1.0, "each failure in a row keeps its place for twice the time"
        there.behavior = answer(200)
        await until(lambda: own.report()["pending"] == 0, own.report)


async def test_hanging_receivers_hold_up_no_others(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there, receiver() as honest:
        there.behavior = behaviors.hang
        hanging = [
            callback(there.url, f"h{number}", queue=f"h{number}", max_in_flight=50) for number in range(5)
        ]
        await own.have(*hanging, callback(honest.url))
        for one in hanging:
            await own.state("running", one.name)
            await own.publish(*[b"x"] * 60, to=f"/queue/{one.queue}")
        await there.count(100)
        began = time.monotonic()
        await own.publish(*[b"%d" % number for number in range(50)])
        await honest.count(50)
        assert time.monotonic() - began < 4.0
        assert len(there.received) == 100, "a host has room for so many"


async def test_a_node_with_hanging_receivers_stops_in_time_and_loses_nothing(tmp_path: Path) -> None:
    async with receiver() as there:
        there.behavior = behaviors.hang
        async with hooks(tmp_path, callback(there.url, max_in_flight=3)) as own:
            await own.publish(b"1", b"2", b"3", b"4")
            await there.count(3)
            began = time.monotonic()
        assert time.monotonic() - began < 8.0
        there.behavior = answer(200)
        async with hooks(tmp_path, callback(there.url)) as own:
            await there.count(7)
            await until(lambda: own.report()["pending"] == 0, own.report)
        first = {push.headers["webhook-id"] for push in there.received[:3]}
        assert first < {push.headers["webhook-id"] for push in there.received[3:]}, "ids are those of before"


async def test_a_kept_connection_that_the_receiver_has_closed_is_no_failure(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:

        async def close_after(request: object, writer: asyncio.StreamWriter) -> None:
            await answer(200)(request, writer)  # type: ignore[arg-type]
            asyncio.get_running_loop().call_later(0.0, writer.close)

        there.behavior = close_after
        await own.have(callback(there.url, max_in_flight=1))
        for number in range(10):
            await own.publish(b"%d" % number)
            await there.count(number + 1)
        await until(lambda: own.report()["pending"] == 0, own.report)
        assert own.report()["pushes"]["accepted"] == 10
        assert own.report()["pushes"]["unreachable"] == 0
