"""A node: the running process of a broker. The only module that knows all others, and their order.

Django asks a `Node` and nothing behind it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

import msgspec

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.base.roles import CALLBACK
from broker_app.base.task_supervisor import TaskSupervisor
from broker_app.config import ALL_BRIDGES, Config, overridden
from broker_app.core.broker import Broker
from broker_app.core.commands import Reconfigure
from broker_app.core.resource_alarm import STORE_FULL
from broker_app.engine import Engine
from broker_app.features.bridge.connection_test import try_connection
from broker_app.features.bridge.supervisor import Supervisor
from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.bulk.stage_store import StageStore
from broker_app.features.callback_broker.callback_broker import CallbackBroker
from broker_app.features.callbacks.webhooks.supervisor import Supervisor as Callbacks
from broker_app.features.cluster import status as cluster_status
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.destination_applier import Configuration
from broker_app.features.cluster.report import ClusterReport
from broker_app.features.jobs.job_manager import JobManager
from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.refusals import moved
from broker_app.features.mirror.standby import Taken
from broker_app.features.services.registry import ServiceRegistry
from broker_app.features.services.seed_messages import SeedMessages
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.members.membership import Member
from broker_app.net import asyncapi
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.broker_state import PAUSE, RESUME, BrokerState, Order
from broker_app.net.json import JsonServer
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.owner_rights import OwnerRights, SenderRights
from broker_app.net.policy.policy import Policy
from broker_app.net.policy.system_rights import JobOwner, SystemRights
from broker_app.net.rest import RestApi, RestLimits
from broker_app.net.rest.features.rights import destination_of, destination_of_job
from broker_app.net.rest.messages.ndjson import MessageLines
from broker_app.net.rest.node.metrics import Metrics
from broker_app.net.server import subprotocols as web_socket
from broker_app.net.server.listeners import Ports
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session import VERSION
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.stomp.transports import tcp
from broker_app.net.tls.certificates import Certificates
from broker_app.node.active_use import ActiveUse, in_use
from broker_app.node.broker_notices import BrokerNotices
from broker_app.node.browser_sessions import BrowserSessions
from broker_app.node.cluster_clients import ClusterClients
from broker_app.node.cluster_member import client_addresses, make_cluster, make_record
from broker_app.node.cluster_notices import ClusterNotices
from broker_app.node.collector_pauses import CollectorPauses
from broker_app.node.enhanced_member import EnhancedMember
from broker_app.node.housekeeping import Housekeeping
from broker_app.node.mirror_notices import MirrorNotices
from broker_app.node.node_reflexes import admit_services, make_reflexes
from broker_app.node.operations import Operations
from broker_app.node.policy_follower import PolicyFollower, limits_of, policies_of
from broker_app.node.store_usage import StoreUsage
from broker_app.node.system_events import SystemEvents, SystemPublisher
from broker_app.peers.http_client.exchange import Poster
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.reflexes import Reflexes
from broker_app.storage.factory import make_files
from broker_app.telemetry import Statistics, SystemTopics
from broker_app.telemetry.alerts import AlertEvaluator, ConditionChecks
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.bridges import status
from broker_app.telemetry.callbacks import shown_callback
from broker_app.telemetry.component_health import Components
from broker_app.telemetry.cursor_lags import CursorLags
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.metrics.detailed_metrics import DetailedMetrics
from broker_app.telemetry.metrics.node_metrics import NodeMetrics, Sources
from broker_app.telemetry.metrics.pipeline_metrics import PipelineMetrics
from broker_app.telemetry.pipeline_runs import PipelineRuns
from broker_app.telemetry.pipeline_store import NoPipeline, PipelineStore
from broker_app.telemetry.system_messages import SystemMessages

log = logging.getLogger(__name__)

_SHUTDOWN = Refused("not-active", "the broker is shutting down; connect again or use another broker")

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Facts = dict[str, Any]


class Shared(NamedTuple):
    """A journal that was taken over, this broker among those that share it, and the configuration that is
    replicated with it, if any."""

    taken: Taken
    mirror: Mirror
    replicator: ConfigurationReplicator | None


class AuditLog(NamedTuple):
    """Actions of operators, and the task that writes them until it is cancelled."""

    actions: OperatorActions
    keep: Callable[[OperatorActions], Coroutine[Any, Any, Any]]


class Services(NamedTuple):
    """Services that answer to Django."""

    policy: PolicyFollower
    browser_sessions: BrowserSessions
    system_events: SystemEvents


class Node:
    """Starts journal, engine and transports in that order, and stops them in the reverse one.

    Every part registers its end when it has started: a start that fails half-way stops what had started.
    With a `shared` journal, that and the state of the broker are there already. `make_poster` makes what
    sends the requests of webhooks, by default an HTTP client. `can_restart` is True if the caller starts the
    process again when that was ordered.
    """

    def __init__(
        self,
        config: Config,
        logins: Logins,
        control_document: Mapping[str, Any] | None = None,
        certificates: Certificates | None = None,
        shared: Shared | None = None,
        audit_log: AuditLog | None = None,
        pipeline: PipelineStore | None = None,
        make_poster: Callable[[], Poster] | None = None,
        reflexes: Sequence[Declaration] = (),
        configuration: Configuration | None = None,
        *,
        can_restart: bool = False,
    ) -> None:
        #: the settings that the node is started with; the policy overrides some of them
        self._started_with = config
        self._control_document = control_document
        self._certificates = certificates
        self._pipeline = pipeline or NoPipeline()
        self._pipeline_runs = PipelineRuns(self._pipeline.runs)
        self._declared_reflexes = reflexes
        self._configuration = configuration
        config = overridden(config, logins.policy.broker)
        self.loop = loop = asyncio.get_running_loop()
        #: set when the node must end because of an error
        self.failed: asyncio.Future[BaseException] = loop.create_future()
        self.logins = logins
        #: what rules decided recently
        self.decisions = Decisions()
        #: operations of operators that are not in the audit log yet
        self.actions = audit_log.actions if audit_log is not None else OperatorActions()
        self._audit_log = audit_log
        self._make_poster = make_poster
        #: what happened to bridges, files and alerts
        self.events = EventLog(time.time)
        #: set with the broker that takes over, when an operator has ordered a switch-over
        self.handed_over: asyncio.Future[Member] = loop.create_future()
        #: set when an operator has ordered that the broker stops: True if it is to start again
        self.shut_down: asyncio.Future[bool] = loop.create_future()
        self._can_restart = can_restart
        #: whether clients are served
        self.state = BrokerState(config.name)
        self._shared = shared
        self._journal: SegmentJournal | SharedJournal
        if shared is None:
            self._journal = make_files(config, loop)
            self.broker = Broker(
                name=config.name, limits=limits_of(config), policies=policies_of(logins.policy)
            )
        else:
            self._journal, self.broker = shared.taken.journal, shared.taken.broker
        self.engine = Engine(self.broker, self._journal, inbox_bytes=config.inbox_bytes, failed=self._fail)
        #: the ports of STOMP, plain and over TLS; None without
        self.stomp_port: int | None = None
        self.stomp_tls_port: int | None = None
        #: the port of the web listener, which the caller of `start` has
        self.web_port: int | None = None
        #: this broker among those that deliver messages to each other's consumers; None outside of a cluster
        self.cluster: Cluster | None = None
        self._enhanced: EnhancedMember | None = None
        self.registry: SessionRegistry
        self.json: JsonServer
        self.services: ServiceRegistry
        self.bridges: Supervisor
        self.callbacks: Callbacks
        self.jobs: JobManager
        self.bulk: BatchCommits
        self.reflexes: Reflexes
        self.seeds: SeedMessages
        self.rest: RestApi
        self.operations: Operations
        self._services: Services
        #: parts that are there and wait for the engine, to be called with what ended it
        self._on_engine_end: list[Callable[[BaseException], None]] = []
        self._started = AsyncExitStack()

    @property
    def mirror(self) -> Mirror | None:
        """This broker among those that share its journal; None if it has a journal of its own."""
        return self._shared.mirror if self._shared is not None else None

    def _fail(self, error: BaseException) -> None:
        """The engine has ended, also while the node starts."""
        for engine_ended in self._on_engine_end:
            engine_ended(error)
        if not self.failed.done():
            self.failed.set_result(error)

    def _when_engine_ends(self, engine_ended: Callable[[BaseException], None]) -> None:
        """Call a part with what ends the engine; also if that has happened already."""
        self._on_engine_end.append(engine_ended)
        if self.failed.done():
            engine_ended(self.failed.result())

    # ------------------------------------------------------------------ start and stop

    async def start(
        self,
        stomp: socket.socket | None,
        stomp_tls: socket.socket | None,
        cluster: socket.socket | None = None,
    ) -> None:
        """Recover, then accept STOMP clients, plain and over TLS, and other brokers of the cluster. The
        caller starts the web listener.

        Raises what failed, after it stopped the parts that had started: what ended the engine, if it has
        ended, since other failures follow from that.
        """
        async with AsyncExitStack() as started:
            try:
                await self._start(started, stomp, stomp_tls, cluster)
            except Exception as error:
                if self.failed.done():
                    raise self.failed.result() from error
                raise
            self._started = started.pop_all()

    async def end_json_clients(self) -> None:
        """Report to clients that speak JSON why the node stops: the web server would close their connections
        without a reason. Not if it has failed: where its clients should go is seen later."""
        if not self.failed.done():
            await self.json.end_all(_SHUTDOWN)

    async def stop(self) -> None:
        """Accept nothing more, finish what was accepted, notify the clients, keep a snapshot."""
        self.state.is_stopping = True
        await self._started.aclose()
        await self.registry.wait_closed(tcp.LINGER_S)

    async def _start(
        self,
        started: AsyncExitStack,
        stomp: socket.socket | None,
        stomp_tls: socket.socket | None,
        cluster: socket.socket | None,
    ) -> None:
        engine, broker, config = (
            self.engine,
            self.broker,
            overridden(self._started_with, self.logins.policy.broker),
        )
        started.callback(self._journal.close)
        self._recover(started)
        self._keep_audit_log(started)
        started.push_async_callback(self._stop_engine)
        pauses = CollectorPauses()
        pauses.start()
        started.callback(pauses.stop)

        access = Access(self.logins, self.decisions.note)
        state = self.state
        self.registry = registry = SessionRegistry(
            engine, self.logins, access, config, ids=broker.turn.ids, state=state
        )
        self._when_engine_ends(registry.engine_ended)
        started.callback(registry.channels.stop)
        if self.web_port is not None:
            registry.websocket_url = config.websocket_url(self.web_port)
        self.services = ServiceRegistry()
        live = LiveSubscribers()
        callback_broker = None
        if config.role == CALLBACK:
            callback_broker = CallbackBroker(engine, config.max_websocket_bytes)
            self.services.register_at_origin = callback_broker.register
            started.push_async_callback(callback_broker.stop)
        self.json = JsonServer(
            *(engine, self.logins, access, config, self.services, live, registry.channels),
            version=f"MOM/{VERSION}",
            state=state,
        )
        self._when_engine_ends(self.json.engine_ended)
        self.logins.present = lambda: (*registry.identities(), *self.json.identities())
        connections = Connections(registry)
        statistics = Statistics(broker, config.name, VERSION, destinations=config.stats_destinations)
        # A broker with a new journal is another sender: it numbers its messages from the beginning.
        self.bridges = bridges = Supervisor(engine, f"{config.name}~{self._journal.tag:x}")
        self.callbacks = callbacks = Callbacks(engine, config, OwnerRights(access).refusal, self._make_poster)
        self._when_engine_ends(callbacks.engine_ended)
        lines = MessageLines(RestLimits.of(config))
        self.jobs = jobs = JobManager(engine, engine.records, config.data / "jobs", lines)
        self._when_engine_ends(jobs.engine_ended)
        stages = StageStore(config.data / "bulk", config.max_staged_bytes)
        self.bulk = bulk = BatchCommits(engine, stages, shared=self._shared is not None)
        self._when_engine_ends(bulk.engine_ended)
        lags = CursorLags(self._journal)
        housekeeping = Housekeeping(config, engine, self._journal, statistics, registry, jobs)
        housekeeping.each_second.add(pauses.check)
        store = StoreUsage(config, self._journal, self.events)
        housekeeping.each_second.add(store.check)
        alerts = self._alerts(config, statistics, connections, store)
        topics, publisher = self._system_topics(config, access, statistics, connections, alerts)
        events = SystemEvents(config, self.logins, self.events, connections, topics, publisher)
        started.push_async_callback(events.notifications.stop)
        alerts.start()
        started.push_async_callback(alerts.stop)
        self.reflexes = reflexes = make_reflexes(
            config, engine, self.events, self.mirror, self._declared_reflexes
        )
        admit_services(reflexes, registry, self.services)
        self.seeds = seeds = SeedMessages(
            engine, self.services, SenderRights(access), registry.seed_shares, reflexes.filter
        )
        self._when_engine_ends(seeds.engine_ended)
        self.rest = rest = RestApi(
            engine,
            engine.records,
            self.logins,
            config,
            jobs,
            access=access,
            actions=self.actions,
            statistics=statistics,
            connections=connections,
            forwarding=bridges,
            trial=partial(try_connection, sender=config.name),
            journal=self._journal,
            events=self.events,
            alerts=alerts,
            bulk=bulk,
            cursor_lags=lags,
            metrics=self._metrics(config, statistics, connections, alerts, store),
            pipeline=self._pipeline,
            reflexes=reflexes,
            callbacks=callbacks,
            services=self.services,
            seeds=seeds,
            live=live,
            state=state,
            clients=lambda: {"stomp": connections.of_programs, "json": len(self.json.sessions)},
            stop=self._shut_down,
            restart_refusal=self._restart_refusal,
            channels=registry.channels,
            event_document=asyncapi.document(config.base_path),
            nearly_full=lambda: store.nearly_full,
            origins=callback_broker.status if callback_broker is not None else None,
            mirror=self.mirror,
            cluster=self._cluster_report,
            cluster_uris=lambda: registry.failover_uris() if self.cluster is not None else (),
            record=lambda: self.cluster.record if self.cluster is not None else None,
            control_document=self._control_document,
        )
        self._when_engine_ends(rest.engine_ended)
        self.operations = Operations(
            rest, callbacks, reflexes, self.mirror, self._cluster_report, registry.channels.report
        )
        policy = PolicyFollower(
            *(self._started_with, engine, self.logins, registry, self.json, rest, bridges, callbacks),
            reflexes,
        )
        browser_sessions = BrowserSessions(self.logins, registry, self.json, rest)
        self._services = Services(policy, browser_sessions, events)

        notices = BrokerNotices(config.name, state, self.events, lambda: sum(rest.clients().values()))
        state.listeners.add(notices.ordered)
        state.listeners.add(self._state_changed)
        housekeeping.each_second.add(notices.each_second)
        tasks = TaskSupervisor()
        started.push_async_callback(tasks.stop)
        bridges.listeners.add(events.bridge)
        callbacks.listeners.add(events.callback)
        engine.listeners.add(bridges.on_events)
        engine.listeners.add(topics.on_events)
        engine.listeners.add(reflexes.on_events)
        registry.listeners.add(events.connection)
        self.events.listeners.add(lambda event: topics.logged(event.shown()))
        alerts.listeners.add(events.alert)
        engine.clock_listeners.add(statistics.clock_stepped)
        engine.clock_listeners.add(alerts.clock_stepped)
        if self._shared is not None:
            self._serve_as_mirror(self._shared, housekeeping, tasks, publisher)
        for listener in (connections.check_slow, alerts.evaluate_if_due, topics.publish, lags.pass_second):
            housekeeping.each_second.add(listener)

        statistics.loop_lag.start()
        started.callback(statistics.loop_lag.stop)
        tasks.start("time limits of sessions", registry.keep_time)
        tasks.start("policy", policy.run)
        tasks.start("browser sessions", browser_sessions.run)
        tasks.start("services", self.services.run)
        tasks.start("seed messages", seeds.run)
        tasks.start("housekeeping", housekeeping.run)
        tasks.start("runs of pipelines", self._pipeline_runs.run)
        started.push_async_callback(self._leave_cluster)
        started.push_async_callback(self._close_clients)
        started.push_async_callback(self._finish_accepted)
        reflexes.reload(self.logins.policy.reflexes)
        started.push_async_callback(reflexes.stop)
        started.push_async_callback(reflexes.finish, config.drain)
        if callback_broker is not None:
            started.push_async_callback(callback_broker.finish, config.drain)
        await jobs.start()
        started.push_async_callback(jobs.stop)
        await bulk.start()
        started.push_async_callback(bulk.stop)
        bridges.start(self.logins.policy.bridges)
        started.push_async_callback(bridges.stop)
        callbacks.start(self.logins.policy.callbacks)
        started.push_async_callback(callbacks.stop)
        if cluster is not None:
            ports = Ports(self.web_port or 0, _port_of(stomp), _port_of(stomp_tls), _port_of(cluster))
            await self._join_cluster(config, housekeeping, publisher, cluster, ports)
        if self.failed.done():
            raise self.failed.result()
        started.callback(self._end_input)
        await self._listen(started, tasks, stomp, stomp_tls)
        started.callback(rest.stop)

    def _recover(self, started: AsyncExitStack) -> None:
        """Rebuild the broker from its journal, unless that was done on standby."""
        if self._shared is None:
            for line in self.engine.recover():
                log.warning("journal: %s", line)
            gc.collect()
            return
        journal, mirror = self._shared.taken.journal, self._shared.mirror
        journal.on_lease_lost(self._fail)
        self.engine.adopt()
        config = overridden(self._started_with, self.logins.policy.broker)
        self.engine.submit(Reconfigure(policies_of(self.logins.policy), limits_of(config)))
        mirror.serve(self._shared.taken, self._hand_over)
        started.push_async_callback(mirror.stop_serving)
        if self._shared.replicator is not None:
            self._shared.replicator.serve(journal)
            started.push_async_callback(self._shared.replicator.store)

    def _keep_audit_log(self, started: AsyncExitStack) -> None:
        """Write the audit log. Its last entries are written before the configuration is replicated last."""
        if self._audit_log is not None:
            tasks = TaskSupervisor()
            tasks.start("audit log", partial(self._audit_log.keep, self.actions))
            started.push_async_callback(tasks.stop)

    async def _stop_engine(self) -> None:
        # A standby has applied everything, and takes over sooner without a snapshot.
        await self.engine.stop(snapshot=self.mirror is None or not self.mirror.standbys)

    def _hand_over(self, successor: Member) -> None:
        if not self.handed_over.done():
            self.handed_over.set_result(successor)

    def _shut_down(self, restart: bool) -> None:
        if not self.shut_down.done():
            self.shut_down.set_result(restart)

    def _restart_refusal(self) -> Refused | None:
        """The reason why the broker cannot be restarted by an order; None if it can."""
        if self.mirror is not None and self.mirror.standbys and self.mirror.membership.pause is None:
            return Refused(
                "conflict",
                "a mirror would take over while this broker restarts: pause that first (`mom mirror pause "
                "--for 5m`), or have the mirror serve (`mom mirror switchover`) and restart this one then",
            )
        if not self._can_restart:
            return Refused(
                "conflict",
                "this broker was not started by `mom up` or `mom broker run`, so it cannot start itself "
                "again: stop it, and start it as it was started",
            )
        return None

    def _state_changed(self, event: str, _: Order) -> None:
        """Stop to serve clients, or serve them again."""
        if event == PAUSE:
            self.registry.suspend()
            self.json.suspend()
        elif event == RESUME:
            self.registry.resume()
            self.json.resume()

    def _serve_as_mirror(
        self, shared: Shared, housekeeping: Housekeeping, tasks: TaskSupervisor, publisher: SystemPublisher
    ) -> None:
        """Report to clients, to operators and to the other brokers what concerns mirrors."""
        mirror, takeover = shared.mirror, shared.taken.takeover
        self.registry.failover_uris = lambda: mirror.failover_uris
        own = mirror.addresses.uris
        self.state.other_addresses = lambda: [uri for uri in mirror.failover_uris if uri not in own]
        notices = MirrorNotices(mirror, self.events, publisher)
        housekeeping.each_second.add(mirror.each_second)
        housekeeping.each_second.add(notices.each_second)
        notices.took_over(takeover, without_main=shared.taken.without_main)
        if shared.replicator is not None:
            tasks.start("replicated configuration", shared.replicator.run)

    async def _join_cluster(
        self,
        config: Config,
        housekeeping: Housekeeping,
        publisher: SystemPublisher,
        listener: socket.socket,
        ports: Ports,
    ) -> None:
        """Link this broker to the others of its cluster, once its own clients can be served."""
        registry = self.registry
        self.cluster = cluster = make_cluster(
            config, self.engine, ports, self._certificates, lambda: len(registry.sessions)
        )
        record = make_record(
            config, self.engine, cluster, ports.cluster or 0, self._configuration, self.events
        )
        policy = self.logins.policy
        await record.start(policy.version, policy.destinations.rows)
        cluster.calls, registry.channels.sites.others = registry.channels, cluster
        housekeeping.each_second.add(cluster.each_second)
        self.state.other_addresses = partial(client_addresses, cluster)
        self.state.waiting = lambda: record.propagation.waiting
        self.state.listeners.add(lambda *_: cluster.set_quiesced(self.state.quiesced is not None))
        notices = ClusterNotices(self.events, partial(cluster.report, interest=False))
        cluster.listeners.add(notices.link)
        if config.cluster_keeper:
            housekeeping.each_second.add(notices.check_keeper)
        if ClusterClients.wanted(config):
            clients = ClusterClients(config, cluster, registry, publisher)
            housekeeping.each_second.add(clients.each_second)
        await cluster.start(listener)
        if config.cluster_id is not None and self._shared is not None:
            self._enhanced = EnhancedMember(config, cluster, lambda: self.logins.policy, self.events)
            housekeeping.each_second.add(self._enhanced.each_second)
            self._enhanced.start(self._shared.taken.journal.epoch)

    async def _leave_cluster(self) -> None:
        """End the links, once the other brokers know what became of their messages here."""
        if self.cluster is not None:
            await self._finish_accepted()
            if self._enhanced is not None:
                await self._enhanced.stop(keeps_journal=not self.failed.done())
            await self.cluster.stop()
            if self.cluster.record is not None:
                await self.cluster.record.stop()

    def _end_input(self) -> None:
        """Take nothing more from clients, or those that go on sending would hold up the end. Where they
        should go after a failure is seen later."""
        if not self.failed.done():
            self.registry.end_all(_SHUTDOWN)

    async def _close_clients(self) -> None:
        refusal = _SHUTDOWN
        if self.mirror is not None and self.failed.done():
            new_active = await self.mirror.find_new_active()
            if new_active is not None:
                refusal = moved(self.mirror.name, new_active)
                log.error("%s", refusal.detail)
        self.json.close_all(refusal)
        await self.registry.close_all(refusal)

    def _alerts(
        self, config: Config, statistics: Statistics, connections: Connections, store: StoreUsage
    ) -> AlertEvaluator:
        """The alerts, with their state from before the last stop."""
        checks = ConditionChecks(
            self.broker,
            statistics,
            bridges=self.bridges.reports,
            taken=store.share,
            flapping=connections.client_events.flapping,
            events=self.events.all,
            components=self._components(statistics, store).all,
            cluster=self._cluster_status,
        )
        return AlertEvaluator(
            config.data / "alerts.json", checks, lambda: self.logins.policy.alerts, time.time
        )

    def _components(self, statistics: Statistics, store: StoreUsage) -> Components:
        def full() -> str:
            alarm = self.broker.resource_alarms.alarm
            return alarm.detail if alarm is STORE_FULL else ""

        return Components(
            callbacks=lambda: map(shown_callback, self.callbacks.reports()),
            reflexes=lambda: self.reflexes.report(),
            bridges=partial(self._bridge_reports, statistics),
            pipelines=self._pipeline_runs.reports,
            links=lambda: (self._cluster_status() or {"links": ()})["links"],
            mirror=self._mirror_report,
            full=full,
            nearly_full=lambda: store.nearly_full,
        )

    def _bridge_reports(self, statistics: Statistics) -> list[Facts]:
        return [status(statistics, report) for report in self.bridges.reports()]

    def _mirror_report(self) -> Facts | None:
        return self.mirror.status() if self.mirror is not None else None

    def _cluster_report(self) -> ClusterReport | None:
        return self.cluster.report() if self.cluster is not None else None

    def _sites(self) -> list[Facts]:
        """The sites of message channels."""
        return [msgspec.to_builtins(site) for site in self.registry.channels.report().sites]

    def _cluster_status(self) -> Facts | None:
        return (
            cluster_status.status(self.cluster.report(interest=False)) if self.cluster is not None else None
        )

    def _metrics(
        self,
        config: Config,
        statistics: Statistics,
        connections: Connections,
        alerts: AlertEvaluator,
        store: StoreUsage,
    ) -> Metrics:
        bridges = partial(self._bridge_reports, statistics)
        sources = Sources(
            backend="files" if config.journal is None else config.journal.partition(":")[0],
            journal=self._journal.statistics,
            connections=connections,
            decisions=self.decisions,
            jobs=lambda: (job.op for job in self.jobs.all() if job.open),
            bridges=bridges,
            callbacks=self.callbacks.totals,
            mirrors=self._mirror_report,
            cluster=self._cluster_status,
            components=self._components(statistics, store).all,
            alerts=alerts.state.open,
            sites=self._sites,
        )
        return Metrics(
            NodeMetrics(self.broker, statistics, config.name, VERSION, sources),
            DetailedMetrics(
                *(self.broker, statistics, bridges, self.callbacks.reports), self.reflexes.report
            ),
            PipelineMetrics(self._journal, config.name, self._pipeline.figures),
        )

    def _system_topics(
        self,
        config: Config,
        access: Access,
        statistics: Statistics,
        connections: Connections,
        alerts: AlertEvaluator,
    ) -> tuple[SystemTopics, SystemPublisher]:
        publisher = SystemPublisher(self.engine)
        rights = SystemRights(access, self._job_owner, partial(destination_of, self.broker))
        topics = SystemTopics(
            self.broker,
            statistics,
            SystemMessages(self.broker, publisher, rights, asyncio.get_running_loop().call_soon),
            name=config.name,
            boot=secrets.token_hex(4),
            connections=connections.all,
            bridges=lambda: [status(statistics, report) for report in self.bridges.reports()],
            callbacks=lambda: map(shown_callback, self.callbacks.reports()),
            jobs=lambda: [job.progress for job in self.jobs.all()],
            mirrors=self._mirror_report,
            cluster=self._cluster_status,
            alerts=lambda: [shown(alert) for alert in alerts.state.open()],
            clock=time.time,
        )
        return topics, publisher

    def _job_owner(self, id: str) -> JobOwner | None:
        try:
            job = self.jobs.get(id)
        except Refused:
            return None
        destination = destination_of_job(job)
        return JobOwner(job.user, destination.address if destination is not None else "")

    async def _finish_accepted(self) -> None:
        if self.engine.ended is None:
            await self.engine.wait_idle()

    async def _listen(
        self,
        started: AsyncExitStack,
        tasks: TaskSupervisor,
        stomp: socket.socket | None,
        stomp_tls: socket.socket | None,
    ) -> None:
        if stomp is not None:
            self.stomp_port = stomp.getsockname()[1]
            started.callback((await tcp.listen(self.registry, stomp)).close)
        if self._certificates is not None:
            tasks.start("certificates", self._certificates.follow)
            if stomp_tls is not None:
                self.stomp_tls_port = stomp_tls.getsockname()[1]
                started.callback(tcp.listen_tls(self.registry, stomp_tls, self._certificates).close)

    # ------------------------------------------------------------------ what Django asks

    async def serve_websocket(
        self, scope: dict[str, Any], receive: Any, send: Any, identity: Identity | None
    ) -> None:
        """Serve one WebSocket, whose client speaks STOMP or JSON."""
        try:
            await web_socket.serve(self.registry, self.json, scope, receive, send, identity)
        except OSError:  # the client has left before it was accepted
            raise
        except Exception as error:
            internal_errors.note("a WebSocket", error)
            raise

    def reload(self, policy: Policy) -> None:
        """Use another policy; `wait_policy` returns when it is applied to what had begun before."""
        self._services.policy.reload(policy)
        if self.cluster is not None and self.cluster.record is not None:
            self.cluster.record.policy_changed(policy.version, policy.destinations.rows)

    async def wait_policy(self, version: int) -> None:
        """Wait until the policy of this version, or a later one, is applied to all clients, and replicated to
        the mirrors. Raises Refused("not-active") when another broker has taken over: it does not have this
        policy."""
        await self._services.policy.wait(version)
        if self._shared is not None and self._shared.replicator is not None:
            await self._shared.replicator.store()
            if not self._journal.is_held:
                raise Refused(
                    "not-active", "another broker has taken over, without this change: repeat it there"
                )

    def end_session(self, session: str) -> None:
        """A browser session ended: close what it has opened."""
        self._services.browser_sessions.end(session)

    def files_read(self, about: dict[str, Any], *, refused: bool) -> None:
        """Files of the configuration were read again, or `refused`.

        `about` are the facts, with the `version` of the configuration that followed, or None.
        """
        self._services.system_events.files_read(about, refused=refused)
        if not refused and self._services.policy.config.reload_bridges == ALL_BRIDGES:
            self._services.policy.restart_bridges(about["version"])

    async def in_use(self) -> list[ActiveUse]:
        """The destinations and permissions that connected clients use."""
        return await in_use(self.registry)


def _port_of(listener: socket.socket | None) -> int | None:
    return listener.getsockname()[1] if listener is not None else None
