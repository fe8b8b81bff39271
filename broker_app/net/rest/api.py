"""The REST data plane: a bare ASGI callable that feeds the engine as a client like any other."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker_app.bulk.batch_commits import BatchCommits
from broker_app.config import Config
from broker_app.core.commands import DeleteQueue
from broker_app.core.destination import QUEUE, TOPIC
from broker_app.engine import Engine
from broker_app.jobs.job_manager import JobManager
from broker_app.jobs.message_reader import JournalRead
from broker_app.journal.port import Journal
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.http.origin_check import Origins
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.destination_settings import Destinations
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import message_json, openapi, opsmanager
from broker_app.net.rest.alerts import AlertEndpoints, AlertOperations, add_alerts
from broker_app.net.rest.arrival_stream import ArrivalStream
from broker_app.net.rest.batch import BatchPublisher
from broker_app.net.rest.bridge_queues import BridgeQueues
from broker_app.net.rest.bridges import BridgeEndpoints, ConnectionTester
from broker_app.net.rest.browse import Browser
from broker_app.net.rest.bulk import BulkEndpoints, add_bulk
from broker_app.net.rest.callbacks import CallbackEndpoints, add_callbacks
from broker_app.net.rest.chosen import ChosenMessages
from broker_app.net.rest.connections import ConnectionEndpoints
from broker_app.net.rest.consumers import ConsumerEndpoints
from broker_app.net.rest.credentials import Credentials
from broker_app.net.rest.cursor_status import CursorStatus
from broker_app.net.rest.cursors import CursorEndpoints
from broker_app.net.rest.destinations import QueueEndpoints, TopicEndpoints
from broker_app.net.rest.digest import DigestEndpoint
from broker_app.net.rest.dispatcher import Dispatcher
from broker_app.net.rest.engine_client import EngineClient
from broker_app.net.rest.envelopes import Envelopes
from broker_app.net.rest.event_log import EventLogEndpoint
from broker_app.net.rest.fast_publish import FastPublish
from broker_app.net.rest.histories import Histories
from broker_app.net.rest.idempotency import IdempotencyStore
from broker_app.net.rest.jobs import JobEndpoints
from broker_app.net.rest.journal import JournalEndpoints
from broker_app.net.rest.journal_rights import JournalRights
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.live_subscribers import LiveSubscriberEndpoint
from broker_app.net.rest.long_poll import WaitingRequests
from broker_app.net.rest.message_stream import MessageStream
from broker_app.net.rest.metrics import DetailedEndpoint, Metrics, MetricsEndpoints, add_metrics
from broker_app.net.rest.mirrors import MirrorEndpoints, MirrorOperations, add_mirrors
from broker_app.net.rest.node_info import NodeEndpoints
from broker_app.net.rest.origins import OriginEndpoint, ReadOrigins
from broker_app.net.rest.pipeline_routes import add_pipeline
from broker_app.net.rest.polls import Polls
from broker_app.net.rest.profiles import ProfileEndpoints, Seeds
from broker_app.net.rest.publish import Publisher
from broker_app.net.rest.receive import Receiver
from broker_app.net.rest.reflexes import ReflexEndpoints, add_reflexes
from broker_app.net.rest.replies import Header, Reply
from broker_app.net.rest.requests import Receive, Request, Scope, Send
from broker_app.net.rest.routing import Endpoint, Match, Route, Router, raw_path_of
from broker_app.net.rest.services import ServiceEndpoints
from broker_app.net.rest.settle import Settler
from broker_app.net.rest.shutdown import ShutdownEndpoint
from broker_app.net.rest.single_message import MessageEndpoints
from broker_app.net.rest.stats import StatsEndpoints
from broker_app.net.rest.stored_history import StoredHistoryEndpoint
from broker_app.net.rest.subscriptions import Subscriptions
from broker_app.net.rest.tail import TailEndpoints
from broker_app.net.rest.tree import Tree
from broker_app.net.service_registry import ServiceRegistry
from broker_app.net.stomp.connections import Connections
from broker_app.reflex.reflexes import Reflexes
from broker_app.remote import Remote
from broker_app.telemetry import Statistics
from broker_app.telemetry.bridges import Facts, Forwarding
from broker_app.telemetry.callbacks import Callbacks
from broker_app.telemetry.cursor_lags import CursorLags
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.pipeline_store import PipelineStore

_log = logging.getLogger(__name__)
#: settings of patterns
_SETTINGS = Route((b"destinations", b"settings"))
_NO_STORE: Header = (b"cache-control", b"no-store")


class RestApi:
    """The endpoints of `/api/v1` that move or show messages.

    - `journal_read` is `Engine.records`, which reads from `journal`;
    - `jobs`, `bulk`, `callbacks`, `alerts`, `events` (the log), `services`, `seeds`, `connections` are
      the node's;
    - `limits` replace those that follow from `config`; `statistics` are shown by `/stats`;
    - `cursor_lags` are samples of the journal's cursors;
    - `metrics` are what `/metrics` shows, `pipeline` has statistics of former days;
    - `actions` records operators' actions;
    - `origins` is the status of a callback broker's origins, None for other brokers;
    - `mirror` is this broker among those that share its journal, None with a journal of its own;
    - `forwarding` has the status of bridges, and `trial` tests their connections;
    - `nearly_full` is true while the space for the journal nearly is;
    - `event_document` is the AsyncAPI document of the other ways to the node;
    - `control_document` is an OpenAPI document whose paths are added to this one's.

    Created within the running loop. The node calls `policy_changed` after a new policy, `engine_ended`
    when the engine fails, and `stop` before it closes the listeners.
    """

    def __init__(
        self,
        engine: Engine,
        journal_read: JournalRead,
        logins: Logins,
        config: Config,
        jobs: JobManager,
        *,
        access: Access,
        actions: OperatorActions,
        limits: RestLimits | None = None,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        trial: ConnectionTester,
        journal: Journal,
        events: EventLog,
        alerts: AlertOperations,
        bulk: BatchCommits,
        cursor_lags: CursorLags,
        metrics: Metrics,
        pipeline: PipelineStore,
        reflexes: Reflexes,
        callbacks: Callbacks,
        services: ServiceRegistry,
        seeds: Seeds,
        live: LiveSubscribers,
        shut_down: Callable[[], None],
        event_document: Mapping[str, Any],
        nearly_full: Callable[[], object] = bool,
        origins: ReadOrigins | None = None,
        mirror: MirrorOperations | None = None,
        control_document: Mapping[str, Any] | None = None,
    ) -> None:
        self._limits = limits or RestLimits.of(config)
        self._logins = logins
        self._access = access
        self._credentials = Credentials(logins, Origins(config.known_hosts, config.allowed_origins))
        self._behind_tls = config.behind_tls
        self._waiting = WaitingRequests(self._limits, access.is_admin)
        self._engine_client = EngineClient(engine, round(self._limits.max_queue_wait_s * 1000))
        self._numbers = itertools.count(1)
        self._blocks = message_json.Blocks()
        self._idempotency = IdempotencyStore(asyncio.get_running_loop().time)
        self._router = Router()
        self._dispatcher = Dispatcher(
            self._router_of,
            self._credentials,
            access,
            self._limits,
            actions,
            lambda: self._engine_client.request_id(next(self._numbers)),
            behind_tls=config.behind_tls,
            call=self._call,
        )
        monitored = opsmanager.MonitoredStats(
            engine.broker, config, statistics, connections, forwarding, journal.statistics, time.time()
        )
        self._opsmanager_router = Router(opsmanager.PREFIX)
        self._opsmanager_router.add("GET", Route((b"application", b"_self")), monitored.stats)
        self._bridges = BridgeEndpoints(
            self._engine_client, statistics, forwarding, trial, self._policy, self._limits
        )
        self._callbacks = CallbackEndpoints(callbacks, self._policy, self._limits)
        add_callbacks(self._router, self._callbacks, control=control_document is not None)
        self._router.add("GET", Route((b"events",)), EventLogEndpoint(events, self._limits).page)
        alone: Facts = {"name": config.name, "active": None, "uris": [], "brokers": []}
        add_mirrors(self._router, MirrorEndpoints(mirror, alone))
        self._router.add("POST", Route((b"shutdown",)), ShutdownEndpoint(config.name, shut_down).shut_down)
        rights = JournalRights(self._engine_client)
        self._cursors = CursorStatus(journal, cursor_lags)
        add_pipeline(
            self._router,
            JournalEndpoints(journal, config.name, rights, self._waiting),
            CursorEndpoints(journal, rights, self._cursors),
            StoredHistoryEndpoint(pipeline, config.name),
            control=control_document is not None,
        )
        add_alerts(self._router, AlertEndpoints(alerts, self._limits), control=control_document is not None)
        add_bulk(self._router, BulkEndpoints(bulk, self._limits, reflexes))
        add_reflexes(self._router, ReflexEndpoints(reflexes))
        ServiceEndpoints(services, engine, self._limits).add(self._router)
        LiveSubscriberEndpoint(live, engine, self._limits).add(self._router)
        add_metrics(
            self._router,
            MetricsEndpoints(metrics.node.collect, metrics.pipeline),
            DetailedEndpoint(metrics.detailed),
        )
        self._add_endpoints(
            *(journal_read, jobs, statistics, connections, forwarding, seeds, live, origins),
            *(event_document, control_document, nearly_full),
        )

    def owns(self, scope: Scope) -> bool:
        """True if an HTTP request is answered here."""
        return self._router_of(raw_path_of(scope)).owns(scope["method"], raw_path_of(scope))

    def _router_of(self, raw_path: bytes) -> Router:
        return self._opsmanager_router if raw_path.startswith(opsmanager.PREFIX.encode()) else self._router

    def stop(self) -> None:
        """End all waiting receives and event streams, and later ones at once."""
        self._waiting.stop()

    def configure(self, config: Config) -> None:
        """Apply other settings."""
        self._limits.follow(config)
        self._engine_client.peer.blocked_timeout_ms = round(self._limits.max_queue_wait_s * 1000)

    async def turn(self) -> None:
        """Wait until all commands submitted before are carried out. Raises Refusal."""
        await self._engine_client.turn()

    def policy_changed(self) -> None:
        """End the waiting requests of users and tokens that were deleted or have lost the right."""
        self._waiting.recheck_permissions(self._access)

    def waiting(self) -> Iterator[Identity]:
        """The identities of requests that wait for messages."""
        return self._waiting.identities

    def engine_ended(self, error: BaseException) -> None:
        """Answer all requests that wait for the engine, which has ended."""
        self._engine_client.engine_ended(error)
        self.stop()

    def _add_endpoints(
        self,
        journal_read: JournalRead,
        jobs: JobManager,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        seeds: Seeds,
        live: LiveSubscribers,
        origins: ReadOrigins | None,
        event_document: Mapping[str, Any],
        control_document: Mapping[str, Any] | None,
        nearly_full: Callable[[], object],
    ) -> None:
        engine_client, limits, add = self._engine_client, self._limits, self._router.add
        blocks, envelopes = self._blocks, Envelopes(limits)
        publisher = Publisher(engine_client, envelopes, limits)
        self.direct = FastPublish(
            engine_client,
            self._router,
            self._credentials,
            self._logins,
            self._access,
            publisher,
            envelopes,
            limits,
            self._numbers,
            behind_tls=self._behind_tls,
        )
        ProfileEndpoints(engine_client, publisher, envelopes, limits, seeds).add(self._router)
        batches = BatchPublisher(engine_client, publisher, envelopes, limits)
        publisher.publish_batch = batches.publish
        chosen = ChosenMessages(engine_client, journal_read)
        polls = Polls()
        OriginEndpoint(origins, polls.of).add(self._router)
        receiver = Receiver(engine_client, self._waiting, blocks, limits, chosen, polls)
        settler = Settler(engine_client, limits)
        browser = Browser(engine_client, journal_read, blocks, limits)
        node = NodeEndpoints(
            *(engine_client, self._waiting, limits, openapi.document(control_document), event_document),
            nearly_full,
        )
        stats = StatsEndpoints(engine_client.engine.broker, statistics, self._waiting, self._bridges.seen)
        connections_api = ConnectionEndpoints(engine_client, connections, limits)

        queue_batch = _queue(b"messages", b"batch")
        topic_batch = Route((b"topics",), (b"messages", b"batch"), True, "topic")
        add("POST", queue_batch, batches.to_queue)
        add("POST", topic_batch, batches.to_topic)
        add("POST", _queue(b"messages"), publisher.to_queue)
        add("GET", _queue(b"messages"), browser.messages)
        add("DELETE", _queue(b"messages"), browser.purge)
        add("GET", _queue(b"digest"), DigestEndpoint(browser).digest)
        add("POST", Route((b"topics",), (b"messages",), True, "topic"), publisher.to_topic)
        add("POST", _queue(b"receive"), receiver.receive)
        histories = Histories(engine_client, journal_read, blocks, limits)
        add("GET", Route((b"topics",), (b"messages",), True, "topic"), histories.messages)
        subscriptions = Subscriptions(engine_client, journal_read, limits)
        add("GET", Route((b"topics",), (b"subscriptions",), True, "topic"), subscriptions.of_topic)
        add("GET", Route((b"subscriptions",)), subscriptions.all)
        add("GET", Route((b"subscriptions",), (), True), subscriptions.one)
        add("DELETE", Route((b"subscriptions",), (), True), subscriptions.delete)
        arrivals = ArrivalStream(engine_client, self._waiting, live)
        streams = MessageStream(engine_client, self._waiting, blocks, limits, arrivals, live)
        add("GET", _queue(b"events"), streams.stream)
        tails = TailEndpoints(engine_client, self._waiting, blocks)
        add("GET", _queue(b"tail"), tails.of_queue)
        add("GET", Route((b"topics",), (b"tail",), True, "topic"), tails.of_topic)
        job_endpoints = JobEndpoints(jobs, engine_client.engine.broker, blocks, limits)
        add("POST", _queue(b"import"), job_endpoints.upload)
        add("GET", Route((b"jobs",)), job_endpoints.all)
        add("POST", Route((b"jobs",)), job_endpoints.begin)
        add("POST", Route((b"jobs",), (b"cancel",), True), job_endpoints.cancel)
        add("POST", Route((b"jobs",), (b"undo",), True), job_endpoints.undo)
        add("GET", Route((b"jobs",), (b"results",), True), job_endpoints.results)
        add("GET", Route((b"jobs",), (b"export",), True), job_endpoints.exported)
        add("GET", Route((b"jobs",), (), True), job_endpoints.one)
        #: endpoints that create something and accept an Idempotency-Key
        self._idempotent: set[Endpoint] = {
            publisher.to_queue,
            publisher.to_topic,
            batches.to_queue,
            batches.to_topic,
            job_endpoints.begin,
            job_endpoints.upload,
        }
        message = MessageEndpoints(engine_client, journal_read, blocks, limits, forwarding)
        add("GET", Route((b"messages",), (b"body",), True), message.body)
        add("GET", Route((b"messages",), (b"why",), True), message.why)
        add("GET", Route((b"messages",), (), True), message.one)
        add("DELETE", Route((b"messages",), (), True), message.delete)
        add("POST", Route((b"leases", b"settle")), settler.settle)
        add("POST", Route((b"leases",), (b"nack",), True), settler.nack)
        add("DELETE", Route((b"leases",), (), True), settler.acknowledge)
        add("PATCH", Route((b"leases",), (), True), settler.extend)
        add("GET", _queue(b"stats"), stats.of_queue)
        add("GET", Route((b"topics",), (b"stats",), True, "topic"), stats.of_topic)
        add("GET", Route((b"stats",)), stats.node)
        add("GET", Route((b"node", b"stats")), stats.past_of_node)
        add("GET", Route((b"stats", b"stream")), stats.stream)
        consumers = ConsumerEndpoints(engine_client, connections)
        add("GET", _queue(b"consumers"), consumers.of_queue)
        add("GET", Route((b"topics",), (b"consumers",), True, "topic"), consumers.of_topic)
        add("GET", Route((b"connections",)), connections_api.page)
        add("GET", Route((b"connections",), (b"events",), True), connections_api.events)
        add("POST", Route((b"connections",), (b"drain",), True), connections_api.drain)
        add("GET", Route((b"connections",), (), True), connections_api.one)
        add("DELETE", Route((b"connections",), (), True), connections_api.close)
        queues = QueueEndpoints(engine_client, self._destinations, statistics, limits, polls.of)
        topics = TopicEndpoints(engine_client, self._destinations, statistics, limits)
        self._add_bridges(publisher, browser, queues, control=control_document is not None)
        tree = Tree(engine_client, statistics, {QUEUE: queues.names, TOPIC: topics.names}, limits)
        add("GET", Route((b"destinations", b"tree")), tree.level)
        if control_document is not None:
            for route in (_SETTINGS, _SETTINGS._replace(named=True)):
                self._router.delegate(("GET", "PUT", "PATCH", "DELETE"), route)
        add("GET", Route((b"limits",)), node.limits)
        add("GET", Route((b"openapi.json",), open=True), node.openapi)
        add("GET", Route((b"asyncapi.json",), open=True), node.asyncapi)
        add("GET", Route((b"health", b"live"), open=True), node.live)
        add("GET", Route((b"health", b"ready"), open=True), node.ready)
        # These last: they match every other path below `queues` and `topics`, too.
        for endpoints, word, parameter in ((queues, b"queues", "queue"), (topics, b"topics", "topic")):
            for route, endpoint in (
                (Route((word,)), endpoints.all),
                (Route((word,), (), True, parameter), endpoints.one),
            ):
                add("GET", route, endpoint)
                if control_document is not None:
                    self._router.delegate(("PUT", "PATCH", "DELETE"), route)

    def _add_bridges(
        self, publisher: Publisher, browser: Browser, queues: QueueEndpoints, *, control: bool
    ) -> None:
        add, bridges = self._router.add, self._bridges
        of_bridges = BridgeQueues(self._engine_client, self._policy, publisher, browser, queues)
        self._idempotent |= {of_bridges.publish, of_bridges.make}
        messages, queue = _of_bridge(b"messages"), _of_bridge()
        add("GET", messages, of_bridges.browse)
        add("POST", messages, of_bridges.publish)
        add("GET", queue, of_bridges.one)
        add("POST", queue, of_bridges.make)
        add("GET", Route((b"forwarding",)), bridges.all)
        add("DELETE", Route((b"forwarding", b"incoming")), bridges.forget)
        add("PATCH", Route((b"forwarding", b"incoming")), bridges.hand_over)
        for method, word, endpoint in (
            ("GET", b"status", bridges.status),
            ("GET", b"events", bridges.events),
            ("POST", b"retry", bridges.retry),
            ("POST", b"test", bridges.test),
        ):
            add(method, Route((b"bridges",), (word,), True), endpoint)
        if control:
            self._router.delegate(("POST",), Route((b"bridges",), (b"clone",), True))
            self._router.delegate(("POST",), Route((b"forwarding", b"test")))
            for route in (Route((b"bridges",)), Route((b"bridges",), (), True)):
                self._router.delegate(("GET", "PUT", "PATCH", "DELETE"), route)

    def _policy(self) -> Policy:
        return self._logins.policy

    async def bridges(self) -> Facts:
        """The status of all bridges, for administrators."""
        return self._bridges.whole()

    async def bridge(self, name: str) -> Facts | None:
        """The status of a bridge and its events, for administrators."""
        return self._bridges.one(name)

    async def cursors(self) -> Facts:
        """The cursors of the journal, for administrators."""
        return await self._cursors.all()

    async def retry_bridge(self, name: str, queue: str | None) -> bool:
        """Let a bridge, or one of its flows, retry now."""
        return self._bridges.try_again(name, queue)

    async def try_remote(self, remote: Remote, queue: str | None) -> Facts:
        """Test a connection that need not be configured yet. Raises Refusal."""
        return await self._bridges.try_remote(remote, queue)

    def callbacks(self) -> list[Facts]:
        """The status of all callbacks, for administrators."""
        return self._callbacks.whole()

    def callback(self, name: str) -> Facts | None:
        """The status of a callback and its last pushes, for administrators."""
        return self._callbacks.one(name)

    async def test_callback(self, name: str) -> Facts:
        """Send a sample to a callback. Raises Refusal."""
        return await self._callbacks.try_out(name)

    def _destinations(self) -> Destinations:
        return self._logins.policy.destinations

    async def remove_queue(self, address: str, *, force: bool) -> None:
        """Delete a queue (see `commands.DeleteQueue`). Raises Refusal."""
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(DeleteQueue(self._engine_client.peer, address, force, pending_reply))
        await self._engine_client.answer(pending_reply)

    # ------------------------------------------------------------------ one request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher(scope, receive, send)

    async def _call(self, request: Request, match: Match) -> Reply | None:
        if request.idempotency_key is not None and match.endpoint in self._idempotent:
            return await self._idempotency.answer(request, request.idempotency_key, match.endpoint)
        return await match.endpoint(request)


def _queue(*behind: bytes) -> Route:
    return Route((b"queues",), behind, True, "queue")


def _of_bridge(*behind: bytes) -> Route:
    return Route((b"bridges",), behind, True, "queue", within=b"queues")
