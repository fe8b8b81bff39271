"""Purging: everything that waited in a queue when it was planned, however much it is; no body is read."""

from __future__ import annotations

from itertools import chain, islice

from broker_app.core import commands as c
from broker_app.core import views
from broker_app.core.transfers import DONE, TransferResult
from broker_app.core.turn import UNRECORDED
from broker_app.jobs.worker import Work

PURGE_BATCH = 4_096


class Purging(Work):
    """Results are one line a batch."""

    async def _deed(self) -> None:
        errands = self.tools.errands
        while self._goes_on():
            positions = await errands.look(self._next_to_purge)
            if not positions:
                return
            command = c.Transfer(
                errands.peer, self.job.source, [c.Chosen(position) for position in positions]
            )

            def note(answer: list[TransferResult]) -> None:
                done = sum(moved.status == DONE for moved in answer)
                self._note([{"status": DONE, "count": done}])

            await errands.backpressure.wait()
            await errands.ask(command, note)
            await self._pace(len(positions))

    def _next_to_purge(self) -> list[int]:
        """The first positions that waited when the purge was planned and still do."""
        job = self.job
        queue = self.tools.broker.destinations.queues.get(job.source)
        most = self._at_once(PURGE_BATCH)
        if queue is None:
            return []
        transient = (
            message.position
            for message in views.in_memory(queue)
            if not message.recorded and message.time_ms <= job.created_ms
        )
        recorded = (message.position for message in views.in_memory(queue) if message.recorded)
        waiting = chain(transient, recorded, views.outside(queue))
        return list(islice((p for p in waiting if p < job.next_position or p >= UNRECORDED), most))
