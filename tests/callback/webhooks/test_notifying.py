"""Callbacks that notify: they report what arrived, and take nothing from the queue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from broker_app.base.internal_errors import internal_errors
from broker_app.features.callbacks.webhooks.notifier import Notifier
from broker_app.journal.errors import Busy
from tests.callback.webhooks.hooks import SECRET, callback, hooks, until
from tests.callback.webhooks.receiver import answer, receiver


async def test_arrivals_are_reported_with_ids_and_the_number_of_all_that_wait(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.publish(b"before")
        await own.have(callback(there.url, mode="notify"))
        (first,) = await there.count(1)
        found = first.json()
        assert {name: found[name] for name in ("queue", "pending", "more")} == {
            "queue": "a", "pending": 1, "more": False,
        }  # fmt: skip
        assert (len(found["ids"]), found["seqs"][-1]) == (1, found["seq"])
        assert found["journal"] == own.small.node.broker.turn.ids.journal
        assert first.headers["ce-type"] == "mom.arrived"
        assert standardwebhooks.Webhook(SECRET).verify(first.body, first.headers) == found
        await own.publish(b"after")
        second = (await there.count(2))[1].json()
        assert (len(second["ids"]), second["pending"]) == (1, 2)
        assert own.small.depth("a") == 2, "nothing was taken"
        async with own.small.rest("anna") as rest:
            reply = await rest.post("/queues/a/receive", json={"max": 10, "wait_s": 0})
            assert [item["id"] for item in reply.json()["items"]] == found["ids"] + second["ids"]


async def test_what_comes_while_the_receiver_is_slow_is_one_notification(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        gate = asyncio.Event()

        async def wait(request: object, writer: asyncio.StreamWriter) -> None:
            await gate.wait()
            await answer(200)(request, writer)  # type: ignore[arg-type]

        there.behavior = wait
        await own.have(callback(there.url, mode="notify"))
        await own.state("running")
        await own.publish(b"1")
        await there.count(1)
        await own.publish(*[b"x"] * 150)
        gate.set()
        pushes = await there.count(2)
        second = pushes[1].json()
        assert (len(second["ids"]), second["more"], second["pending"]) == (100, True, 151)
        assert own.report()["coalesced"] == 99


async def test_a_notification_is_repeated_until_it_is_accepted_with_the_present_number(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(500)
        await own.have(callback(there.url, mode="notify"))
        await own.publish(b"1")
        await there.count(2)
        await own.publish(b"2")
        await until(lambda: there.received[-1].json()["pending"] == 2)
        there.behavior = answer(200)
        number = len(there.received)
        await there.count(number + 1)
        last = there.received[-1].json()
        assert (len(last["ids"]), last["pending"]) == (2, 2)
        ids = {push.headers["webhook-id"]: push.json() for push in there.received}
        assert len({str(body) for body in ids.values()}) == len(ids), "another content has another id"


async def test_after_a_restart_everything_that_waits_is_reported_again(tmp_path: Path) -> None:
    async with receiver() as there:
        hook = callback(there.url, mode="notify")
        async with hooks(tmp_path, hook) as own:
            await own.publish(b"1", b"2")
            await until(lambda: there.received and there.received[-1].json()["pending"] == 2)
            seen = len(there.received)
        async with hooks(tmp_path, hook):
            again = (await there.count(seen + 1))[seen].json()
            assert (len(again["ids"]), again["pending"]) == (2, 2)


async def test_410_ends_notifications(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(410)
        await own.have(callback(there.url, mode="notify"))
        await own.publish(b"1")
        await own.state("ended")
        await own.publish(b"2")
        await until(lambda: own.small.depth("a") == 2)
        assert len(there.received) == 1
        assert "/queue/a" not in own.node.broker.store.taps


async def test_a_journal_that_cannot_be_read_for_a_moment_ends_no_notifications(tmp_path: Path) -> None:
    async with hooks(tmp_path, memory_bytes=1024 * 1024) as own, receiver() as there:
        await own.publish(*[b"x" * 300_000] * 12)  # most of them are not in memory
        journal = own.node._journal
        read = journal.read
        refused: list[Any] = []

        def busy_once(positions: Any, found: Any) -> None:
            if refused:
                read(positions, found)
            else:
                refused.append(positions)
                found(None, Busy("files cannot be opened now: too many open files"))

        journal.read = busy_once  # type: ignore[method-assign]
        before = internal_errors.total
        await own.have(callback(there.url, mode="notify"))
        first = (await there.count(1))[0].json()
        assert refused, "the journal was asked"
        assert (first["pending"], len(first["seqs"])) == (12, 12), "what waited is reported all the same"
        await own.publish(b"later")
        assert (await there.count(2))[1].json()["pending"] == 13
        assert internal_errors.total == before, "that is no error of the broker"


async def test_a_notifier_that_an_error_ends_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, mode="notify"))
        await own.publish(b"1")
        await there.count(1)
        pusher = own.supervisor._webhooks["hook"]._pusher
        assert isinstance(pusher, Notifier)
        failed: list[object] = []
        event = pusher._event

        def wrong_once(*arguments: Any) -> Any:
            if failed:
                return event(*arguments)
            failed.append(arguments)
            raise KeyError("a bug")

        monkeypatch.setattr(pusher, "_event", wrong_once)
        await own.publish(b"2")
        pushed = (await there.count(2))[1].json()
        assert failed
        assert (pushed["pending"], len(pushed["seqs"])) == (2, 1), "its notification is not lost"
