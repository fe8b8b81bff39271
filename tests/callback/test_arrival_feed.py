"""Notifications of what arrives in a queue."""

from __future__ import annotations

import asyncio

import pytest

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.core.position import BEGINNING, FROM_NOW, Position
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import COALESCE_MANY_S, MOST, ArrivalFeed
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal

A = Envelope("/queue/a")
TRANSIENT = Envelope("/queue/a", persistent=False)


class Stage:
    """An engine with one client, and feeds of one queue."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.journal = MemoryJournal(hold=False)
        self.engine = Engine(Broker(limits=limits), self.journal)
        self.engine.recover()
        self.client = Listener()
        self.requests = EngineClient(self.engine, "test")

    def feed(self, after: int | Position = 0) -> ArrivalFeed:
        return ArrivalFeed(
            self.engine.broker,
            self.engine.records,
            self.requests.inspect_heads,
            A.address,
            Position(after) if isinstance(after, int) else after,
            coalesce_s=0,
        )

    async def publish(self, *bodies: bytes, envelope: Envelope = A) -> None:
        self.engine.submit(c.Publish(self.client.peer, [(envelope, body, None) for body in bodies]))
        await self.engine.wait_idle()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_the_first_notification_has_what_waits_and_the_next_what_arrives(stage: Stage) -> None:
    await stage.publish(b"1", b"2")
    feed = stage.feed()
    first = await feed.next()
    assert (len(first.seqs), first.pending, first.more) == (2, 2, False)
    await stage.publish(b"3")
    second = await feed.next()
    assert (len(second.seqs), second.pending, second.seq) == (1, 3, second.seqs[-1])
    assert second.ids != first.ids[:1]


async def test_nothing_is_reported_while_nothing_arrives(stage: Stage) -> None:
    feed = stage.feed()
    waiting = asyncio.ensure_future(feed.next())
    await asyncio.sleep(0)
    await stage.publish(b"1")
    assert (await waiting).pending == 1
    assert not feed.is_due


async def test_what_comes_while_a_subscriber_is_busy_is_one_notification_with_the_true_number(
    stage: Stage,
) -> None:
    feed = stage.feed()
    for _ in range(5):
        await stage.publish(*[b"1"] * 50)
    stage.engine.submit(c.Subscribe(stage.client.peer, "1", A.address, c.INDIVIDUAL, 7))
    await stage.engine.wait_idle()
    await feed.take()
    for _ in range(5):
        await stage.publish(*[b"1"] * 50)
    found = await feed.next()
    assert (len(found.seqs), found.more, found.pending) == (MOST, True, 493)


async def test_a_feed_continues_after_the_position_of_the_last_notification(stage: Stage) -> None:
    feed = stage.feed()
    await stage.publish(b"1", b"2")
    last = await feed.next()
    feed.close()
    await stage.publish(b"3")
    again = stage.feed(after=last.seq)
    found = await again.next()
    assert (len(found.seqs), found.pending) == (1, 3)
    assert found.seqs[0] > last.seq


async def test_a_feed_after_a_position_that_was_never_given_says_so_and_reports_what_waits(
    stage: Stage,
) -> None:
    await stage.publish(b"1", b"2")
    feed = stage.feed(after=90_412)
    first = await feed.next()
    assert (len(first.seqs), first.unknown_position, first.seq) == (2, True, first.seqs[-1])
    await stage.publish(b"3")
    assert (await feed.next()).unknown_position is False
    listed = await feed.pending(after=Position(90_412))
    assert (len(listed.seqs), listed.unknown_position) == (3, True)


async def test_a_position_that_was_never_given_is_said_though_nothing_waits(stage: Stage) -> None:
    found = await stage.feed(after=90_412).next()
    assert (found.seqs, found.unknown_position) == ([], True)


async def test_a_feed_after_a_position_of_another_journal_reports_what_waits(stage: Stage) -> None:
    await stage.publish(b"1", b"2")
    last = stage.feed().position(1)
    assert len((await stage.feed(after=last).next()).seqs) == 1
    found = await stage.feed(after=last._replace(journal="abc")).next()
    assert (len(found.seqs), found.unknown_position) == (2, True)


async def test_a_feed_from_now_on_reports_nothing_of_what_waits(stage: Stage) -> None:
    await stage.publish(b"1")
    feed = stage.feed(after=FROM_NOW)
    first = await feed.take()
    assert (first.seqs, first.unknown_position) == ([], False)
    await stage.publish(b"2")
    assert len((await feed.next()).seqs) == 1


async def test_a_feed_that_continues_reports_what_came_back_meanwhile(stage: Stage) -> None:
    await stage.publish(b"1", b"2")
    feed = stage.feed()
    last = await feed.next()
    feed.close()
    stage.engine.submit(c.Subscribe(stage.client.peer, "1", A.address, c.INDIVIDUAL, 1))
    await stage.engine.wait_idle()
    stage.engine.submit(c.Unsubscribe(stage.client.peer, "1"))
    await stage.engine.wait_idle()
    found = await stage.feed(after=last.seq).next()
    assert found.seqs == last.seqs[:1]


async def test_a_returned_message_is_reported_again(stage: Stage) -> None:
    await stage.publish(b"1")
    feed = stage.feed()
    first = await feed.next()
    stage.engine.submit(c.Subscribe(stage.client.peer, "1", A.address, c.INDIVIDUAL))
    await stage.engine.wait_idle()
    stage.engine.submit(c.Return(stage.client.peer, [1]))
    stage.engine.submit(c.Unsubscribe(stage.client.peer, "1"))
    again = await feed.next()
    assert (again.ids, again.pending) == (first.ids, 1)


async def test_messages_outside_the_journal_are_reported_and_do_not_move_the_position(stage: Stage) -> None:
    await stage.publish(b"1")
    last = await stage.feed().next()
    await stage.publish(b"2", envelope=TRANSIENT)
    found = await stage.feed(after=last.seq).next()
    assert (len(found.seqs), found.seq, found.pending) == (1, last.seq, 2)


async def test_a_long_backlog_is_listed_page_by_page() -> None:
    stage = Stage(Limits(window=10, fetch_messages=5))
    await stage.publish(*[b"%d" % number for number in range(250)])
    feed = stage.feed()
    first = await feed.next()
    assert (len(first.seqs), first.more, first.pending) == (MOST, True, 250)
    seqs, after = [], BEGINNING
    while True:
        page = await feed.pending(after)
        seqs += page.seqs
        after = feed.position(page.seq)
        if not page.more:
            break
    assert len(seqs) == len(set(seqs)) == 250
    assert seqs[:MOST] == first.seqs


async def test_nothing_is_reported_before_it_is_committed() -> None:
    stage = Stage()
    stage.journal = MemoryJournal(hold=True)
    stage.engine = Engine(Broker(), stage.journal)
    stage.engine.recover()
    stage.requests = EngineClient(stage.engine, "test")
    feed = stage.feed()
    stage.engine.submit(c.Publish(stage.client.peer, [(A, b"1", None)]))
    reported = asyncio.ensure_future(feed.next())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not reported.done()
    stage.journal.release()
    assert (await reported).pending == 1


async def test_a_closed_feed_leaves_nothing_behind(stage: Stage) -> None:
    stage.feed().close()
    assert not stage.engine.broker.store.taps


async def test_after_many_arrivals_the_next_notification_takes_longer(stage: Stage) -> None:
    feed = stage.feed()
    await stage.publish(b"1")
    await feed.next()
    await stage.publish(*[b"1"] * (MOST + 1))
    assert (await feed.next()).more
    began = asyncio.get_running_loop().time()
    await stage.publish(b"1")
    await feed.next()
    assert asyncio.get_running_loop().time() - began >= COALESCE_MANY_S / 2
