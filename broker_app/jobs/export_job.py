"""Exporting: messages as lines of JSON in a file, which is fetched when the job is done."""

from __future__ import annotations

from array import array
from functools import partial

from broker_app.core import views
from broker_app.core.message import Message
from broker_app.core.records import Reader
from broker_app.core.transfers import DONE, GONE
from broker_app.core.turn import UNRECORDED
from broker_app.jobs import message_reader
from broker_app.jobs.job import STOPPED
from broker_app.jobs.worker import BATCH_BYTES, Work

MAX_EXPORT_BYTES = 1024 * 1024 * 1024


class Exporting(Work):
    """Results are a line or two a batch; they say how long the file was after it, so that a torn batch is
    written again."""

    async def _deed(self) -> None:
        job, store = self.job, self.tools.store
        positions = store.positions(job.id)
        exported = max((line.get("bytes", 0) for line in store.results(job.id)), default=0)
        with store.open_export(job.id, exported) as file:
            while job.processed < len(positions) and self._goes_on():
                batch = positions[job.processed : job.processed + self._at_once()]
                lines, read = await self.tools.errands.look(partial(self._lines, batch))
                file.write(b"".join(lines))
                exported += sum(map(len, lines))
                done = {"status": DONE, "count": len(lines), "bytes": exported}
                gone = {"status": GONE, "count": read - len(lines)}
                self._note([done] + [gone] * bool(gone["count"]))
                if exported > MAX_EXPORT_BYTES:
                    self._end(STOPPED, f"the export has reached {MAX_EXPORT_BYTES} bytes")
                await self._pace(read)

    def _lines(self, positions: array[int]) -> tuple[list[bytes], int]:
        """Lines of the messages that are still there, and how many positions were read for them."""
        tools, source = self.tools, self.job.source
        reader = Reader(source)
        of = tools.broker.turn.ids.of
        queue = tools.broker.destinations.queues.get(source)
        in_memory: dict[int, Message] = {}
        if self.job.boot == tools.boot and any(position >= UNRECORDED for position in positions):
            here = views.in_memory(queue) if queue is not None else ()
            in_memory = {message.position: message for message in here if not message.recorded}
        lines: list[bytes] = []
        size = read = 0
        for position in positions:
            if size >= BATCH_BYTES:
                break
            read += 1
            record = message_reader.record_of(tools.read, position)
            message = in_memory.get(position) if record is None else reader.message(record, position)
            if message is not None:
                lines.append(tools.lines.write(message, of(message)) + b"\n")
                size += len(lines[-1])
        return lines, read
