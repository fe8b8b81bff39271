"""Housekeeping: once a second, samples statistics, checks the journal, and calls its listeners."""

from __future__ import annotations

import asyncio
import logging
import time

from broker_app.base.internal_errors import EventListeners, internal_errors
from broker_app.config import Config
from broker_app.engine import Engine
from broker_app.features.jobs.job_manager import JobManager
from broker_app.journal.port import Journal
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.telemetry import Statistics

log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work of a node."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        journal: Journal,
        statistics: Statistics,
        registry: SessionRegistry,
        jobs: JobManager,
    ) -> None:
        self._config = config
        self._engine = engine
        self._journal = journal
        self._statistics = statistics
        self._registry = registry
        self._jobs = jobs
        #: the failure of the journal's background work that was logged last
        self._logged: Exception | None = None
        #: called once a second, after the statistics are sampled
        self.each_second: EventListeners[[]] = EventListeners("what happens each second")
        self.each_second.add(self._check_journal)

    async def run(self) -> None:
        """Sample, then call the listeners; once a second."""
        while True:
            try:
                await self._sample()
            except Exception as error:  # alerts continue with the last known figures
                internal_errors.note("the statistics", error)
            self.each_second()
            # A tenth into the next second: timers may be early, and each second is to have one sample.
            await asyncio.sleep(1.5 - (time.time() + 0.4) % 1.0)

    async def _sample(self) -> None:
        journal = self._journal.statistics()
        clients, on_disk = self._registry.of_programs, journal["bytes_on_disk"]
        for _ in self._statistics.passing(
            time.time(), connections=clients, journal_bytes=on_disk, job_bytes=self._jobs.bytes_kept
        ):
            await asyncio.sleep(0)

    def _check_journal(self) -> None:
        """Update how much may still be stored, and log a failure of the journal's background work once."""
        if self._journal.background_error is not self._logged:
            self._logged = self._journal.background_error
            log.warning("the journal continues, but its background work failed: %s", self._logged)
        if self._config.max_store_bytes:
            stored = self._journal.statistics()["bytes_stored"]
            self._engine.store_left = self._config.max_store_bytes - stored
