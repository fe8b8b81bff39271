"""A node: the running process of a broker. The only module that knows all others, and their order.

Django asks a `Node` and nothing behind it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from broker_app.base.events import PAUSE, RESUME, Event
from broker_app.base.internal_errors import internal_errors
from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.config import Config, overridden
from broker_app.core.broker import Broker
from broker_app.core.commands import Reconfigure
from broker_app.engine import Engine
from broker_app.features.cluster.record.destination_applier import Configuration
from broker_app.features.mirror.configuration_replicator import ConfigurationReplicator
from broker_app.features.mirror.mirror import Mirror
from broker_app.features.mirror.refusals import moved
from broker_app.features.services.registry import ServiceRegistry
from broker_app.journal.log.segments import SegmentJournal
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.members.membership import Member
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.broker_state import BrokerState, Order
from broker_app.net.json import JsonServer
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import RestApi, RestLimits
from broker_app.net.rest.node import opsmanager
from broker_app.net.rest.rest_parts import RestParts
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
from broker_app.node.central_settings import SettingsSource
from broker_app.node.collector_pauses import CollectorPauses
from broker_app.node.core_settings import limits_of, policies_of
from broker_app.node.features.cluster import Membership
from broker_app.node.features.feature import NodeParts
from broker_app.node.features.features import Features, Given
from broker_app.node.features.mirrors import Shared
from broker_app.node.features.operation import OperationFeature, Orders
from broker_app.node.housekeeping import Housekeeping
from broker_app.node.operations import Operations
from broker_app.node.policy_follower import PolicyFollower
from broker_app.node.store_usage import StoreUsage
from broker_app.node.system_events import SystemEvents
from broker_app.node.system_publisher import SystemPublisher
from broker_app.node.telemetry import Telemetry
from broker_app.peers.http_client.exchange import Poster
from broker_app.reflex.declaration import Declaration
from broker_app.storage.factory import make_files
from broker_app.telemetry import Statistics
from broker_app.telemetry.alerts import AlertEvaluator
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.pipeline_store import NoPipeline, PipelineStore

log = logging.getLogger(__name__)

_SHUTDOWN = Refused("not-active", "the broker is shutting down; connect again or use another broker")

App = Callable[[dict[str, object], Any, Any], Awaitable[None]]


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
    process again when that was ordered. `pauses` is for a process that this node has to itself: all that a
    process does has one garbage collector.
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
        settings: SettingsSource | None = None,
        *,
        can_restart: bool = False,
        pauses: CollectorPauses | None = None,
    ) -> None:
        #: the settings that the node is started with; the policy overrides some of them
        self._started_with = config
        self._control_document = control_document
        self._certificates = certificates
        self._given = Given(
            shared=shared,
            reflexes=reflexes,
            pipeline=pipeline or NoPipeline(),
            make_poster=make_poster,
        )
        self._configuration = configuration
        self._settings = settings
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
        self._audit_tasks = TaskSupervisor()
        #: the last orders, on their way to the mirrors
        self._carrying: asyncio.Task[None] | None = None
        #: what happened to bridges, files and alerts
        self.events = EventLog(time.time)
        #: set with the broker that takes over, when an operator has ordered a switch-over
        self.handed_over: asyncio.Future[Member] = loop.create_future()
        #: set when an operator has ordered that the broker stops: True if it is to start again
        self.shut_down: asyncio.Future[bool] = loop.create_future()
        self._can_restart = can_restart
        self._pauses = pauses
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
        self.features: Features
        self.alerts: AlertEvaluator
        self.registry: SessionRegistry
        self.json: JsonServer
        self.rest: RestApi
        self.operations: Operations
        self._services: Services
        #: the search for the broker that has the journal, after this one has lost it
        self._moved: asyncio.Task[Refused | None] | None = None
        #: parts that are there and wait for the engine, to be called with what ended it
        self._on_engine_end: list[Callable[[BaseException], None]] = []
        self._started = AsyncExitStack()
        #: the listeners and sessions of STOMP
        self._input = ExitStack()

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
        without a reason. If it has failed, only when another broker has taken over by now: else that is seen
        later."""
        refusal = await self._refusal()
        if refusal is not _SHUTDOWN or not self.failed.done():
            await self.json.end_all(refusal)

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
        engine, state = self.engine, self.state
        config = overridden(self._started_with, self.logins.policy.broker)
        started.callback(self._journal.close)
        self._recover(started)
        self._keep_audit_log(started)
        started.push_async_callback(self._stop_engine)
        self._keep_pauses_short(started)

        parts = self._parts(config)
        ports = Ports(self.web_port or 0, _port_of(stomp), _port_of(stomp_tls), _port_of(cluster))
        self.features = features = Features(parts, self._given_with(cluster, ports))
        self.json = JsonServer(
            *(engine, self.logins, parts.access, config, parts.services, parts.live),
            self.registry.channels,
            version=f"MOM/{VERSION}",
            state=state,
        )
        self.logins.present = lambda: (*self.registry.identities(), *self.json.identities())
        store = StoreUsage(config, self._journal, self.events)
        telemetry = Telemetry(parts, features, store, self.decisions, self._given.pipeline)
        self.alerts = telemetry.alerts
        telemetry.start()
        started.push_async_callback(telemetry.stop)
        # Its endpoints need what the other features report.
        features.list.append(operation := self._operation(parts, telemetry, store))
        self.rest = rest = self._rest_api(parts)
        for engine_ended in (
            *(self.registry.engine_ended, self.json.engine_ended, rest.engine_ended),
            *(feature.engine_ended for feature in features.list),
        ):
            self._when_engine_ends(engine_ended)
        self.operations = Operations(rest.engine_client, features, operation.alerts, parts.access)
        policy = PolicyFollower(
            self._started_with, engine, self.logins, self.registry, self.json, rest, features
        )
        browser_sessions = BrowserSessions(self.logins, self.registry, self.json, rest)
        self._services = Services(policy, browser_sessions, telemetry.events)
        housekeeping = Housekeeping(
            config, engine, self._journal, parts.statistics, self.registry, features.jobs.jobs
        )
        for listener in (
            *(store.check, self._notices(parts).each_second),
            *(feature.each_second for feature in features.list),
            *(telemetry.alerts.evaluate_if_due, telemetry.topics.publish),
        ):
            housekeeping.each_second.add(listener)
        if self._pauses is not None:
            housekeeping.each_second.add(self._pauses.check)
        state.listeners.add(self._state_changed)

        tasks = TaskSupervisor()
        started.push_async_callback(tasks.stop)
        tasks.start("time limits of sessions", self.registry.keep_time)
        tasks.start("policy", policy.run)
        tasks.start("browser sessions", browser_sessions.run)
        tasks.start("housekeeping", housekeeping.run)
        await self._start_features(started, tasks)
        if self.failed.done():
            raise self.failed.result()
        self._input.callback(self._end_sessions)
        started.callback(self._end_sessions)  # those that have come over WebSocket since
        started.callback(self.end_input)
        await self._listen(tasks, stomp, stomp_tls)
        started.callback(rest.stop)

    def _parts(self, config: Config) -> NodeParts:
        """The parts that features may use."""
        engine, logins = self.engine, self.logins
        access = Access(logins, self.decisions.note)
        self.registry = registry = SessionRegistry(
            engine, logins, access, config, ids=self.broker.turn.ids, state=self.state
        )
        if self.web_port is not None:
            registry.websocket_url = config.websocket_url(self.web_port)
        statistics = Statistics(self.broker, config.name, VERSION, destinations=config.histories)
        return NodeParts(
            config=config,
            engine=engine,
            journal=self._journal,
            logins=logins,
            access=access,
            state=self.state,
            events=self.events,
            statistics=statistics,
            sessions=registry,
            connections=Connections(registry),
            services=ServiceRegistry(),
            live=LiveSubscribers(),
            publisher=SystemPublisher(engine),
            rest=RestParts(engine, logins, access, statistics, RestLimits.of(config)),
            failed=self.failed,
        )

    def _given_with(self, cluster: socket.socket | None, ports: Ports) -> Given:
        """The things that the caller gave, with the listener for other brokers of the cluster."""
        if cluster is None:
            return self._given
        epoch = self._shared.taken.journal.epoch if self._shared is not None else None
        membership = Membership(
            *(cluster, ports, self._certificates, self._configuration, epoch),
            *(self._settings, lambda: self._started_with, self._use_settings),
        )
        return self._given._replace(membership=membership)

    def _operation(self, parts: NodeParts, telemetry: Telemetry, store: StoreUsage) -> OperationFeature:
        return OperationFeature(
            parts,
            Orders(self._shut_down, self._restart_refusal),
            telemetry.alerts,
            telemetry.events.target_tests,
            telemetry.metrics,
            clients=self._clients,
            nearly_full=lambda: store.nearly_full,
            control_document=self._control_document,
        )

    def _rest_api(self, parts: NodeParts) -> RestApi:
        monitored = opsmanager.MonitoredStats(
            *(self.broker, parts.config, parts.statistics, parts.connections),
            *(self.features.bridges.supervisor, self._journal.statistics, time.time()),
        )
        return RestApi(
            *(parts.rest, self.features.endpoints(), parts.config),
            actions=self.actions,
            state=self.state,
            others=(monitored.router(),),
            control_document=self._control_document,
            successor=self._successor if self._shared is not None else None,
        )

    async def _start_features(self, started: AsyncExitStack, tasks: TaskSupervisor) -> None:
        """Start them in their order. They finish before the clients' connections are closed, and stop after
        that."""
        for feature in self.features.list:
            started.push_async_callback(feature.stop)
            for name, task in feature.tasks().items():
                tasks.start(name, task)
        started.push_async_callback(self._close_clients)
        started.push_async_callback(self._finish_accepted)
        for feature in self.features.list:
            await feature.start()
            started.push_async_callback(feature.finish)

    def _notices(self, parts: NodeParts) -> BrokerNotices:
        """Notices of orders, from now on."""
        notices = BrokerNotices(
            parts.config.name, self.state, self.events, lambda: sum(self._clients().values())
        )
        self.state.listeners.add(notices.ordered)
        return notices

    def _clients(self) -> dict[str, int]:
        """The connections of clients by protocol; of REST, the requests that wait for messages."""
        return {
            "stomp": self.registry.of_programs,
            "json": len(self.json.sessions),
            "rest": self.rest.receiving,
        }

    def _recover(self, started: AsyncExitStack) -> None:
        """Rebuild the broker from its journal, unless that was done on standby."""
        if self._shared is None:
            for line in self.engine.recover():
                log.warning("journal: %s", line)
            return
        journal, mirror = self._shared.taken.journal, self._shared.mirror
        journal.on_lease_lost(self._fail)
        self.engine.adopt()
        config = overridden(self._started_with, self.logins.policy.broker)
        self.engine.submit(Reconfigure(policies_of(self.logins.policy), limits_of(config)))
        mirror.serve(self._shared.taken, self)
        started.push_async_callback(mirror.stop_serving)
        if self._shared.replicator is not None:
            self._shared.replicator.serve(journal)
            started.push_async_callback(self._shared.replicator.store)

    def _keep_pauses_short(self, started: AsyncExitStack) -> None:
        """Collect what recovery has left, and have no long pauses from now on. A takeover is not delayed."""
        if self._pauses is None:
            return
        if self._shared is None:
            gc.collect()
        self._pauses.start()
        started.callback(self._pauses.stop)

    def _keep_audit_log(self, started: AsyncExitStack) -> None:
        """Write the audit log. Its last entries are written before the configuration is replicated last."""
        self._begin_audit_log()
        started.push_async_callback(self._end_audit_log)

    def _begin_audit_log(self) -> None:
        if self._audit_log is not None:
            self._audit_tasks.start("audit log", partial(self._audit_log.keep, self.actions))

    async def _end_audit_log(self) -> None:
        if self._carrying is not None:
            await self._carrying
        await self._audit_tasks.stop()

    async def _carry_orders(self, replicator: ConfigurationReplicator) -> None:
        """Write the orders of operators, and replicate them, while clients end: the mirror waits for both."""
        await self._audit_tasks.stop()
        self._begin_audit_log()
        await replicator.store()

    async def _stop_engine(self) -> None:
        # A standby has applied everything, and takes over sooner without a snapshot.
        await self.engine.stop(snapshot=self.mirror is None or not self.mirror.standbys)

    def hold_input(self, on: bool) -> None:
        """Read nothing more from clients over STOMP, or read again."""
        self.registry.hold_input(on)

    def hand_over(self, successor: Member) -> None:
        """End, since an operator has ordered that another broker takes over."""
        if not self.handed_over.done():
            self.handed_over.set_result(successor)
            self.end_input()
            replicator = self._shared.replicator if self._shared is not None else None
            if replicator is not None and self.actions.are_waiting:
                self._carrying = asyncio.create_task(self._carry_orders(replicator))

    def _shut_down(self, restart: bool) -> None:
        if not self.shut_down.done():
            self.shut_down.set_result(restart)
            self.end_input()

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

    def _state_changed(self, event: Event, _: Order) -> None:
        """Stop to serve clients, or serve them again."""
        if event == PAUSE:
            self.registry.suspend()
            self.json.suspend()
        elif event == RESUME:
            self.registry.resume()
            self.json.resume()

    def end_input(self) -> None:
        """Take nothing more from clients over STOMP as soon as it is known that the node will stop: each turn
        of the loop until then has more of those that go on sending."""
        self._input.close()

    def _end_sessions(self) -> None:
        """Take nothing more from clients, or those that go on sending would hold up the end. Where they
        should go after a failure is seen later."""
        if not self.failed.done():
            self.registry.end_all(_SHUTDOWN)

    async def _close_clients(self) -> None:
        refusal = await self._refusal()
        self.json.close_all(refusal)
        await self.registry.close_all(refusal)

    async def _refusal(self) -> Refused:
        """The last answer to clients: if this broker has lost its journal, it names the one that has it, or
        others of its cluster."""
        return await self._successor() or _SHUTDOWN

    async def _successor(self) -> Refused | None:
        """The refusal by a broker that has lost its journal; None while it has not, or no other one is
        known."""
        if self.mirror is None or not self.failed.done():
            return None
        if self._moved is None:
            self._moved = asyncio.ensure_future(self._find_successor(self.mirror))
        return await asyncio.shield(self._moved)

    async def _find_successor(self, mirror: Mirror) -> Refused | None:
        new_active = await mirror.find_new_active()
        if new_active is not None:
            web = new_active.web or self.features.cluster.web_of(new_active.id)
            refusal = moved(mirror.name, new_active, web)
        elif self.state.other_web():  # of a cluster: each of them takes clients
            state = f"broker {mirror.name} has lost its journal, which another broker takes over"
            refusal = self.state.elsewhere("not-active", state, "connect again in a moment")
        else:
            return None
        log.error("%s", refusal.detail)
        return refusal

    async def _finish_accepted(self) -> None:
        if self.engine.ended is None:
            await self.engine.wait_idle()

    async def _listen(
        self, tasks: TaskSupervisor, stomp: socket.socket | None, stomp_tls: socket.socket | None
    ) -> None:
        if stomp is not None:
            self.stomp_port = stomp.getsockname()[1]
            self._input.callback((await tcp.listen(self.registry, stomp)).close)
        if self._certificates is not None:
            tasks.start("certificates", self._certificates.follow)
            if stomp_tls is not None:
                self.stomp_tls_port = stomp_tls.getsockname()[1]
                self._input.callback(tcp.listen_tls(self.registry, stomp_tls, self._certificates).close)

    # ------------------------------------------------------------------ what Django asks

    async def serve_websocket(
        self, scope: dict[str, object], receive: Any, send: Any, identity: Identity | None
    ) -> None:
        """Serve one WebSocket, whose client speaks STOMP or JSON."""
        try:
            await web_socket.serve(self.registry, self.json, scope, receive, send, identity)
        except OSError:  # the client has left before it was accepted
            raise
        except Exception as error:
            internal_errors.note("a WebSocket", error)
            raise

    def _use_settings(self, changes: Mapping[str, Any]) -> Config:
        """Replace settings, below those of the policy, from now on; returns them all."""
        self._started_with = replace(self._started_with, **changes)
        self._services.policy.settings_changed(self._started_with)
        return self._started_with

    def reload(self, policy: Policy) -> None:
        """Use another policy; `wait_policy` returns when it is applied to what had begun before."""
        self._services.policy.reload(policy)

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

    def files_read(self, about: Facts, *, refused: bool) -> None:
        """Files of the configuration were read again, or `refused`.

        `about` are the facts, with the `version` of the configuration that followed, or None.
        """
        self._services.system_events.files_read(about, refused=refused)
        if not refused and self._services.policy.config.smash_reload:
            self._services.policy.restart_bridges(about["version"])

    def cluster_consoles(self) -> list[str]:
        """The addresses of the consoles of the other brokers of the cluster, as far as they are known."""
        return self.features.cluster.consoles()

    async def in_use(self) -> list[ActiveUse]:
        """The destinations and permissions that connected clients use."""
        return await in_use(self.registry)


def _port_of(listener: socket.socket | None) -> int | None:
    return listener.getsockname()[1] if listener is not None else None
