"""Operations on many messages."""

from __future__ import annotations

from collections import Counter

from broker_app.base.refused import Refused
from broker_app.features.jobs.job_manager import JobManager
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.system_rights import JobOwner
from broker_app.net.rest.features.jobs import JobEndpoints
from broker_app.net.rest.features.rights import destination_of_job
from broker_app.net.rest.messages.ndjson import MessageLines
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.telemetry.metrics.families import Collected


class JobFeature(Feature):
    """Continues jobs that were under way when the broker stopped."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        lines = MessageLines(parts.rest.limits)
        self.jobs = JobManager(parts.engine, parts.engine.records, parts.config.data / "jobs", lines)

    def owner(self, job_id: str) -> JobOwner | None:
        """The owner of a job, who may see its progress; None if there is none."""
        try:
            job = self.jobs.get(job_id)
        except Refused:
            return None
        destination = destination_of_job(job)
        return JobOwner(job.user, destination.address if destination is not None else "")

    def endpoints(self) -> Handlers:
        """`/jobs`."""
        rest = self._parts.rest
        return JobEndpoints(self.jobs, self._parts.engine.broker, rest.blocks, rest.limits).handlers()

    def metrics(self) -> Collected:
        """The jobs that run."""
        running = Counter(job.op for job in self.jobs.all() if job.open)
        yield "mom_jobs_running", {(op,): count for op, count in sorted(running.items())}

    async def start(self) -> None:
        """Continue."""
        await self.jobs.start()

    async def finish(self) -> None:
        """Interrupt jobs; they continue after the next start."""
        await self.jobs.stop()

    def engine_ended(self, error: BaseException) -> None:
        """End the jobs."""
        self.jobs.engine_ended(error)
