"""The file of the change record while what was written is merged in turns, and what loses to what arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.record.change_record import (
    DESTINATION,
    SUBSCRIPTION,
    Change,
    ChangeRecord,
    Entry,
    Version,
)
from broker_app.features.cluster.record.keeper import Keeper
from broker_app.features.cluster.record.propagation import Propagation
from broker_app.features.cluster.record.record_file import RecordFile
from broker_app.features.cluster.record.record_writer import RecordWriter
from broker_app.features.cluster.record.subscription_changes import SubscriptionChanges
from tests.support.awaiting import until
from tests.support.small_broker import small_broker

#: more than are merged in a turn, and more than a file may have beyond what it needs
MANY = 5_000


class Record:
    """A record with its file, of a broker that is alone."""

    def __init__(self, data: Path) -> None:
        self.file = RecordFile(data / "record")
        record = ChangeRecord(self.file.read().entries)
        self.writer = RecordWriter(self.file, record, lambda: 0, lambda: self.propagation.is_merging)
        keeper = Keeper("b1", record, "", is_here=False)
        later = asyncio.get_running_loop().call_soon
        self.propagation = Propagation("b1", record, keeper, lambda *_: None, self.writer.save, later)
        self.answers: list[Refused | None] = []

    def change(self, names: range, value: dict[str, Any]) -> None:
        changes = [Change(DESTINATION, f"/queue/{number}", value) for number in names]
        self.propagation.change(changes, self.answers.append)

    async def settle(self) -> None:
        await self.writer.flush()
        await until(lambda: not self.propagation.is_merging)


async def test_the_file_has_all_of_a_change_of_which_a_part_is_merged_only(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.change(range(MANY), {"max_messages": 1})
    await record.settle()
    assert record.answers == [None]
    assert len(record.file.read().entries) == MANY


async def test_it_is_compacted_when_all_is_merged(tmp_path: Path) -> None:
    record = Record(tmp_path)
    for value in range(4):
        record.change(range(MANY), {"max_messages": value})
        await record.settle()
    assert record.file.lines > 2 * MANY
    record.change(range(1), {"max_messages": 9})
    await record.writer.flush()  # the last change has one entry, which is merged at once
    await record.settle()
    record.change(range(1), {"max_messages": 8})
    await record.settle()
    found = record.file.read().entries
    assert record.file.lines < 2 * MANY
    assert len({one.name for one in found}) == MANY


async def test_a_compaction_that_is_asked_for_waits_for_what_is_merged(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.change(range(MANY), {"max_messages": 1})
    await record.writer.flush()
    assert record.propagation.is_merging
    await record.writer.compact()
    assert len(record.file.read().entries) == MANY


async def test_an_error_of_a_listener_ends_one_change_and_none_behind_it(tmp_path: Path) -> None:
    record = Record(tmp_path)
    broken = [RuntimeError("it is broken")]

    def listener(entries: list[Entry]) -> None:
        if broken:
            raise broken.pop()

    record.propagation.on_entries.append(listener)
    record.change(range(1), {"max_messages": 1})
    with pytest.raises(RuntimeError):
        await record.writer.flush()
    record.change(range(1, 2), {"max_messages": 1})
    await record.settle()
    assert record.answers == [None]
    assert record.propagation.record.value(DESTINATION, "/queue/1") == {"max_messages": 1}


@asynccontextmanager
async def followed(record: Record) -> AsyncIterator[tuple[SubscriptionChanges, Any]]:
    """The durable subscriptions of a broker with this record."""
    async with small_broker() as broker:
        client = EngineClient(broker.engine, "cluster")
        changes = SubscriptionChanges(record.propagation, client, lambda *_, **__: None)
        record.propagation.on_entries.append(changes.entries_arrived)
        running = asyncio.create_task(changes.run())
        yield changes, broker.engine.broker.destinations.named
        running.cancel()


async def test_a_subscription_whose_change_here_has_lost_is_as_the_record_has_it(tmp_path: Path) -> None:
    def terms(topic: str) -> dict[str, Any]:
        return {"filter": topic, "selector": "", "shared": False, "owner": "anna"}

    record = Record(tmp_path)
    async with followed(record) as (changes, named):
        record.propagation.note([Change(SUBSCRIPTION, "prices", terms("/topic/here"))])
        newer = Entry(SUBSCRIPTION, "prices", Version(99, "b2"), terms("/topic/there"), "b2")
        changes.entries_arrived(record.propagation.record.merge([newer]))
        for _ in range(3):  # it is looked at, while the change that was made here is being saved
            await asyncio.sleep(0)
        await record.settle()
        await until(lambda: [one.terms.filter for one in named.values()] == ["/topic/there"])
