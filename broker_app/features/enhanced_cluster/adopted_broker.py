"""The broker of a member that has failed, within this one: it serves what was stored until nothing is left.

It is a broker of the cluster without clients: its own engine on the journal that was taken over, and links to
all others, this one among them. So its messages reach consumers everywhere, with one owner, and none is
copied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from broker_app.core.broker import Broker
from broker_app.core.commands import Reconfigure
from broker_app.core.limits import Limits
from broker_app.core.policy import Policies
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.report import ADOPTED_MARK, AdoptedReport
from broker_app.features.enhanced_cluster.takeover import TakenJournal, stored_messages

log = logging.getLogger(__name__)

#: seconds before the takeover: what was stored since is delivered as a repeat, since its client may have lost
#: the receipt, and have sent it again to another member
DOUBTFUL_S: Final = 600


class AdoptedBroker:
    """Runs in the loop. `ended` is called when its journal is lost to another broker."""

    def __init__(
        self,
        taken: TakenJournal,
        settings: ClusterSettings,
        inbox_bytes: int,
        ended: Callable[[AdoptedBroker], None],
    ) -> None:
        self.note = taken.note
        self._name = f"{taken.note.member}{ADOPTED_MARK}{taken.journal.epoch}"
        self._ended = ended
        self._journal = taken.journal
        self.broker = taken.broker
        self.engine = Engine(taken.broker, taken.journal, inbox_bytes=inbox_bytes, failed=self._failed)
        brokers = (settings.address, *settings.brokers)
        since_ms = int(1000 * (time.time() - DOUBTFUL_S))
        settings = settings._replace(
            name=self._name, address="", brokers=brokers, uris=(), web="", repeats_since_ms=since_ms
        )
        self.cluster = Cluster(self.engine, settings, lambda: 0)

    async def start(self, policies: Policies, limits: Limits, brokers: list[str]) -> None:
        """Serve, and connect to the brokers at these addresses."""
        self._journal.on_lease_lost(self._failed)
        self.engine.submit(Reconfigure(policies, limits))
        await self.cluster.start(None)
        self.cluster.members.learn(brokers, "registry")

    def report(self) -> AdoptedReport:
        """The journal, and what is left in it."""
        note = self.note
        return AdoptedReport(
            member=note.member,
            journal=note.journal,
            epoch=note.epoch,
            took_s=note.took_s,
            messages=stored_messages(self.broker),
        )

    @property
    def is_drained(self) -> bool:
        """True if nothing is left to deliver, and nothing may come back."""
        return self.engine.ended is None and _is_empty(self.broker)

    def _failed(self, error: BaseException) -> None:
        log.error("the journal %s is served no longer: %s", self.note.journal, error)
        self._ended(self)

    async def stop(self) -> None:
        """End the links, and give the journal back."""
        await self.cluster.stop()
        if self.engine.ended is None:
            await self.engine.stop(snapshot=True)
        self._journal.close()


def _is_empty(broker: Broker) -> bool:
    queues = broker.destinations.queues.values()
    waiting = any(queue.depth or queue.unsettled for queue in queues)
    return not waiting and not any(broker.scheduler.schedules.values())
