"""This broker as a member of an enhanced cluster: it takes over the journals of members that fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from broker_app.base.events import DRAINED, MEMBER_TAKEN_OVER
from broker_app.base.refused import Refused
from broker_app.base.settings.cluster_addresses import reachable
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.report import RemovalReport, TakeoverReport
from broker_app.features.enhanced_cluster.adopted_broker import AdoptedBroker
from broker_app.features.enhanced_cluster.journal_watch import JournalWatch
from broker_app.features.enhanced_cluster.mastership import Mastership, Standing, store_name
from broker_app.features.enhanced_cluster.registry import JournalState
from broker_app.features.enhanced_cluster.takeover import OwnBroker, TakenJournal, stored_messages
from broker_app.journal.errors import JournalError
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.limits import RestLimits
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.messages.browse import Browser
from broker_app.net.rest.messages.message_json import Blocks
from broker_app.net.rest.messages.single.explanations import Explainer
from broker_app.net.rest.messages.single.message_finder import MessageFinder
from broker_app.node.core_settings import limits_of, policies_of
from broker_app.storage.factory import store_at
from broker_app.telemetry.event_log import EventLog

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

#: seconds in which what was ordered is awaited
_AWAIT_S: Final = 60.0
#: seconds between two counts of messages, of which a broker may have in many queues
_COUNT_S: Final = 5.0


class EnhancedMember:
    """Owns the watch over the journals, the brokers that serve those that were taken over, and the lease of
    the master of message channels. `clients` counts the connections of clients, `handlers` the handlers of
    channels at this broker, and at the others that are linked."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        policy: Callable[[], Policy],
        events: EventLog,
        state: BrokerState,
        broker: Broker,
        clients: Callable[[], int],
        handlers: Callable[[], tuple[int, int]],
    ) -> None:
        assert config.cluster_id is not None and config.journal is not None
        if config.cluster:
            log.warning(
                "the list of brokers %s (cluster) is ignored: members of an enhanced cluster find each other "
                "in the store of their journals; leave it out",
                ",".join(config.cluster),
            )
        self._state = state
        self._clients = clients
        self._handlers = handlers
        self._broker = broker
        self._count_at = 0.0
        self._config = config
        self._cluster = cluster
        self._settings = settings = cluster.settings
        self._policy = policy
        self._events = events
        self._adopted: dict[str, AdoptedBroker] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        cluster.adopted = lambda: [adopted.report() for adopted in self._adopted.values()]
        self.watch = JournalWatch(
            config,
            OwnBroker(settings.name, settings.address, tuple(reachable(settings.uris, settings.address))),
            asyncio.get_running_loop().call_soon_threadsafe,
            make_broker=lambda: Broker(limits=limits_of(config), policies=policies_of(policy())),
            policies=lambda: policies_of(policy()),
            may_take=self._serves,
            taken=self._taken,
            found=lambda addresses: cluster.members.learn(addresses, "registry"),
            gone=cluster.members.forget,
        )
        self._mastership = Mastership(
            partial(store_at, config.journal, store_name(config.cluster_id)), settings.name, config.lease_s
        )
        cluster.elected = lambda: self._mastership.master
        cluster.enhanced = self.watch.report
        cluster.registry = lambda: [self.watch.discovery()]
        state.taking_over = self.watch.refusal.reason
        state.is_taken_over = True

    def _serves(self) -> bool:
        return self._state.quiesced is None and not self._state.is_stopping

    async def start(self, epoch: int) -> None:
        """Begin to watch; `epoch` is that of this broker's own journal. Raises JournalError."""
        await asyncio.to_thread(self.watch.start, epoch)
        if not self._config.cluster_keeper:
            self._mastership.start()

    async def take_over(self, member: str, user: str, *, force: bool) -> TakeoverReport:
        """Take over from a member, as an operator has ordered. Raises Refused."""
        return await _result(
            self.watch.order(member, user, force=force),
            f"{member} is still being taken over: `mom cluster takeovers` shows what becomes of it",
            f"{member} was not taken over",
        )

    async def remove(self, member: str, *, force: bool) -> RemovalReport:
        """Remove a member that is gone for good, as an operator has ordered. Raises Refused."""
        return await _result(
            self.watch.order_removal(member, force=force),
            f"{member} is still being removed: `mom cluster status` lists it until then",
            f"{member} was not removed",
        )

    def _taken(self, taken: TakenJournal) -> None:
        """Serve a journal that was taken over."""
        adopted = AdoptedBroker(taken, self._settings, self._config.inbox_bytes, self._lost)
        self._adopted[taken.note.journal] = adopted
        client, limits = EngineClient(adopted.engine, "pages"), RestLimits.of(self._config)
        pages, read = adopted.cluster.pages, adopted.engine.records
        pages.browse = Browser(client, read, Blocks(), limits).page
        finder = MessageFinder(client, read)
        pages.explain = Explainer(adopted.broker, finder, adopted.cluster.report).explain_own
        note = taken.note
        takeover = taken.takeover
        self._events.report(
            MEMBER_TAKEN_OVER,
            note.member,
            why=takeover.why,
            messages=takeover.messages,
            took_s=note.took_s,
            lost=takeover.lost,
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
        self.watch.state = self._state.shown_as(self._clients())
        here, elsewhere = self._handlers()
        self._mastership.standing = Standing(self._serves(), here > 0, elsewhere > 0)
        if time.monotonic() > self._count_at:
            self._count_at = time.monotonic() + _COUNT_S
            brokers = {journal: one.broker for journal, one in self._adopted.items()}
            brokers[self._config.journal_name] = self._broker
            self.watch.messages = {journal: stored_messages(broker) for journal, broker in brokers.items()}
        for adopted in list(self._adopted.values()):
            adopted.cluster.each_second()
            if adopted.is_drained:
                del self._adopted[adopted.note.journal]
                self._run(self._drained(adopted))

    async def _drained(self, adopted: AdoptedBroker) -> None:
        await adopted.stop()
        await asyncio.to_thread(self.watch.release, adopted.note.journal, "drained", 0)
        note = adopted.note
        log.info("nothing is left in the journal %s: it is served no longer", note.journal)
        self._events.report(DRAINED, note.member, journal=note.journal)

    def _run(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("serving a journal that was taken over failed", exc_info=task.exception())

    def _own_journal(self) -> JournalState:
        """The state of this broker's journal for the others when it has stopped."""
        if self._state.keeps_messages:
            return "kept"
        return "restarting" if self._state.restarts else "stopped"

    async def stop(self, *, lost_journal: bool) -> None:
        """Take over nothing more, and have other members serve what this one has taken over, and its own
        journal unless it has lost that, restarts, or is to keep it."""
        await asyncio.to_thread(self._mastership.close)
        await asyncio.to_thread(self.watch.close)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for adopted in self._adopted.values():
            await adopted.stop()
            left = stored_messages(adopted.broker)
            await asyncio.to_thread(self.watch.release, adopted.note.journal, "stopped", left)
        self._adopted.clear()
        if not lost_journal:
            own, left = self._own_journal(), stored_messages(self._broker)
            await asyncio.to_thread(self.watch.release, self._config.journal_name, own, left)
        await asyncio.to_thread(self.watch.close_stores)


async def _result(order: Future[_Result], late: str, failed: str) -> _Result:
    """The result of an order. Raises Refused, also when it has taken too long, or has failed."""
    done = asyncio.wrap_future(order)
    try:
        return await asyncio.wait_for(asyncio.shield(done), _AWAIT_S)
    except TimeoutError:
        done.add_done_callback(lambda _: done.exception())
        raise Refused("timeout", late) from None
    except JournalError as error:
        raise Refused("conflict", f"{failed}: {error}") from error
