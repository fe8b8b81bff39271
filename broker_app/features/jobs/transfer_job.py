"""Jobs that move, copy, delete or retry messages, or undo a move: in batches, one source at a time."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from broker_app.base.large_record import bytes_of
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.durability.record_reader import Reader
from broker_app.core.message import Message
from broker_app.core.storage import dead_letter_headers, transfers
from broker_app.core.storage.transfers import FULL, GONE, REFUSED, TransferResult
from broker_app.core.turn import UNRECORDED
from broker_app.features.jobs import message_reader, plan
from broker_app.features.jobs.worker import BATCH_BYTES, NO_ROOM, JobRunner, UncertainMessage


class JobItem(NamedTuple):
    """One message of a job: its position, and the header lines to restore."""

    source: str
    position: int
    lines: bytes = b""


@dataclass(slots=True)
class BatchItem:
    """One message of a batch: its number in the job, its record, its id, its target, the header lines that
    are removed there, and the result, if it is known."""

    number: int
    item: JobItem
    record: bytes | None = None
    id: str = ""
    target: str = ""
    lost: str = ""
    known: TransferResult | None = None


class TransferJob(JobRunner):
    """Moves, copies or deletes the chosen messages."""

    def _uncertain(self) -> Sequence[UncertainMessage]:
        intended = (UncertainMessage(*row) for row in self.context.store.intent(self.job.id))
        return [
            uncertain for uncertain in intended if uncertain.number >= self.job.processed and uncertain.target
        ]

    async def _run_batches(self) -> None:
        job = self.job
        items = self._items()
        while job.processed < len(items) and self._goes_on():
            following = items[job.processed : job.processed + self._at_once()]
            async with self.context.read.turn([item.position for item in following]) as positions:
                chosen = following[: len(positions)]
                batch = await self.context.read.repeat(partial(self._prepare, chosen, job.processed))
                intent = [(entry.number, entry.id, entry.target, entry.lost) for entry in batch]
                await asyncio.to_thread(self.context.store.intend, job.id, intent)
                full = await self._ask(batch)
                for entry in batch:  # what it refers to may be large
                    entry.known = None
            if full and not await self._full(full):
                self._refuse(batch[job.processed - batch[0].number], full)
            await self._pace(len(batch))

    def _items(self) -> Sequence[JobItem]:
        job, store = self.job, self.context.store
        if job.op != plan.UNDO:
            return _Positions(job.source, store.positions(job.id))
        return [
            JobItem(line["to"], line["new_position"], line.get("lines", "").encode())
            for line in store.results(job.undo_of)
            if line["status"] == transfers.DONE
        ]

    def _prepare(self, items: Sequence[JobItem], start: int) -> list[BatchItem]:
        """The next batch: items of one source, with their records. The first has the number `start`."""
        batch: list[BatchItem] = []
        size = 0
        job, ids = self.job, self.context.broker.turn.ids
        source = items[0].source
        reader = Reader(source)
        for number, item in enumerate(items, start):
            if item.source != source or size >= BATCH_BYTES:
                break
            entry = BatchItem(number, item)
            batch.append(entry)
            if item.position >= UNRECORDED and job.boot != self.context.boot:
                entry.known = TransferResult(item.position, GONE)  # it was in the memory of a former process
            entry.record = message_reader.record_of(self.context.read, item.position)
            if entry.record is not None:
                message = reader.head(entry.record, item.position)
                entry.id = ids.of(message).decode()
                entry.target = self._target_of(message)
                if job.op == plan.RETRY:
                    entry.lost = dead_letter_headers.divide(message.envelope.block)[1].decode()
                size += bytes_of((entry.record,))
        return batch

    def _target_of(self, message: Message) -> str:
        target = self.job.target
        return dead_letter_headers.origin_of(message.envelope.block) if target == c.ORIGIN else target

    async def _ask(self, batch: list[BatchItem]) -> str:
        """Submit a batch to the core, and write the results. Returns why the next message found no room, or
        nothing."""
        engine_requests = self.context.engine_requests
        open_ones = [entry for entry in batch if entry.known is None and entry.number not in self._found]

        def note(answer: list[TransferResult]) -> str:
            """The reason why the last message found no room, or empty; it and later ones are tried again."""
            tried = batch
            if answer and answer[-1].status == FULL:
                tried = batch[: batch.index(open_ones[len(answer) - 1])]
            for entry, moved in zip(open_ones, answer, strict=False):
                entry.known = moved._replace(position=entry.item.position)
            self._note([self._line(entry) for entry in tried])
            return answer[-1].detail if tried is not batch else ""

        await engine_requests.backpressure.wait()
        asking = engine_requests.ask(self._command(batch[0].item.source, open_ones), note)
        for entry in batch:  # the command has it, and may be large
            entry.record = None
        try:
            full = await asking
        except Refused as refusal:
            if refusal.code in NO_ROOM:
                full = refusal.detail
            elif refusal.code == "not-found":  # the queue was deleted, because all of its messages were gone
                full = note([TransferResult(entry.item.position, GONE) for entry in open_ones])
            else:
                raise
        return full

    def _refuse(self, entry: BatchItem, why: str) -> None:
        """Write that a message found no room for too long."""
        entry.known = TransferResult(entry.item.position, REFUSED, detail=why)
        self._note([self._line(entry)])

    def _command(self, source: str, batch: Sequence[BatchItem]) -> c.Transfer | c.Insert:
        """The command for the core."""
        job = self.job
        return c.Transfer(
            self.context.engine_requests.peer,
            source,
            [c.Chosen(entry.item.position, entry.record, entry.item.lines) for entry in batch],
            job.target,
            keep=job.op == plan.COPY,
            revive=job.op == plan.RETRY,
        )

    def _line(self, entry: BatchItem) -> dict[str, Any]:
        """One result."""
        found = self._found.get(entry.number)
        if found is not None:
            line = {"i": entry.number, "id": found.message.id, "position": entry.item.position}
            line |= {"status": transfers.DONE, "to": found.message.target, "new_position": found.position}
            return line | ({"lines": found.message.lines} if found.message.lines else {})
        moved = entry.known
        assert moved is not None
        message = moved.message
        message_id = self.context.broker.turn.ids.of(message).decode() if message is not None else entry.id
        line = {"i": entry.number, "id": message_id or None, "position": moved.position}
        line["status"] = moved.status
        if message is not None:
            line |= {"to": moved.target, "new_position": message.position}
        if moved.lines:
            line["lines"] = moved.lines.decode()
        if moved.detail:
            line["detail"] = moved.detail
        return line


class _Positions(Sequence[JobItem]):
    """The positions of one source as items."""

    def __init__(self, source: str, positions: array[int]) -> None:
        self._source = source
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [JobItem(self._source, position) for position in self._positions[number]]
        return JobItem(self._source, self._positions[number])
