"""Replay jobs: messages of a topic's history are put into a queue."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.core import commands as c
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import DeliveryOptions, Envelope, Message, group_of
from broker_app.core.storage.transfers import GONE, TransferResult
from broker_app.features.jobs.transfer_job import BatchItem, JobItem, TransferJob


class ReplayJob(TransferJob):
    """The messages keep their ids; those that the history has dropped since are gone."""

    def _prepare(self, items: Sequence[JobItem], start: int) -> list[BatchItem]:
        batch = super()._prepare(items, start)
        for item in batch:
            if item.record is None:
                item.known = TransferResult(item.item.position, GONE)
        return batch

    def _command(self, source: str, batch: Sequence[BatchItem]) -> c.Insert:
        reader = Reader(source)
        entries = []
        for item in batch:
            assert item.record is not None, "messages without a record have a result"
            message = reader.message(item.record, item.item.position)
            entries.append((item.id.encode(), self._envelope(message), message.body))
        return c.Insert(self.context.engine_requests.peer, self.job.target, entries)

    def _envelope(self, message: Message) -> Envelope:
        group = group_of(message)
        return Envelope(
            self.job.target,
            message.envelope.block,
            priority=message.envelope.priority,
            expires_ms=message.expires_ms,
            options=DeliveryOptions(group=group) if group else None,
        )
