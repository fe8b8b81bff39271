"""This broker as a member of an enhanced cluster: it takes over the journals of members that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.enhanced_cluster.adopted_broker import AdoptedBroker
from broker_app.features.enhanced_cluster.takeover import JournalWatch, OwnBroker, TakenJournal
from broker_app.net.policy.policy import Policy
from broker_app.node.core_settings import limits_of, policies_of
from broker_app.telemetry.event_log import CLUSTER, EventLog

log = logging.getLogger(__name__)


class EnhancedMember:
    """Owns the watch over the journals, and the brokers that serve those that were taken over."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        policy: Callable[[], Policy],
        events: EventLog,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._settings = settings = cluster.settings
        self._policy = policy
        self._events = events
        self._adopted: dict[str, AdoptedBroker] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        cluster.adopted = lambda: [adopted.report() for adopted in self._adopted.values()]
        uri = settings.uris[0] if settings.uris else ""
        self.watch = JournalWatch(
            config,
            OwnBroker(settings.name, settings.address, uri),
            asyncio.get_running_loop().call_soon_threadsafe,
            make_broker=lambda: Broker(limits=limits_of(config), policies=policies_of(policy())),
            policies=lambda: policies_of(policy()),
            taken=self._taken,
            found=cluster.members.learn,
        )

    def start(self, epoch: int) -> None:
        """Begin to watch; `epoch` is that of this broker's own journal."""
        self.watch.start(epoch)

    def _taken(self, taken: TakenJournal) -> None:
        """Serve a journal that was taken over."""
        adopted = AdoptedBroker(taken, self._settings, self._config.inbox_bytes, self._lost)
        self._adopted[taken.note.journal] = adopted
        note = taken.note
        self._events.note(
            CLUSTER,
            note.member,
            "took over",
            code="CLUSTER_TAKEOVER",
            detail=f"{note.member} has failed; this broker serves its messages, which it took over in "
            f"{note.took_s} s",
            journal=note.journal,
            epoch=note.epoch,
        )
        self._run(self._serve(adopted))

    async def _serve(self, adopted: AdoptedBroker) -> None:
        policies, limits = policies_of(self._policy()), limits_of(self._config)
        try:
            await adopted.start(policies, limits, self._cluster.members.addresses())
        except Exception:
            self._lost(adopted)  # its lease ends, and another broker takes it
            raise

    def _lost(self, adopted: AdoptedBroker) -> None:
        """Serve a journal no longer that another broker has taken."""
        if self._adopted.pop(adopted.note.journal, None) is not None:
            self.watch.forget(adopted.note.journal)
            self._run(adopted.stop())

    def each_second(self) -> None:
        """Send heart-beats, and end brokers that have nothing left."""
        for adopted in list(self._adopted.values()):
            adopted.cluster.each_second()
            if adopted.is_drained:
                del self._adopted[adopted.note.journal]
                self._run(self._drained(adopted))

    async def _drained(self, adopted: AdoptedBroker) -> None:
        await adopted.stop()
        await asyncio.to_thread(self.watch.release, adopted.note.journal, "drained")
        note = adopted.note
        log.info("nothing is left in the journal %s: it is served no longer", note.journal)
        detail = "all messages that it had stored are delivered"
        self._events.note(CLUSTER, note.member, "drained", detail=detail, journal=note.journal)

    def _run(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("serving a journal that was taken over failed", exc_info=task.exception())

    async def stop(self, *, keeps_journal: bool) -> None:
        """Take over nothing more, and have other members serve what this one has taken over, and its own
        journal unless it has lost that (`keeps_journal` False)."""
        await asyncio.to_thread(self.watch.close)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for adopted in self._adopted.values():
            await adopted.stop()
            await asyncio.to_thread(self.watch.release, adopted.note.journal, "stopped")
        self._adopted.clear()
        if keeps_journal:
            await asyncio.to_thread(self.watch.release, self._config.journal_name, "stopped")
        await asyncio.to_thread(self.watch.close_stores)
