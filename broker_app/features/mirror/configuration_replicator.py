"""Replicates the configuration of the active broker to its mirrors."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

from broker_app.features.mirror.configuration_key import ConfigurationRefused
from broker_app.features.mirror.replicated_configuration import ReplicatedConfiguration
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.net.rest.node.mirror_status import READABLE

log = logging.getLogger(__name__)

_INTERVAL_S: Final = 1.0


class ConfigurationReplicator:
    """Does one thing at a time, in threads, and never fails: the next second tries again."""

    def __init__(self, configuration: ReplicatedConfiguration) -> None:
        self._configuration = configuration
        self._journal: SharedJournal | None = None
        self._lock = asyncio.Lock()
        #: why the last attempt failed; empty if it did not
        self.failure = ""
        if configuration.carried == READABLE:
            log.warning(
                "the configuration is readable in the store of the journal: each reader of that store has "
                "the secret key, and so is an administrator of this broker. Set MOM_SECRET_KEY_FILE to a "
                "file with the same content at all brokers of this name (docs/mirrors.md)"
            )

    @property
    def replaced(self) -> int:
        """The number of times the configuration here was replaced."""
        return self._configuration.replaced

    def serve(self, journal: SharedJournal) -> None:
        """Store from now on with the lease of this journal."""
        self._journal = journal

    async def store(self) -> None:
        """Store the configuration as it is now, if it has changed and this broker is the active one."""
        if self._journal is not None and self._journal.is_held:
            store = partial(self._configuration.store, self._journal.put_note)
            await self._attempt(store, "replicated to mirrors")

    async def restore(self) -> None:
        """Replace the configuration by what the active broker has stored."""
        await self._attempt(self._configuration.restore, "restored from the active broker")

    async def run(self) -> None:
        """Store changes until cancelled."""
        while True:
            await self.store()
            await asyncio.sleep(_INTERVAL_S)

    async def follow(self) -> None:
        """Restore changes until cancelled."""
        while True:
            await self.restore()
            await asyncio.sleep(_INTERVAL_S)

    async def _attempt(self, work: Callable[[], bool], what: str) -> None:
        async with self._lock:
            try:
                await asyncio.to_thread(work)
                self.failure = ""
            except (
                *(JournalError, ConfigurationRefused, OSError, sqlite3.Error),
                *(ValueError, KeyError, TypeError, AttributeError),
            ) as error:
                if not self.failure:
                    log.warning("the configuration is not %s now: %s", what, error)
                self.failure = str(error) or type(error).__name__
