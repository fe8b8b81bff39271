"""Whole batches that are committed at once."""

from __future__ import annotations

from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.bulk.stage_store import StageStore
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.messages.bulk import BulkEndpoints
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.reflex.reflexes import Reflexes


class BulkFeature(Feature):
    """Keeps the parts of batches; `reflexes` decide about their messages. `shared` is True if a standby may
    take over the journal."""

    def __init__(self, parts: NodeParts, reflexes: Reflexes, *, shared: bool) -> None:
        self._limits = parts.rest.limits
        self._reflexes = reflexes
        stages = StageStore(parts.config.data / "bulk")
        self.commits = BatchCommits(parts.engine, stages, shared=shared)

    def endpoints(self) -> Handlers:
        """`/bulk`."""
        return BulkEndpoints(self.commits, self._limits, self._reflexes).handlers()

    async def start(self) -> None:
        """Complete batches that were decided."""
        await self.commits.start()

    async def finish(self) -> None:
        """Take no more batches."""
        await self.commits.stop()

    def engine_ended(self, error: BaseException) -> None:
        """Answer those who wait."""
        self.commits.engine_ended(error)
