"""The change record of a broker: read from its file, kept equal to those of the others, carried out here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.record.change_record import KEEPER, Change, ChangeRecord
from broker_app.features.cluster.record.destination_applier import Configuration, DestinationApplier
from broker_app.features.cluster.record.destination_changes import DestinationChanges, Rows
from broker_app.features.cluster.record.keeper import Keeper, KeeperResult, unchanged
from broker_app.features.cluster.record.propagation import Done, Propagation
from broker_app.features.cluster.record.record_file import (
    NAME,
    RecordFile,
    UnreadableRecord,
    backup,
    contents,
)
from broker_app.features.cluster.record.record_messages import RecordMessage
from broker_app.features.cluster.record.record_writer import RecordWriter
from broker_app.features.cluster.record.subscription_changes import SubscriptionChanges

#: until a keeper that does not answer has not made a change
_ANSWERS_S: Final = 5.0
#: seconds between two comparisons with the others
_COMPARE_S: Final = 10.0
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(RecordMessage)


class KeeperSettings(NamedTuple):
    """The address of the keeper, empty without one; whether it is this broker; and whether an administrator
    may choose another one."""

    address: str = ""
    is_here: bool = False
    may_change: bool = False


class ReplicatedRecord:
    """`send` sends a message to a connected broker. `report` is called with an event, a name, and
    the facts."""

    def __init__(
        self,
        name: str,
        data: Path,
        keeper: KeeperSettings,
        engine: Engine,
        configuration: Configuration,
        send: Callable[[str, bytes], None],
        report: Callable[..., object],
    ) -> None:
        self._name = name
        self._engine = engine
        self._configuration = configuration
        self._file = RecordFile(data / NAME)
        found = self._file.read()
        self._since = found.configuration
        record = self.record = ChangeRecord(found.entries)
        self.writer = RecordWriter(self._file, record, self._noted_version, self._is_merging)
        self.propagation = Propagation(
            name,
            record,
            Keeper(*(name, record, keeper.address), is_here=keeper.is_here, may_change=keeper.may_change),
            lambda broker, message: send(broker, _encode(message)),
            self.writer.save,
            asyncio.get_running_loop().call_soon,
        )
        self._client = EngineClient(engine, "cluster")
        self._applier = DestinationApplier(
            configuration, self._client, lambda applied: self._destinations.applied(applied), report
        )
        self._destinations = DestinationChanges(record, self.propagation.note, self._applier.apply)
        self._subscriptions = SubscriptionChanges(self.propagation, self._client, report)
        self._tasks = TaskSupervisor()

    def _noted_version(self) -> int:
        """The version of the configuration up to which a restart has to look for no change."""
        return 0 if self.propagation.has_unentered else self._destinations.version

    def _is_merging(self) -> bool:
        return self.propagation.is_merging

    async def start(self, version: int, rows: Rows) -> None:
        """Compare the record with the configuration and the subscriptions of this broker, and follow both.
        Raises Refused."""
        removed = (
            await asyncio.to_thread(self._configuration.removed_since, self._since) if self._since else []
        )
        durables = self._engine.broker.durables
        self.propagation.on_entries += [
            self._destinations.entries_arrived,
            self._subscriptions.entries_arrived,
        ]
        self.propagation.on_availability.append(self._refuse_clients)
        self._refuse_clients()
        durables.watched = True
        self._engine.listeners.add(self._subscriptions.on_events)
        self._destinations.begin(version, rows, self._since, removed)
        self._subscriptions.begin()
        self._tasks.start("file of the change record", self.writer.run)
        self._tasks.start("destinations of other brokers", self._applier.run)
        self._tasks.start("durable subscriptions of other brokers", self._subscriptions.run)
        self._tasks.start("comparison of change records", self._compare)

    async def stop(self) -> None:
        """Follow nothing more, and write what is left."""
        await self._tasks.stop()
        durables = self._engine.broker.durables
        durables.watched, durables.refusal = False, None
        await self.writer.flush()

    def _refuse_clients(self) -> None:
        self._engine.broker.durables.refusal = self.propagation.refusal

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_S)
            self.propagation.compare()

    def policy_changed(self, version: int, rows: Rows) -> None:
        """Enter what has changed in the configuration."""
        self._destinations.policy_changed(version, rows)

    def receive(self, broker: str, message: bytes) -> None:
        """Take a message of a connected broker. Raises Refused for one that is none."""
        try:
            decoded = _decoder.decode(message)
        except msgspec.DecodeError as error:
            raise Refused(
                "protocol-error", f"a message about the change record cannot be read: {error}"
            ) from error
        self.propagation.receive(broker, decoded)

    # ------------------------------------------------------------------ administrators

    async def propose(self, changes: Iterable[Change]) -> None:
        """Have the keeper enter changes that are about to be made here, if there is one elsewhere; else they
        are entered once they are made. Raises Refused."""
        changes = list(changes)
        refusal = self.propagation.refusal or self.record.refusal(changes)
        if refusal is not None:
            raise refusal
        if self.propagation.keeper and not self.propagation.is_keeper:
            await self.enter(changes)

    async def enter(self, changes: Iterable[Change]) -> None:
        """Enter changes; they are carried out here, too. Raises Refused."""
        answer: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()

        def done(refusal: Refused | None) -> None:
            if not answer.done():
                answer.set_result(refusal)

        changed: Done = done
        self.propagation.change(changes, changed)
        waiting = asyncio.get_running_loop().call_later(_ANSWERS_S, self.propagation.forget_proposal, changed)
        try:
            refusal = await answer
        finally:
            waiting.cancel()
        if refusal is not None:
            raise refusal

    async def change_keeper(self, broker: str) -> None:
        """Make another broker the keeper. Raises Refused with the result by which it was not."""
        result: asyncio.Future[KeeperResult] = asyncio.get_running_loop().create_future()

        def done(found: KeeperResult) -> None:
            if not result.done():
                result.set_result(found)

        self.propagation.change_keeper(broker, done)
        try:
            found = await asyncio.wait_for(result, _ANSWERS_S)
        except TimeoutError:
            found = KeeperResult.UNKNOWN
        if found != KeeperResult.OK:
            raise unchanged(found)

    async def backup(self) -> bytes:
        """The record as a file."""
        return await asyncio.to_thread(backup, self.record.entries())

    async def restore(self, lines: list[bytes]) -> int:
        """Enter what a backup, by its lines, has and the record has not; return the number of changes. Names
        that the backup does not have are left alone. Raises Refused."""
        try:
            saved = ChangeRecord((await asyncio.to_thread(contents, "the backup", lines)).entries).entries()
        except UnreadableRecord as error:
            raise Refused("invalid", str(error)) from error
        changes = [
            Change(entry.kind, entry.name, entry.value)
            for entry in saved
            if entry.kind != KEEPER and entry.value != self.record.value(entry.kind, entry.name)
        ]
        await self.enter(changes)
        return len(changes)
