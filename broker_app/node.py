"""A node: the running process of a broker. The only place that knows all rooms, and their order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

from broker_app.bridge.connection_test import try_connection
from broker_app.bridge.drain import with_draining
from broker_app.bridge.supervisor import Supervisor
from broker_app.bridge.timeline import Event as BridgeEvent
from broker_app.config import ALL_BRIDGES, Config, overridden
from broker_app.core.broker import Broker
from broker_app.core.commands import DeliverTo, Publish, Reconfigure
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.core.policy import Policies
from broker_app.core.selective import compiler
from broker_app.engine import Engine
from broker_app.internal_errors import EventListeners, internal_errors
from broker_app.jobs.job_manager import Jobs
from broker_app.journal.segments import SegmentJournal
from broker_app.listeners import Listeners
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.operator_audit import Acts
from broker_app.net.policy.access import Access
from broker_app.net.policy.active_use import Using, in_use
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import RestLimits, RestPlane
from broker_app.net.rest.ndjson import MessageLines
from broker_app.net.rest.refusals import Refusal
from broker_app.net.stomp import tcp, websocket
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session import VERSION, StompSession
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.net.tls.certificates import Certificates
from broker_app.net.tls.listener import TlsListener
from broker_app.notifications import Mailer, Notification, RetryQueue, Target
from broker_app.notifications.delivery import NOTICED, deliver, notice, targets
from broker_app.serve import serve
from broker_app.task_supervisor import TaskSupervisor, count_unhandled, supervised
from broker_app.telemetry import Statistics, SystemTopics
from broker_app.telemetry.alerts import AlertEvaluator, AlertEvent, ConditionChecks
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.bridges import status
from broker_app.telemetry.event_log import ALERTS, BRIDGES, FILES, EventLog

log = logging.getLogger(__name__)

#: how often browser sessions are looked at that have opened something
_LOOK_AT_SESSIONS_S = 5.0

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Ports(NamedTuple):
    """Where a node listens; None for what it does not serve."""

    web: int
    stomp: int | None
    stomp_tls: int | None


class SystemPublisher(InnerReceiver):
    """The broker's own publisher: a peer that receives nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="$mom")

    def publish(self, entries: list[tuple[Envelope, bytes]]) -> None:
        size = sum(len(body) for _, body in entries)
        self._engine.submit(Publish(self._peer, [(envelope, body, None) for envelope, body in entries]), size)

    def hand(self, subscription: Subscription, entries: list[tuple[Envelope, bytes]]) -> None:
        self._engine.submit(DeliverTo(subscription, entries), sum(len(body) for _, body in entries))


class Node:
    """Starts journal, engine and transports in that order, and stops them in the reverse one."""

    def __init__(
        self,
        config: Config,
        logins: Logins,
        control_document: Mapping[str, Any] | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        #: as the node was started; what is said for the broker while it runs replaces some of it
        self._started_with = config
        self.config = config = overridden(config, logins.policy.broker)
        self._certificates = certificates
        self.logins = logins
        #: what rules decided of late
        self.decisions = Decisions()
        self.access = Access(logins, self.decisions.note)
        #: what operators did and the audit log does not have yet
        self.acts = Acts()
        self.loop = loop = asyncio.get_running_loop()
        #: set when a policy came that is not obeyed yet
        self._came = asyncio.Event()
        #: the version that all sessions obey, and who waits for a later one
        self._applied_version = logins.policy.version
        self._policy_applied = asyncio.Condition()
        #: when a policy of this version is there, all bridges are to begin anew
        self._bridges_anew: int | None = None
        self.journal = SegmentJournal(
            config.data / "journal",
            segment_bytes=config.segment_bytes,
            retention_bytes=config.journal_retention_bytes,
            call_soon_threadsafe=loop.call_soon_threadsafe,
        )
        self.broker = Broker(limits=_limits(config), policies=_policies(logins.policy))
        #: set when the node must end because of an error
        self.failed: asyncio.Future[BaseException] = loop.create_future()
        self.engine = Engine(self.broker, self.journal, inbox_bytes=config.inbox_bytes, failed=self._fail)
        self.statistics = Statistics(
            self.broker, config.name, VERSION, destinations=config.stats_destinations
        )
        #: what happened to bridges and to files
        self.events = EventLog(time.time)
        self._control_document = control_document
        self._tasks = TaskSupervisor()
        #: the failure of the journal's work in the background that was logged last
        self._complaint: Exception | None = None
        #: called once a second, after the statistics
        self._each_second: EventListeners[[]] = EventListeners("what happens each second")
        self._servers: list[asyncio.Server | TlsListener] = []
        #: where STOMP is spoken, plain and over TLS; None where it is not
        self.stomp_port: int | None = None
        self.stomp_tls_port: int | None = None
        self.registry: SessionRegistry
        self.connections: Connections
        self.system_topics: SystemTopics
        self.jobs: Jobs
        self.rest: RestPlane
        self.bridges: Supervisor
        self.alerts: AlertEvaluator
        self.notifications: RetryQueue
        self._voice: SystemPublisher
        self._post = Mailer(
            config.smtp_host,
            config.smtp_port,
            config.smtp_tls,
            config.smtp_user,
            config.smtp_password,
            config.smtp_from,
        )

    def _fail(self, error: BaseException) -> None:
        self.rest.engine_ended(error)
        self.jobs.engine_ended(error)
        if not self.failed.done():
            self.failed.set_result(error)

    async def start(self, stomp: socket.socket | None, stomp_tls: socket.socket | None) -> None:
        """Recover, then accept STOMP clients, plain and over TLS. The caller starts the web listener."""
        for line in self.engine.recover():
            log.warning("journal: %s", line)
        # The first selector builds the grammar, which would hold up everybody when a client brings it.
        await asyncio.to_thread(compiler.compile, "a = 1")
        # What recovery built stays; the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self.registry = SessionRegistry(
            self.engine, self.logins, self.access, self.config, ids=self.broker.turn.ids
        )
        self.connections = Connections(self.registry)
        self._voice = SystemPublisher(self.engine)
        self.system_topics = SystemTopics(
            self.broker,
            self.statistics,
            self._voice,
            name=self.config.name,
            boot=secrets.token_hex(4),
            connections=self.connections.all,
            bridges=lambda: [status(self.statistics, report) for report in self.bridges.reports()],
            jobs=lambda: [job.progress for job in self.jobs.all()],
            alerts=lambda: [shown(alert) for alert in self.alerts.watch.open()],
            clock=time.time,
        )
        # A broker that begins anew is another sender: it numbers its messages from the beginning.
        self.bridges = Supervisor(self.engine, f"{self.config.name}~{self.journal.tag:x}")
        self.bridges.listeners.add(self._tell_of_bridge)
        self.engine.listeners.add(self.bridges.on_events)
        self.engine.listeners.add(self.system_topics.on_events)
        self.registry.listeners.add(self._tell_of_connection)
        self.events.listeners.add(lambda event: self.system_topics.logged(event.shown()))
        self.notifications = RetryQueue(self._deliver, self._gave_up)
        self.alerts = self._watch()
        lines = MessageLines(RestLimits.of(self.config))
        self.jobs = Jobs(self.engine, self.engine.read, self.config.data / "jobs", lines)
        self.jobs.start()
        self.rest = RestPlane(
            self.engine,
            self.engine.read,
            self.logins,
            self.config,
            self.jobs,
            access=self.access,
            acts=self.acts,
            statistics=self.statistics,
            connections=self.connections,
            forwarding=self.bridges,
            trial=partial(try_connection, sender=self.config.name),
            sizes=self.journal.statistics,
            events=self.events,
            alerts=self.alerts,
            control_document=self._control_document,
        )
        if stomp is not None:
            self.stomp_port = stomp.getsockname()[1]
            self._servers.append(await tcp.listen(self.registry, stomp))
        if self._certificates is not None:
            self._tasks.start("certificates", self._certificates.follow)
            if stomp_tls is not None:
                self.stomp_tls_port = stomp_tls.getsockname()[1]
                self._servers.append(tcp.listen_tls(self.registry, stomp_tls, self._certificates))
        self.statistics.loop_lag.start()
        self.engine.clock_listeners.add(self.statistics.clock_stepped)
        self.engine.clock_listeners.add(self.alerts.clock_stepped)
        self._tasks.start("time-outs", self.registry.keep_time)
        self._tasks.start("rights", self._apply_policy)
        self._tasks.start("browser sessions", self._watch_sessions)
        for act in (self._look_at_journal, self.connections.look, self.alerts.look, self.system_topics.tell):
            self._each_second.add(act)
        self._tasks.start("statistics", self._keep_statistics)
        self.bridges.start(self.logins.policy.bridges)

    def _watch(self) -> AlertEvaluator:
        """The alerts, with what was said to them before the node stopped."""
        checks = ConditionChecks(
            self.broker,
            self.statistics,
            bridges=self.bridges.reports,
            taken=self._store_taken,
            flapping=self.connections.client_events.flapping,
            events=self.events.all,
        )
        duty = AlertEvaluator(
            self.config.data / "alerts.json", checks, lambda: self.logins.policy.alerts, time.time
        )
        duty.start()
        duty.listeners.add(self._tell_of_alert)
        return duty

    def _store_taken(self) -> float:
        """Which part of the room for the journal is taken: of what it may have, or of what the disk has."""
        journal = self.journal.statistics()
        if self.config.max_store_bytes:
            return journal["bytes_stored"] / self.config.max_store_bytes
        on_disk = journal["bytes_on_disk"]
        return on_disk / max(1, on_disk + shutil.disk_usage(self.config.data).free)

    async def serve_websocket(
        self, scope: dict[str, Any], receive: Any, send: Any, identity: Identity | None
    ) -> None:
        try:
            await websocket.serve(self.registry, scope, receive, send, identity)
        except Exception as error:
            internal_errors.note("a WebSocket", error)
            raise

    def reload(self, policy: Policy) -> None:
        """Swap the policy between two batches: what comes from now on is under the new one. `wait_policy`
        tells when what had begun before has ended where it must."""
        former = self.logins.policy
        config = overridden(self._started_with, policy.broker)
        policies = _policies(policy)
        if config != self.config or policies != _policies(former):
            limits = _limits(config) if config != self.config else None
            self.engine.submit(Reconfigure(policies, limits))
        self.logins.reload(policy)
        self.bridges.reload(policy.bridges)
        if config != self.config:
            self.config = config
            self.registry.configure(config)
            self.rest.configure(config)
        self.registry.policy_changed()
        self.rest.policy_changed()
        self._came.set()

    def end_session(self, session: str) -> None:
        """A browser session is over: so is what it has opened."""
        self.logins.end_session(session)
        self.registry.recheck_logins()
        self.rest.policy_changed()

    async def _watch_sessions(self) -> None:
        """End what was opened by browser sessions that expire, or that another process ends."""
        while True:
            await asyncio.sleep(_LOOK_AT_SESSIONS_S)
            try:
                over = await self.logins.sessions_over([*self.logins.present(), *self.rest.waiting()])
            except Exception as error:  # of the configuration database; the next round tries again
                log.warning("cannot look at browser sessions: %s", error)
                continue
            for session in over:
                self.end_session(session)

    async def _apply_policy(self) -> None:
        """After each new policy, end what sessions have lost the right to."""
        while True:
            await self._came.wait()
            self._came.clear()
            version = self.logins.policy.version
            try:
                await self._end_what_lost_its_right()
            except Exception:
                self._came.set()  # it is not obeyed yet
                raise
            if self._bridges_anew is not None and self._bridges_anew <= version:
                self._bridges_anew = None
                self.bridges.restart_all("files of the configuration were read again")
            async with self._policy_applied:
                self._applied_version = version
                self._policy_applied.notify_all()

    async def _end_what_lost_its_right(self) -> None:
        with contextlib.suppress(Refusal):  # the engine has ended, and nothing is left to see to
            await self.rest.turn()  # subscriptions that were asked for before are there by now
            await self.registry.recheck_permissions()
            await self.rest.turn()  # and those that were to end have ended

    def files_read(self, about: dict[str, Any], *, refused: bool) -> None:
        """Files of the configuration were read again, or `refused`: told to whoever listens. `about` are the
        facts, with the `version` that it led to, or None."""
        self.system_topics.files(about)
        self._log_files(about, refused=refused)
        if not refused and self.config.reload_bridges == ALL_BRIDGES:
            self._bridges_anew = about["version"] or self._applied_version
            self._came.set()

    def _log_files(self, about: dict[str, Any], *, refused: bool) -> None:
        """Which files came to what, with each error's place."""
        counts = ", ".join(f"{about[act]} {act}" for act in ("added", "changed", "removed"))
        detail = "; ".join(about["errors"]) if refused else counts
        code = "CONFIG" if refused else ""
        self.events.note(FILES, about["occasion"], about["outcome"], code=code, detail=detail, **about)

    async def in_use(self) -> list[Using]:
        """What connected clients use."""
        return await in_use(self.registry)

    async def wait_policy(self, version: int) -> None:
        """Wait until the policy of this version, or a later one, holds for everybody and everything."""
        async with self._policy_applied:
            await self._policy_applied.wait_for(lambda: self._applied_version >= version)

    def _tell_of_bridge(self, name: str, event: BridgeEvent) -> None:
        self.events.note(BRIDGES, name, event.event, code=event.code, detail=event.detail, queue=event.queue)

    def _tell_of_alert(self, told: AlertEvent) -> None:
        about, alert = shown(told.alert), told.alert
        self.system_topics.alert(told.event, about)
        code = alert.condition.upper() if told.event == "fired" else ""
        self.events.note(ALERTS, alert.rule, told.event, code=code, detail=about["detail"], alert=alert.id)
        if told.event in NOTICED:
            for target in targets(alert, self.logins.policy.alerts, self.config.alert_notify):
                self.notifications.put(target, notice(told, self.config.name, self.config.console_url))

    async def _deliver(self, target: Target, told: Notification) -> None:
        await deliver(target, told, self._voice, self._post)

    def _gave_up(self, target: Target, told: Notification, fault: str) -> None:
        log.warning("a notice of an alert could not be delivered to %s: %s", target.where, fault)
        self.events.note(ALERTS, told.id, "not delivered", code="NOTICE", detail=f"{target.where}: {fault}")

    def _tell_of_connection(self, event: str, session: StompSession) -> None:
        if self.system_topics.has_subscribers:
            self.system_topics.connection(event, self.connections.facts(session), session.close_reason)

    async def _keep_statistics(self) -> None:
        """One sample a second, and what is told to whoever listens."""
        while True:
            try:
                await self._sample()
            except Exception as error:  # alerts go on by what is known
                internal_errors.note("the statistics", error)
            self._each_second()
            # A tenth into the next second: timers may be early, and each second is to have one pass.
            await asyncio.sleep(1.5 - (time.time() + 0.4) % 1.0)

    async def _sample(self) -> None:
        journal = self.journal.statistics()
        sessions, on_disk = len(self.registry.sessions), journal["bytes_on_disk"]
        for _ in self.statistics.passing(
            time.time(), connections=sessions, journal_bytes=on_disk, job_bytes=self.jobs.bytes_kept
        ):
            await asyncio.sleep(0)

    def _look_at_journal(self) -> None:
        """See how much may still be stored, and whether the journal has a complaint."""
        if self.journal.background_error is not self._complaint:
            self._complaint = self.journal.background_error
            log.warning("the journal goes on, but work in the background failed: %s", self._complaint)
        if self.config.max_store_bytes:
            stored = self.journal.statistics()["bytes_stored"]
            self.engine.store_left = self.config.max_store_bytes - stored

    async def stop(self) -> None:
        """Take no more, finish what was accepted, tell the clients, keep a snapshot."""
        self.rest.stop()
        for server in self._servers:
            server.close()
        await self.bridges.stop()
        await self.jobs.stop()
        if self.engine.ended is None:
            await self.engine.wait_idle()
        await self.registry.close_all("the broker is shutting down; connect again or use another broker")
        await self._tasks.stop()
        self.statistics.loop_lag.stop()
        await self.alerts.stop()
        await self.notifications.stop()
        await self.engine.stop()
        self.journal.close()


def _policies(policy: Policy) -> Policies:
    """Those of destinations, as far as the core is to know them."""
    return with_draining(policy.destinations.policies, policy.bridges.values())


def _limits(config: Config) -> Limits:
    return Limits(
        memory_bytes=config.memory_bytes,
        subscriptions_per_peer=config.max_subscriptions,
        transactions_per_peer=config.max_transactions,
        bytes_per_transaction=config.max_transaction_bytes,
        max_messages=config.max_messages,
        max_bytes=config.max_bytes,
        transient_bytes=config.transient_bytes,
        patience_ms=round(config.full_wait * 1000),
        blocked_bytes=config.waiting_bytes,
    )


async def run(
    config: Config,
    logins: Logins,
    listeners: Listeners,
    *,
    site: Callable[[Node], App],
    follow: Callable[[Callable[[Policy], object]], Coroutine[Any, Any, Any]],
    keep: Callable[[Acts], Coroutine[Any, Any, Any]],
    ready: Callable[[Ports], None],
    control_document: Mapping[str, Any] | None = None,
) -> None:
    """Run a node with its web server at `listeners` until SIGTERM or SIGINT, or until its journal fails.

    `site` makes the ASGI application around the node, `follow` tells it of new policies, `keep` writes down
    what operators do until it is cancelled, `ready` is called with the ports when all are served,
    `control_document` is the OpenAPI document of the site. Raises what ended the node, if it failed.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(count_unhandled)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    certificates = Certificates(config) if config.tls_cert is not None else None
    if certificates is not None:
        loop.add_signal_handler(signal.SIGHUP, certificates.look)
    node = Node(config, logins, control_document, certificates)
    await node.start(listeners.stomp, listeners.stomp_tls)
    ports = Ports(listeners.web.getsockname()[1], node.stomp_port, node.stomp_tls_port)
    web = asyncio.create_task(serve(site(node), config, listeners.web, stop, node.rest.direct, certificates))
    following = asyncio.create_task(follow(node.reload))
    keeping = asyncio.create_task(supervised("audit log", partial(keep, node.acts)))
    stopped = asyncio.create_task(stop.wait())
    ready(ports)
    endings: set[asyncio.Future[Any]] = {web, stopped, node.failed, following}
    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
    failures = [task.exception() for task in (web, following) if task.done() and not stop.is_set()]
    failures += [node.failed.result()] if node.failed.done() else []
    stop.set()
    following.cancel()
    try:
        async with asyncio.timeout(config.drain):
            await node.stop()
    except TimeoutError:
        log.warning("not everything ended within %g s", config.drain)
    keeping.cancel()
    await asyncio.gather(web, following, keeping, return_exceptions=True)
    for failure in failures:
        raise failure or RuntimeError("the web server ended without being told to")
