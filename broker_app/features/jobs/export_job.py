"""Export jobs: messages are written as lines of JSON to a file, which is downloaded when the job is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BufferedWriter

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.core.durability.record_reader import Reader
from broker_app.core.inspection import views
from broker_app.core.message import Message
from broker_app.core.storage.transfers import DONE, GONE
from broker_app.core.turn import UNRECORDED
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.job import STOPPED
from broker_app.features.jobs.worker import BATCH_BYTES, JobRunner
from broker_app.features.masks.user_masks import UserMasks

MAX_EXPORT_BYTES = 1024 * 1024 * 1024


class ExportJob(JobRunner):
    """Each batch has one or two results with the size of the file after it, so that a torn batch is written
    again."""

    async def _run_batches(self) -> None:
        job, store = self.job, self.context.store
        positions = store.positions(job.id)
        exported = max((line.get("bytes", 0) for line in store.results(job.id)), default=0)
        file = store.open_export(job.id, exported)
        try:
            while job.processed < len(positions) and self._goes_on():
                following = positions[job.processed : job.processed + self._at_once()]
                async with self.context.read.turn(following) as batch:
                    found, read = await self.context.engine_requests.inspect(partial(self._messages, batch))
                    count = len(found)
                    exported += await in_thread_if_large(_size_of(found), partial(self._write, file, found))
                done = {"status": DONE, "count": count, "bytes": exported}
                gone = {"status": GONE, "count": read - count}
                self._note([done] + [gone] * bool(gone["count"]))
                if exported > MAX_EXPORT_BYTES:
                    self._end(STOPPED, f"the export has reached {MAX_EXPORT_BYTES} bytes")
                await self._pace(read)
        finally:  # closing may write what is new to the disk
            await in_thread_if_large(exported, file.close)

    def _messages(self, positions: Sequence[int]) -> tuple[list[tuple[Message, bytes]], int]:
        """Messages that still exist with their ids, and the number of positions that were read."""
        context, source = self.context, self.job.source
        reader = Reader(source)
        masks = UserMasks(self.job.masks)
        of = context.broker.turn.ids.of
        queue = context.broker.destinations.queues.get(source)
        in_memory: dict[int, Message] = {}
        if self.job.boot == context.boot and any(position >= UNRECORDED for position in positions):
            here = views.in_memory(queue) if queue is not None else ()
            in_memory = {message.position: message for message in here if not message.recorded}
        found: list[tuple[Message, bytes]] = []
        size = read = 0
        for position in positions:
            if size >= BATCH_BYTES:
                break
            read += 1
            record = message_reader.record_of(context.read, position)
            message = in_memory.get(position) if record is None else reader.message(record, position)
            if message is not None:
                found.append((masks.shown(self.job.topic or source, message), of(message)))
                size += len(message.body)
        return found, read

    def _write(self, file: BufferedWriter, found: list[tuple[Message, bytes]]) -> int:
        """Write a line for each message, which is not in memory any more then; returns their bytes."""
        found.reverse()
        written = 0
        while found:
            for piece in self.context.lines.write(*found.pop()):
                written += file.write(piece)
        file.flush()
        return written


def _size_of(found: list[tuple[Message, bytes]]) -> int:
    return sum(len(message.body) for message, _ in found)
