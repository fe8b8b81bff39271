"""The change record of the cluster over HTTP, for administrators; and the keeper, which can be changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from broker_app.base.audit_actions import CHANGE_RECORD_COMPACTED, CHANGE_RECORD_RESTORED, KEEPER_CHANGED
from broker_app.features.cluster.record.change_record import MOST, MOST_DELETED, MOST_VALUE_BYTES, Entry
from broker_app.features.cluster.record.keeper import KeeperResult
from broker_app.features.cluster.record.replicated_record import ReplicatedRecord
from broker_app.features.cluster.status import no_cluster
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import too_large
from broker_app.net.http.replies import NDJSON, Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers

#: None where the broker is in no cluster
ReadRecord = Callable[[], ReplicatedRecord | None]

_FACTS: Final[Mapping[str, Callable[[Entry], Any]]] = {
    "id": lambda entry: f"{entry.kind} {entry.name}",
    "kind": lambda entry: entry.kind,
    "name": lambda entry: entry.name,
    "version": lambda entry: entry.version.number,
    "broker": lambda entry: entry.version.broker,
    "origin": lambda entry: entry.origin,
    "deleted": lambda entry: entry.value is None,
    "value": lambda entry: entry.value,
}
#: of the file of a backup: a value with its names
_LINE_BYTES: Final = 2 * MOST_VALUE_BYTES


class KeeperOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order: the name of the new keeper."""

    broker: str


class ClusterRecordEndpoints:
    """Endpoints `cluster/record…` and `cluster/keeper`."""

    def __init__(self, read: ReadRecord, limits: RestLimits) -> None:
        self._read = read
        self._entries = Listing[Entry](
            _FACTS,
            {},
            limits.max_page,
            matches={"kind": lambda entry, kind: entry.kind == kind},
            on_request=("id",),
            sortable=("name", "kind", "version", "broker", "origin"),
            last="id",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_record": self.all,
            "backup_record": self.backup,
            "restore_record": self.restore,
            "compact_record": self.compact,
            "change_keeper": self.change_keeper,
        }

    async def all(self, request: Request) -> Reply:
        """GET cluster/record: its entries, by name"""
        query = request.query(self._entries.parameters)
        record = self._record(request)
        return json_reply((await self._entries.page_of_many(record.record.entries(), query))._asdict())

    async def backup(self, request: Request) -> Reply:
        """GET cluster/record/backup: all entries, in the format of the file"""
        request.query()
        record = self._record(request)
        return Reply(200, NDJSON, await record.backup())

    async def restore(self, request: Request) -> Reply:
        """POST cluster/record/restore: what a backup has is entered"""
        request.query()
        record = self._record(request)
        lines: list[bytes] = []
        async for found in request.lines(_LINE_BYTES):
            lines += found
            if len(lines) > MOST + MOST_DELETED:
                raise too_large("the lines of a backup", MOST + MOST_DELETED, len(lines))
        changes = await record.restore(lines)
        request.audit(CHANGE_RECORD_RESTORED, "record", changes=changes)
        return json_reply({"changes": changes})

    async def compact(self, request: Request) -> Reply:
        """POST cluster/record/compact: the file is rewritten"""
        request.query()
        record = self._record(request)
        await record.writer.compact()
        request.audit(CHANGE_RECORD_COMPACTED, "record")
        return json_reply({"entries": len(record.record), "lines": record.writer.lines})

    async def change_keeper(self, request: Request) -> Reply:
        """PUT cluster/keeper: another broker gives the versions (imqcmd changemaster)"""
        request.query()
        request.require_administrator("the change record is")
        order = await request.json(KeeperOrder)
        record = self._record(request)
        await record.change_keeper(order.broker)
        request.audit(KEEPER_CHANGED, "keeper", broker=order.broker)
        return json_reply({"result": KeeperResult.OK.value, "keeper": record.propagation.keeper})

    def _record(self, request: Request) -> ReplicatedRecord:
        request.require_administrator("the change record is")
        record = self._read()
        if record is None:
            raise no_cluster()
        return record
