"""Purge jobs: delete all messages that a queue had when the job was planned; bodies are not read."""

from __future__ import annotations

from itertools import chain, islice

from broker_app.core import commands as c
from broker_app.core.inspection import views
from broker_app.core.storage.transfers import DONE, TransferResult
from broker_app.core.turn import UNRECORDED
from broker_app.features.jobs.worker import JobRunner

PURGE_BATCH = 4_096


class PurgeJob(JobRunner):
    """Each batch has one result."""

    async def _run_batches(self) -> None:
        engine_requests = self.context.engine_requests
        while self._goes_on():
            positions = await engine_requests.inspect(self._next_to_purge)
            if not positions:
                return
            command = c.Transfer(
                engine_requests.peer, self.job.source, [c.Chosen(position) for position in positions]
            )

            def note(answer: list[TransferResult]) -> None:
                done = sum(moved.status == DONE for moved in answer)
                self._note([{"status": DONE, "count": done}])

            await engine_requests.backpressure.wait()
            await engine_requests.ask(command, note)
            await self._pace(len(positions))

    def _next_to_purge(self) -> list[int]:
        """The first positions that waited when the purge was planned and still do."""
        job = self.job
        queue = self.context.broker.destinations.queues.get(job.source)
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
