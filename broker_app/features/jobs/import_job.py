"""Import jobs: uploaded lines of JSON are published to one queue, each exactly once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.base.turns import in_turns
from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.storage.transfers import DONE, FULL, REFUSED, TransferResult
from broker_app.features.jobs.worker import BATCH, BATCH_BYTES, NO_ROOM, JobRunner, UncertainMessage


class ImportJob(JobRunner):
    """Message ids are derived from job and line, so that a batch is recognized after a crash."""

    def _uncertain(self) -> Sequence[UncertainMessage]:
        start, target = self.job.processed, self.job.target
        return [
            UncertainMessage(number, self._id(number).decode(), target)
            for number in range(start, start + BATCH)
        ]

    async def _run_batches(self) -> None:
        job = self.job
        with self.context.store.open_import(job.id) as file:
            size = os.fstat(file.fileno()).st_size
            await in_thread_if_large(size, partial(_pass_over, file, job.processed))
            lines: deque[bytes] = deque()
            while job.processed < job.total and self._goes_on():
                await in_thread_if_large(size, partial(_read, file, lines, self._at_once()))
                before = job.processed
                full = await self._insert(list(lines))
                if full and not await self._full(full):
                    self._note([{"i": job.processed, "id": None, "status": REFUSED, "detail": full}])
                for _ in range(job.processed - before):
                    lines.popleft()
                await self._pace(job.processed - before)

    async def _insert(self, lines: list[bytes]) -> str:
        """Publish lines up to the first that finds no room; return the reason, or empty."""
        job, engine_requests, first = self.job, self.context.engine_requests, self.job.processed
        results: list[dict[str, Any]] = []
        entries: list[tuple[bytes, Envelope, bytes]] = []
        submitted: list[int] = []
        async for number, line in in_turns(enumerate(lines, first)):
            message_id = self._id(number)
            result: dict[str, Any] = {"i": number, "id": message_id.decode(), "status": DONE}
            results.append(result)
            if number in self._found:
                result["new_position"] = self._found[number].position
                continue
            try:
                read = partial(self.context.lines.read, job.target, line)
                entries.append((message_id, *await in_thread_if_large(len(line), read)))
                submitted.append(number - first)
            except Refused as refusal:
                result |= {"id": None, "status": REFUSED, "detail": refusal.detail}

        def note(answer: list[TransferResult]) -> str:
            for at, moved in zip(submitted, answer, strict=False):
                if moved.status == FULL:
                    self._note(results[:at])
                    return moved.detail
                results[at]["status"] = moved.status
                results[at] |= {"new_position": moved.position} if moved.message else {"detail": moved.detail}
            self._note(results)
            return ""

        await engine_requests.backpressure.wait()
        try:
            return await engine_requests.ask(c.Insert(engine_requests.peer, job.target, entries), note)
        except Refused as refusal:
            if refusal.code in NO_ROOM:
                return refusal.detail
            raise

    def _id(self, number: int) -> bytes:
        """The id of the message in a line: always the same, and outside the range of ids of positions."""
        job = self.job
        place = 1 << 46 | (job.number & 0x3FFFFF) << 24 | number
        return b"%b%012x" % (self.context.broker.turn.ids.prefix(job.created_ms), place)


def _pass_over(file: BinaryIO, count: int) -> None:
    """Pass over the lines that an earlier run has published."""
    for _ in range(count):
        file.readline()


def _read(file: BinaryIO, lines: deque[bytes], most: int) -> None:
    """Add the next lines up to so many, or `BATCH_BYTES`."""
    while len(lines) < most and sum(map(len, lines)) < BATCH_BYTES:
        line = file.readline()
        if not line:
            break
        lines.append(line)
