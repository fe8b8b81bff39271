"""The configuration of the broker that served before, for one that takes over from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator


class RestoredConfiguration:
    """Reads it while the journal is taken over, and once more, as far as it was replaced, behind that.
    `refresh` reads the policy again, and blocks. `replicator` is None if a database has the configuration."""

    def __init__(self, refresh: Callable[[], None], replicator: ConfigurationReplicator | None) -> None:
        self._refresh = refresh
        self._replicator = replicator
        self._reading: asyncio.Task[None] | None = None
        #: how often the replicator had replaced the configuration when the policy was read last
        self._read_at: int | None = None

    def begin(self) -> None:
        """Begin to read; called in the loop when the lease is free. A database of all is read once, later."""
        if self._replicator is not None and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(self._replicator))

    async def finish(self) -> None:
        """Read what no other broker changes any more. Raises what `refresh` raises."""
        if self._replicator is None:
            await asyncio.to_thread(self._refresh)
            return
        if self._reading is not None:
            await asyncio.wait({self._reading})
            self._reading.exception()  # it is raised below, if it lasts
        await self._read(self._replicator)

    async def _read(self, replicator: ConfigurationReplicator) -> None:
        await replicator.restore()
        replaced = replicator.replaced
        if replaced != self._read_at:
            await asyncio.to_thread(self._refresh)
            self._read_at = replaced
