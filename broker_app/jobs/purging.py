"""Purging: everything that waited in a queue when it was planned, however much it is; no body is read."""

from __future__ import annotations

from itertools import islice

from broker_app.core import commands as c
from broker_app.core.transfers import DONE, Moved
from broker_app.core.turn import UNRECORDED
from broker_app.jobs.work import Work

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

            def note(answer: list[Moved]) -> None:
                done = sum(moved.status == DONE for moved in answer)
                self._note([{"status": DONE, "count": done}])

            await errands.relief.wait()
            await errands.ask(command, note)
            await self._pace(len(positions))

    def _next_to_purge(self) -> list[int]:
        """The first positions that waited when the purge was planned and still do."""
        job = self.job
        queue = self.tools.broker.destinations.queues.get(job.source)
        found: list[int] = []
        most = self._at_once(PURGE_BATCH)
        for lane in queue.lanes if queue is not None else ():
            here = (m.position for m in lane.in_memory() if not m.recorded and m.time_ms <= job.created_ms)
            recorded = (m.position for m in lane.in_memory() if m.recorded)
            for positions in (here, recorded, lane.loading, lane.paged.after(0)):
                old = (p for p in positions if p < job.next_position or p >= UNRECORDED)
                found += islice(old, most - len(found))
        return found
