"""Importing: lines of JSON that were uploaded, published into one queue, each exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_app.core import commands as c
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope
from broker_app.core.moving import DONE, REFUSED, Moved
from broker_app.jobs.work import BATCH, BATCH_BYTES, Work


class Importing(Work):
    """The id of a message follows from job and line, so that a batch is known again after a crash."""

    def _in_question(self) -> Sequence[tuple[int, bytes, str]]:
        start = self.job.processed
        return [(number, self._id(number), self.job.target) for number in range(start, start + BATCH)]

    async def _deed(self) -> None:
        job, tools = self.job, self.tools
        most = self._at_once()
        with tools.store.open_import(job.id) as file:
            for _ in range(job.processed):
                file.readline()
            while job.processed < job.total and self._goes_on():
                lines: list[bytes] = []
                size = 0
                while len(lines) < most and size < BATCH_BYTES and (line := file.readline()):
                    lines.append(line)
                    size += len(line)
                await self._insert(lines)
                await self._pace(len(lines))

    async def _insert(self, lines: list[bytes]) -> None:
        job, errands, first = self.job, self.tools.errands, self.job.processed
        results: list[dict[str, Any]] = []
        entries: list[tuple[bytes, Envelope, bytes]] = []
        for number, line in enumerate(lines, first):
            message_id = self._id(number)
            result: dict[str, Any] = {"i": number, "id": message_id.decode(), "status": DONE}
            results.append(result)
            if number in self._found:
                result["new_position"] = self._found[number]
                continue
            try:
                entries.append((message_id, *self.tools.lines.read(job.target, line)))
            except Refused as refusal:
                result |= {"id": None, "status": REFUSED, "detail": refusal.detail}

        def note(answer: list[Moved]) -> None:
            missing = (result for result in results if result["id"] and "new_position" not in result)
            for result, moved in zip(missing, answer, strict=True):
                result["new_position"] = moved.position
            self._note(results)

        await errands.wait_relieved()
        await errands.ask(c.Insert(errands.peer, job.target, entries), note)

    def _id(self, number: int) -> bytes:
        """The id of the message in a line: always the same, and far from those that follow from positions."""
        job = self.job
        place = 1 << 46 | (job.number & 0x3FFFFF) << 24 | number
        return b"%b%012x" % (self.tools.broker.ids.prefix(job.created_ms), place)
