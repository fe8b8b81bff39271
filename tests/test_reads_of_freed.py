"""Messages that are deleted or moved while a read of them waits: the broker goes on with the others."""

from __future__ import annotations

import asyncio

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.outcome import DEAD, Fetch
from broker_app.engine import Engine
from broker_app.journal.errors import NoSuchPosition
from tests.support.awaiting import until
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal

A, B = "/queue/a", "/queue/b"


class Stage:
    """An engine whose reads wait, and a client. All messages but the first are outside memory."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.now_us = 1_800_000_000_000_000
        self.engine = Engine(Broker(limits=Limits(window=1)), self.journal, clock=lambda: self.now_us)
        self.engine.recover()
        self.journal.hold_reads = True
        self.client = Listener()

    def submit(self, *commands: c.Command) -> None:
        for command in commands:
            self.engine.submit(command)

    async def publish(self, *bodies: bytes, **options: int) -> None:
        envelope = Envelope(A, options=DeliveryOptions(**options) if options else None)  # type: ignore[arg-type]
        self.submit(c.Publish(self.client.peer, [(envelope, body, body) for body in bodies]))
        await self.engine.wait_idle()

    async def consume(self) -> None:
        self.submit(c.Subscribe(self.client.peer, "1", A))
        await self.engine.wait_idle()

    async def read(self) -> None:
        """Have all reads answered, also those that follow from that."""
        self.journal.hold_reads = False
        self.journal.release_reads()
        await self.engine.wait_idle()


async def test_a_purge_during_a_read_ends_no_broker() -> None:
    stage = Stage()
    await stage.publish(b"1", b"2", b"3")
    await stage.consume()
    stage.submit(c.Purge(stage.client.peer, A))
    await stage.engine.wait_idle()
    await stage.read()
    assert stage.engine.ended is None
    await stage.publish(b"4")
    assert stage.client.bodies == [b"1", b"4"]


async def test_of_messages_one_of_which_was_moved_the_others_come_in_order() -> None:
    stage = Stage()
    await stage.publish(b"1", b"2", b"3", b"4")
    first = stage.engine.broker.turn.next_position - 4
    await stage.consume()
    record = stage.journal.storage.contents[first + 2]
    stage.submit(c.Transfer(stage.client.peer, A, [c.Chosen(first + 2, record)], B))
    await stage.engine.wait_idle()
    await stage.read()
    assert stage.engine.ended is None
    assert stage.client.bodies == [b"1", b"2", b"4"]
    assert stage.engine.broker.destinations.queues[B].depth == 1


async def test_a_scheduled_message_that_is_cancelled_when_it_is_due_ends_no_broker() -> None:
    stage = Stage()
    await stage.publish(b"1", b"2", delay_ms=1_000)
    stage.now_us += 2_000_000
    await stage.consume()
    (positions,) = [list(one.loading) for one in stage.engine.broker.scheduler.schedules.values()]
    assert len(positions) == 2, "both are being read"
    stage.submit(c.Purge(stage.client.peer, A, ready=False))
    await stage.engine.wait_idle()
    await stage.read()
    assert stage.engine.ended is None
    await stage.publish(b"3")
    await until(lambda: stage.client.bodies == [b"3"])


async def test_a_dead_letter_whose_queue_was_deleted_is_given_up() -> None:
    stage = Stage()
    await stage.publish(b"1")
    stage.engine._load(Fetch(A, 4, [77], DEAD))
    stage.engine.broker.deliveries._dying[77] = (5, None)  # type: ignore[assignment]
    await stage.read()
    assert stage.engine.ended is None
    assert not stage.engine.broker.deliveries._dying


async def test_a_message_that_is_wanted_and_not_stored_ends_the_broker_with_its_position() -> None:
    stage = Stage()
    await stage.publish(b"1", b"2", b"3")
    await stage.consume()
    lost = stage.engine.broker.turn.next_position - 1
    positions = [position for position in stage.journal.storage.contents if position <= lost]
    del stage.journal.storage.contents[positions[-1]]
    await stage.read()
    await asyncio.sleep(0)
    ended = stage.engine.ended
    assert isinstance(ended, NoSuchPosition)
    assert ended.position == positions[-1]
