"""The process of a broker: a node with its web server; with a shared journal, a standby before it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Final

from broker_app.base.process.task_supervisor import TaskSupervisor, count_unhandled
from broker_app.base.settings import roles
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.features.cluster.record.destination_applier import Configuration
from broker_app.features.enhanced_cluster import same_name
from broker_app.features.enhanced_cluster.generation import TakenOver, is_taken_over
from broker_app.features.enhanced_cluster.same_name import NameInUse
from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.standby import Taken
from broker_app.features.mirror.standby_server import duplicated, refuse_clients, stand_by
from broker_app.journal.errors import JournalError
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, Store, Unreachable
from broker_app.members.membership import Member
from broker_app.net.auth.login import Logins
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.policy import Policy
from broker_app.net.server.listeners import Listeners, Ports, ports_of
from broker_app.net.server.serve import serve
from broker_app.net.stomp.session import VERSION
from broker_app.net.stomp.session_registry import own_names
from broker_app.net.tls.certificates import Certificates
from broker_app.node.central_settings import SettingsSource
from broker_app.node.collector_pauses import CollectorPauses
from broker_app.node.core_settings import limits_of, policies_of
from broker_app.node.features.mirrors import Shared
from broker_app.node.node import AuditLog, Node
from broker_app.node.restored_configuration import RestoredConfiguration
from broker_app.node.stop_watch import StopWatch, ended_in_parts
from broker_app.peers.http_client.exchange import Poster
from broker_app.reflex.declaration import Declaration
from broker_app.storage import private_journal
from broker_app.storage.factory import make_shared
from broker_app.storage.identity import ForeignJournal, JournalIdentity
from broker_app.telemetry.pipeline_store import NoPipeline, PipelineStore

log = logging.getLogger(__name__)

#: seconds between attempts to reach the store
_RETRY_S = 1.0
#: seconds for each part that has not ended when the time given to open work is over
_EACH_S: Final = 2.0
#: a signal that comes so soon after the first one is the same: a shell and what it runs both send it
_SAME_S: Final = 1.0

App = Callable[[dict[str, object], Any, Any], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Site:
    """The parts around a node that know Django.

    `app` makes the ASGI application around the node, `follow` passes new policies on until it is cancelled,
    `keep` writes the audit log until it is cancelled, `refresh` reads the policy again (it blocks), and
    `document` is the OpenAPI document. `pipeline` has what jobs of the pipeline have reported,
    `make_poster` makes what sends the requests of webhooks, None for an HTTP client, and `reflexes` are those
    of the file, which was read once: a takeover must not fail because of a file that was changed since.
    `configuration` is that which brokers of a cluster change, and `settings` are those of the process, for a
    central file that is read again.
    `can_restart` is True if the process is started again when `run` returns True.
    """

    app: Callable[[Node], App]
    follow: Callable[[Callable[[Policy], object]], Coroutine[Any, Any, Any]]
    keep: Callable[[OperatorActions], Coroutine[Any, Any, Any]]
    refresh: Callable[[], None] = lambda: None
    document: Mapping[str, Any] | None = None
    pipeline: PipelineStore = NoPipeline()  # noqa: RUF009
    make_poster: Callable[[], Poster] | None = None
    reflexes: Sequence[Declaration] = ()
    configuration: Configuration | None = None
    settings: SettingsSource | None = None
    can_restart: bool = False


async def run(
    config: Config,
    logins: Logins,
    listeners: Listeners,
    site: Site,
    *,
    ready: Callable[[Ports], None],
    on_standby: Callable[[Ports], None] = lambda _: None,
    mirror: Mirror | None = None,
    replicator: ConfigurationReplicator | None = None,
) -> bool:
    """Run a broker until SIGTERM or SIGINT, or until its journal fails. Raises what ended it, if it failed.
    Returns True if an operator has ordered that it starts again.

    `ready` is called with the ports when the node serves, `on_standby` when it is on standby. With `mirror`
    the journal is shared; `replicator` then replicates the configuration, unless a database has it.
    """
    process = Process(config, logins, site, ready, on_standby)
    try:
        if mirror is None:
            await process.serve(listeners, None)
        else:
            await process.run_shared(listeners, mirror, replicator)
    finally:
        process.stop_watch.finish()
    return process.restarts


class Process:
    """Created in the running loop; takes over its signals."""

    def __init__(
        self,
        config: Config,
        logins: Logins,
        site: Site,
        ready: Callable[[Ports], None],
        on_standby: Callable[[Ports], None],
    ) -> None:
        self._config = config
        self._logins = logins
        self._site = site
        self._ready = ready
        self._on_standby = on_standby
        self._certificates = Certificates(config) if config.tls_cert is not None else None
        #: of operators, on standby and active
        self._actions = OperatorActions()
        self._stop = asyncio.Event()
        #: the node that serves now
        self._node: Node | None = None
        #: whether an operator has ordered that it starts again after it has stopped
        self.restarts = False
        #: another member has taken over the journal before this broker could
        self._is_taken_over = False
        #: another member that has the name of this one
        self._same_name: Member | None = None
        #: what has stopped it, if a signal has, and when that came
        self._signal: signal.Signals | None = None
        self._signalled_at = 0.0
        self.stop_watch = StopWatch(config.drain)
        self.stop_watch.task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(count_unhandled)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if self._certificates is not None:
            loop.add_signal_handler(signal.SIGHUP, self._certificates.reload_now)

    def _signalled(self, number: signal.Signals) -> None:
        if self._signal is not None:
            self._signalled_again(number, None)
            return
        self._signal, self._signalled_at = number, time.monotonic()
        for one in (signal.SIGTERM, signal.SIGINT):
            # Unlike a handler of the loop, it is also called when the loop is held up.
            signal.signal(one, self._signalled_again)
        self.stop_watch.begin()
        self._stop.set()
        if self._node is not None:
            self._node.end_input()

    def _signalled_again(self, number: int, _: FrameType | None) -> None:
        """End at once, without what a stop does for the next start."""
        if time.monotonic() - self._signalled_at > _SAME_S:
            log.warning(
                "broker %s ends at once: it has received %s while it stopped; the next start recovers from "
                "the journal",
                self._config.name,
                signal.Signals(number).name,
            )
            os._exit(128 + number)

    def _shut_down(self, ordered: asyncio.Future[bool]) -> None:
        self.restarts = ordered.result()
        self._stop.set()

    def _why(self, node: Node, failures: Sequence[BaseException | None]) -> str:
        """The reason why a node stops."""
        if failures:
            return str(failures[0] or "the web server has ended")
        if node.handed_over.done():
            return f"an operator has handed over to {node.handed_over.result().id}"
        if node.shut_down.done():
            return "an operator restarts it" if self.restarts else "an operator has shut it down"
        if self._signal is not None:
            return f"it has received {self._signal.name}; another one ends it at once"
        return "its caller has ended it"

    async def run_shared(
        self, listeners: Listeners, mirror: Mirror, replicator: ConfigurationReplicator | None
    ) -> None:
        """Follow the shared journal, serve when it was taken over, and follow again when it was handed over,
        until a signal comes. Raises what ended the node, if it failed."""
        if self._config.role == roles.MAIN:
            await self._check_private_journal(mirror.addresses.id)
        mirror.membership.start()
        restored = RestoredConfiguration(self._site.refresh, replicator)
        try:
            while not self._stop.is_set():
                taken = await self._stand_by(duplicated(listeners), mirror, replicator, restored)
                if self._is_taken_over:
                    raise TakenOver("another member has taken the journal over while this broker started")
                if self._same_name is not None:
                    raise NameInUse(self._config.name, mirror.addresses.id, self._same_name.id)
                if taken is None:
                    return
                await self._check_identity(taken, mirror.place)
                await restored.finish()
                await self.serve(duplicated(listeners), Shared(taken, mirror, replicator), listeners)
        finally:
            await asyncio.to_thread(mirror.close)

    async def _check_identity(self, taken: Taken, place: str) -> None:
        """Raise ForeignJournal for one that this broker has not used before, unless it has used none."""
        identity = JournalIdentity(self._config.data, self._config.journal_generation)
        try:
            identity.check(taken.journal.tag, place)
        except ForeignJournal:
            await asyncio.to_thread(taken.journal.close)
            raise
        identity.note(taken.journal.tag, place)

    async def _check_private_journal(self, own: str) -> None:
        """Raise StalePrivateJournal for one of before a takeover; wait for a store that does not answer."""
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(private_journal.check, self._config, own)
                return
            except Unreachable as error:
                log.warning("the private journal is compared when the shared one can be reached: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _RETRY_S)

    async def _stand_by(
        self,
        listeners: Listeners,
        mirror: Mirror,
        replicator: ConfigurationReplicator | None,
        restored: RestoredConfiguration,
    ) -> Taken | None:
        config, logins, loop = self._config, self._logins, asyncio.get_running_loop()

        def make_journal(store: Store) -> SharedJournal:
            loop.call_soon_threadsafe(restored.begin)
            holder = Holder(mirror.addresses.id, mirror.addresses.uris[0])
            return make_shared(config, store, holder, loop.call_soon_threadsafe)

        def make_broker() -> Broker:
            return Broker(name=config.name, limits=limits_of(config), policies=policies_of(logins.policy))

        ports = ports_of(listeners)
        standby = mirror.stand_by(
            make_broker,
            make_journal,
            lambda: policies_of(logins.policy),
            lambda: replicator.failure if replicator is not None else "",
        )
        tasks = TaskSupervisor()
        tasks.start("policy of a standby", partial(self._site.follow, logins.reload))
        if config.cluster_id is not None:
            tasks.start("generation of the journal", self._watch_generation)
            if config.role == roles.MAIN:
                tasks.start("name of the broker", partial(self._watch_name, mirror.addresses.id))
        if replicator is None:
            tasks.start("audit log", partial(self._site.keep, self._actions))
        else:
            # What is written here would be replaced by what the active broker has: orders of operators are
            # written after the takeover.
            tasks.start("replicated configuration", replicator.follow)
        # A name server may take long to answer, and a takeover would wait for it.
        tasks.start("names of this machine", partial(asyncio.to_thread, own_names))
        try:
            return await stand_by(
                standby,
                mirror,
                config,
                logins,
                listeners,
                self._actions,
                self._certificates,
                self._stop,
                partial(self._on_standby, ports),
            )
        finally:
            await tasks.stop()

    async def _watch_generation(self) -> None:
        """Stop when another member has taken the journal over: then this broker waits for it in vain."""
        while not self._stop.is_set():
            await asyncio.sleep(_RETRY_S)
            with suppress(Unreachable):
                if await asyncio.to_thread(is_taken_over, self._config):
                    self._is_taken_over = True
                    self._stop.set()

    async def _watch_name(self, own: str) -> None:
        """Stop when another member with the name of this one serves."""
        since = time.monotonic()
        while not self._stop.is_set():
            await asyncio.sleep(_RETRY_S)
            with suppress(JournalError):
                self._same_name = await asyncio.to_thread(same_name.find, self._config, own, since)
                if self._same_name is not None:
                    self._stop.set()

    async def serve(self, listeners: Listeners, shared: Shared | None, kept: Listeners | None = None) -> None:
        """Serve until a signal comes, or the journal was handed over. Raises what ended the node. `listeners`
        are closed; `kept` are the same for what is answered while the node stops."""
        config, site = self._config, self._site
        audit_log = AuditLog(self._actions, site.keep)
        node = Node(
            *(config, self._logins, site.document, self._certificates, shared, audit_log),
            pipeline=site.pipeline,
            make_poster=site.make_poster,
            reflexes=site.reflexes,
            configuration=site.configuration,
            settings=site.settings,
            can_restart=site.can_restart,
            pauses=CollectorPauses(),
        )
        ports = ports_of(listeners)
        node.web_port = ports.web
        await node.start(listeners.stomp, listeners.stomp_tls, listeners.cluster)
        self._node = node
        stop = asyncio.Event()
        web = asyncio.create_task(
            serve(
                *(site.app(node), config, listeners.web, stop, node.rest.direct, self._certificates),
                started=partial(self._started, ports, shared),
            )
        )
        following = asyncio.create_task(site.follow(node.reload))
        stopped = asyncio.create_task(self._stop.wait())
        endings: set[asyncio.Future[Any]] = {web, stopped, node.failed, node.handed_over, following}
        node.shut_down.add_done_callback(self._shut_down)
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        self._node = None
        is_ordered = self._stop.is_set() or node.handed_over.done()
        failures = [task.exception() for task in (web, following) if task.done() and not is_ordered]
        failures += [node.failed.result()] if node.failed.done() else []
        log.info("broker %s stops: %s", config.name, self._why(node, failures))
        self.stop_watch.begin()
        await node.end_json_clients()
        async with AsyncExitStack() as servers:
            if shared is not None and kept is not None:
                await self._refuse_clients(servers, shared.mirror, kept)
            stop.set()
            for task in (stopped, following):
                task.cancel()
            await self._stop_node(node)
            await self._end_tasks({web, following})
        log.info("broker %s has stopped", config.name)
        if node.handed_over.done() and not self._stop.is_set():
            self.stop_watch.finish()  # it goes on as a standby
        for failure in failures:
            raise failure or RuntimeError("the web server ended by itself")

    async def _refuse_clients(self, servers: AsyncExitStack, mirror: Mirror, listeners: Listeners) -> None:
        """Send new clients to the broker that takes over: they would wait until this one has ended."""
        config, logins, certificates = self._config, self._logins, self._certificates
        try:
            own = duplicated(listeners)
            await refuse_clients(servers, mirror, config, logins, own, self._actions, certificates)
        except OSError as error:  # no descriptors are left: the broker ends all the same
            log.warning("new clients are not sent to another broker: %s", error)

    def _started(self, ports: Ports, shared: Shared | None) -> None:
        self._ready(ports)
        log.info("%s", _serving(self._config, ports, shared))

    async def _stop_node(self, node: Node) -> None:
        stopping = asyncio.create_task(node.stop())
        watched, self.stop_watch.task = self.stop_watch.task, stopping
        if not await ended_in_parts(stopping, self._config.drain, _EACH_S):
            log.warning("not everything ended within %g s", self._config.drain)
        self.stop_watch.task = watched

    async def _end_tasks(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Wait for tasks that are ending; those that take longer than the web server gives to open requests
        are cancelled."""
        late = (await asyncio.wait(tasks, timeout=self._config.drain + _EACH_S))[1]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_EACH_S)
        for task in tasks - late:
            task.cancelled() or task.exception()  # whether it failed is no matter any more


def _serving(config: Config, ports: Ports, shared: Shared | None) -> str:
    """The line of the log for a broker that serves: version, name, places."""
    tls = "" if ports.stomp_tls is None else f", {ports.stomp_tls} (STOMP with TLS)"
    stomp = "" if ports.stomp is None else f", {ports.stomp} (STOMP)"
    role = "" if shared is None else f" as the active one, role {config.role},"
    return (
        f"MOM {VERSION}: broker {config.name} serves{role} at {config.host}, "
        f"ports {ports.web} (web){stomp}{tls}; data in {config.data.resolve()}"
    )
