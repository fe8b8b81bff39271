"""The REST data plane: a bare ASGI callable that feeds the engine as a client like any other."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.destination import QUEUE, TOPIC
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.channels.channels import Channels
from broker_app.features.jobs.job_manager import JobManager
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.services.registry import ServiceRegistry
from broker_app.journal.port import Journal
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.broker_state import PAUSE, PAUSED, BrokerState, Order
from broker_app.net.http.credentials import Credentials
from broker_app.net.http.dispatcher import Dispatcher
from broker_app.net.http.idempotency import IdempotencyStore
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.replies import request_id
from broker_app.net.http.requests import Receive, Scope, Send
from broker_app.net.http.routing import Endpoint, Router
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.destination_settings import Destinations
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import openapi
from broker_app.net.rest.connections.endpoints import ConnectionEndpoints
from broker_app.net.rest.connections.live_subscribers import LiveSubscriberEndpoint
from broker_app.net.rest.connections.services import ServiceEndpoints
from broker_app.net.rest.destinations.consumers import ConsumerEndpoints
from broker_app.net.rest.destinations.digest import DigestEndpoint
from broker_app.net.rest.destinations.stats import StatsEndpoints
from broker_app.net.rest.destinations.status import QueueEndpoints, TopicEndpoints
from broker_app.net.rest.destinations.stored_history import StoredHistoryEndpoint
from broker_app.net.rest.destinations.subscriptions import Subscriptions
from broker_app.net.rest.destinations.tree import Tree
from broker_app.net.rest.features.bridge_queues import BridgeQueues
from broker_app.net.rest.features.bridges import BridgeEndpoints, ConnectionTester
from broker_app.net.rest.features.callbacks import CallbackEndpoints
from broker_app.net.rest.features.jobs import JobEndpoints
from broker_app.net.rest.features.origins import OriginEndpoint, ReadOrigins
from broker_app.net.rest.features.reflexes import ReflexEndpoints
from broker_app.net.rest.features.sites import SiteEndpoints
from broker_app.net.rest.journal.cursor_status import CursorStatus
from broker_app.net.rest.journal.cursors import CursorEndpoints
from broker_app.net.rest.journal.frames import JournalEndpoints
from broker_app.net.rest.journal.journal_rights import JournalRights
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.arrival_stream import ArrivalStream
from broker_app.net.rest.messages.batch import BatchPublisher
from broker_app.net.rest.messages.browse import Browser
from broker_app.net.rest.messages.bulk import BulkEndpoints
from broker_app.net.rest.messages.chosen import ChosenMessages
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.net.rest.messages.fast_publish import FastPublish
from broker_app.net.rest.messages.histories import Histories
from broker_app.net.rest.messages.message_stream import MessageStream
from broker_app.net.rest.messages.polls import Polls
from broker_app.net.rest.messages.profiles import ProfileEndpoints, Seeds
from broker_app.net.rest.messages.publish import Publisher
from broker_app.net.rest.messages.receive import Receiver
from broker_app.net.rest.messages.settle import Settler
from broker_app.net.rest.messages.single_message import MessageEndpoints
from broker_app.net.rest.messages.tail import TailEndpoints
from broker_app.net.rest.node import opsmanager
from broker_app.net.rest.node.alerts import AlertEndpoints, AlertOperations
from broker_app.net.rest.node.broker import BrokerEndpoints
from broker_app.net.rest.node.cluster import ClusterEndpoints, ReadCluster
from broker_app.net.rest.node.cluster_record import ClusterRecordEndpoints, ReadRecord
from broker_app.net.rest.node.event_log import EventLogEndpoint
from broker_app.net.rest.node.metrics import DetailedEndpoint, Metrics, MetricsEndpoints
from broker_app.net.rest.node.mirrors import MirrorEndpoints, MirrorOperations
from broker_app.net.rest.node.node_info import NodeEndpoints
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session import VERSION
from broker_app.reflex.reflexes import Reflexes
from broker_app.telemetry import Statistics
from broker_app.telemetry.bridges import Facts, Forwarding
from broker_app.telemetry.callbacks import Callbacks
from broker_app.telemetry.cursor_lags import CursorLags
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.pipeline_store import PipelineStore


class RestApi:
    """The endpoints of `/api/v1` that move or show messages.

    - `journal_read` is `Engine.records`, which reads from `journal`;
    - `jobs`, `bulk`, `callbacks`, `alerts`, `events` (the log), `services`, `seeds`, `channels` and
      `connections` are the node's;
    - `limits` replace those that follow from `config`; `statistics` are shown by `/stats`;
    - `cursor_lags` are samples of the journal's cursors;
    - `metrics` are what `/metrics` shows, `pipeline` has statistics of former days;
    - `actions` records operators' actions;
    - `origins` is the status of a callback broker's origins, None for other brokers;
    - `state` says whether clients are served; `clients` counts those of other protocols, `stop` ends the
      process, to start it again if it is called with True, unless there is a `restart_refusal`;
    - `mirror` is this broker among those that share its journal, None with a journal of its own;
    - `cluster` returns the report about its cluster, `record` its change record, None for a broker in none;
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
        state: BrokerState,
        clients: Callable[[], Mapping[str, int]],
        stop: Callable[[bool], None],
        restart_refusal: Callable[[], Refused | None],
        channels: Channels,
        event_document: Mapping[str, Any],
        nearly_full: Callable[[], object] = bool,
        origins: ReadOrigins | None = None,
        mirror: MirrorOperations | None = None,
        cluster: ReadCluster = lambda: None,
        cluster_uris: Callable[[], Sequence[str]] = tuple,
        record: ReadRecord = lambda: None,
        control_document: Mapping[str, Any] | None = None,
    ) -> None:
        self._limits = limits or RestLimits.of(config)
        self._logins = logins
        self._access = access
        self._credentials = Credentials(logins, Origins(config.known_hosts, config.allowed_origins))
        self._behind_tls = config.behind_tls
        self._waiting = WaitingRequests(self._limits, access.is_admin)
        self._state = state
        self._other_clients = clients
        state.listeners.add(self._state_changed)
        self.engine_client = EngineClient(
            engine, "rest", blocked_timeout_ms=round(self._limits.max_queue_wait_s * 1000), ordered=False
        )
        self._numbers = itertools.count(1)
        self._blocks = message_json.Blocks()
        self._envelopes = Envelopes(self._limits)
        self._publisher = Publisher(self.engine_client, self._envelopes, self._limits)
        self.bridge_endpoints = BridgeEndpoints(
            self.engine_client, statistics, forwarding, trial, self._policy, self._limits
        )
        self.callback_endpoints = CallbackEndpoints(callbacks, self._policy, self._limits)
        rights = JournalRights(self.engine_client)
        self.cursor_status = CursorStatus(journal, cursor_lags)
        cursors = CursorEndpoints(journal, rights, self.cursor_status)
        history = StoredHistoryEndpoint(pipeline, config.name)
        orders = BrokerEndpoints(
            *(config.name, VERSION, state),
            clients=self.clients,
            stop=stop,
            restart_refusal=restart_refusal,
            started_s=time.time(),
        )
        alone: Facts = {"name": config.name, "active": None, "uris": [], "brokers": []}
        document = openapi.document(control_document)
        handlers: dict[str, Endpoint] = {
            **self._handlers(
                *(journal_read, jobs, statistics, connections, forwarding, cluster, seeds, live, origins)
            ),
            **self.callback_endpoints.handlers(),
            **AlertEndpoints(alerts, self._limits).handlers(),
            **orders.handlers(),
            **BulkEndpoints(bulk, self._limits, reflexes).handlers(),
            **ClusterEndpoints(cluster, self._limits).handlers(),
            **ClusterRecordEndpoints(record, self._limits).handlers(),
            **JournalEndpoints(journal, config.name, rights, self._waiting).handlers(),
            **LiveSubscriberEndpoint(live, engine, self._limits).handlers(),
            **MirrorEndpoints(mirror, alone, cluster_uris).handlers(),
            **NodeEndpoints(
                *(self.engine_client, self._waiting, self._limits, document, event_document, nearly_full),
                state,
            ).handlers(),
            **ReflexEndpoints(reflexes).handlers(),
            **SiteEndpoints(channels, self._limits).handlers(),
            **ServiceEndpoints(services, engine, self._limits).handlers(),
            "list_events": EventLogEndpoint(events, self._limits).page,
            "list_cursors": cursors.all,
            "get_cursor": cursors.one,
            "set_cursor": cursors.put,
            "drop_cursor": cursors.drop,
            "get_queue_history": history.of_queue,
            "get_topic_history": history.of_topic,
            "get_metrics": MetricsEndpoints(metrics.node.collect, metrics.pipeline).of_node,
            "get_detailed_metrics": DetailedEndpoint(metrics.detailed).detailed,
        }
        boot = self.engine_client.leases.boot
        router = Router(openapi.PATHS, handlers, (control_document or {}).get("paths"))
        monitored = opsmanager.MonitoredStats(
            engine.broker, config, statistics, connections, forwarding, journal.statistics, time.time()
        )
        self._dispatcher = Dispatcher(
            (router, monitored.router()),
            self._credentials,
            access,
            self._limits,
            actions,
            lambda: request_id(boot, next(self._numbers)),
            behind_tls=config.behind_tls,
            idempotency=IdempotencyStore(asyncio.get_running_loop().time),
            state=state,
        )
        self.direct = FastPublish(
            self.engine_client,
            router,
            self._credentials,
            logins,
            access,
            self._publisher,
            self._envelopes,
            self._limits,
            self._numbers,
            behind_tls=config.behind_tls,
            state=state,
        )

    def owns(self, scope: Scope) -> bool:
        """True if an HTTP request is answered here."""
        return self._dispatcher.owns(scope)

    def stop(self) -> None:
        """End all waiting receives and event streams, and later ones at once."""
        self._waiting.stop()

    def configure(self, config: Config) -> None:
        """Apply other settings."""
        self._limits.follow(config)
        self.engine_client.peer.blocked_timeout_ms = round(self._limits.max_queue_wait_s * 1000)

    async def turn(self) -> None:
        """Wait until all commands submitted before are carried out. Raises Refused."""
        await self.engine_client.turn()

    def policy_changed(self) -> None:
        """End the waiting requests of users and tokens that were deleted or have lost the right."""
        self._waiting.recheck_permissions(self._access)

    def clients(self) -> dict[str, int]:
        """The connections of clients by protocol; of REST, the requests that wait for messages."""
        return {**self._other_clients(), "rest": self._waiting.receiving}

    def _state_changed(self, event: str, _: Order) -> None:
        """The broker was paused: no request receives messages any more."""
        if event == PAUSE:
            self._waiting.end_receiving(lambda: self._state.refusal((PAUSED,)))

    def waiting(self) -> Iterator[Identity]:
        """The identities of requests that wait for messages."""
        return self._waiting.identities

    def engine_ended(self, error: BaseException) -> None:
        """Answer all requests that wait for the engine, which has ended."""
        self.engine_client.engine_ended(error)
        self.stop()

    def _handlers(
        self,
        journal_read: JournalRead,
        jobs: JobManager,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        cluster: ReadCluster,
        seeds: Seeds,
        live: LiveSubscribers,
        origins: ReadOrigins | None,
    ) -> dict[str, Endpoint]:
        """The endpoints of messages, destinations and connections."""
        engine_client, limits, blocks = self.engine_client, self._limits, self._blocks
        publisher, envelopes = self._publisher, self._envelopes
        batches = BatchPublisher(engine_client, publisher, envelopes, limits)
        publisher.publish_batch = batches.publish
        chosen, polls = ChosenMessages(engine_client, journal_read), Polls()
        receiver = Receiver(engine_client, self._waiting, blocks, limits, chosen, polls)
        settler = Settler(engine_client, limits)
        browser = Browser(engine_client, journal_read, blocks, limits)
        histories = Histories(engine_client, journal_read, blocks, limits)
        subscriptions = Subscriptions(engine_client, journal_read, limits)
        arrivals = ArrivalStream(engine_client, self._waiting, live)
        streams = MessageStream(engine_client, self._waiting, blocks, limits, arrivals, live)
        tails = TailEndpoints(engine_client, self._waiting, blocks)
        message = MessageEndpoints(engine_client, journal_read, blocks, limits, forwarding, cluster)
        stats = StatsEndpoints(
            engine_client.engine.broker, statistics, self._waiting, self.bridge_endpoints.seen
        )
        consumers = ConsumerEndpoints(engine_client, connections)
        queues = QueueEndpoints(engine_client, self._destinations, statistics, limits, polls.of)
        topics = TopicEndpoints(engine_client, self._destinations, statistics, limits)
        tree = Tree(engine_client, statistics, {QUEUE: queues.names, TOPIC: topics.names}, limits)
        of_bridges = BridgeQueues(engine_client, self._policy, publisher, browser, queues)
        return {
            **ConnectionEndpoints(engine_client, connections, limits).handlers(),
            **JobEndpoints(jobs, engine_client.engine.broker, blocks, limits).handlers(),
            **OriginEndpoint(origins, polls.of).handlers(),
            **ProfileEndpoints(engine_client, publisher, envelopes, limits, seeds).handlers(),
            **self.bridge_endpoints.handlers(),
            "publish_to_queue": publisher.to_queue,
            "publish_to_topic": publisher.to_topic,
            "publish_batch_to_queue": batches.to_queue,
            "publish_batch_to_topic": batches.to_topic,
            "browse_queue": browser.messages,
            "purge_queue": browser.purge,
            "digest_queue": DigestEndpoint(browser).digest,
            "browse_history": histories.messages,
            "receive": receiver.receive,
            "settle": settler.settle,
            "nack": settler.nack,
            "acknowledge": settler.acknowledge,
            "extend_lease": settler.extend,
            "get_message": message.one,
            "delete_message": message.delete,
            "explain_message": message.why,
            "get_message_body": message.body,
            "stream_events": streams.stream,
            "tail_queue": tails.of_queue,
            "tail_topic": tails.of_topic,
            "list_subscriptions_of_topic": subscriptions.of_topic,
            "list_subscriptions": subscriptions.all,
            "get_subscription": subscriptions.one,
            "delete_subscription": subscriptions.delete,
            "list_queues": queues.all,
            "get_queue": queues.one,
            "list_topics": topics.all,
            "get_topic": topics.one,
            "get_tree": tree.level,
            "list_consumers": consumers.of_queue,
            "list_topic_consumers": consumers.of_topic,
            "get_bridge_queue": of_bridges.one,
            "make_bridge_queue": of_bridges.make,
            "publish_to_bridge_queue": of_bridges.publish,
            "browse_bridge_queue": of_bridges.browse,
            "get_queue_statistics": stats.of_queue,
            "get_topic_statistics": stats.of_topic,
            "get_node_statistics": stats.past_of_node,
            "get_statistics": stats.node,
            "stream_statistics": stats.stream,
        }

    def _policy(self) -> Policy:
        return self._logins.policy

    def _destinations(self) -> Destinations:
        return self._logins.policy.destinations

    # ------------------------------------------------------------------ one request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher(scope, receive, send)
