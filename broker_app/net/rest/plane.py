"""The REST data plane: a bare ASGI callable that feeds the engine as a client like any other."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker_app.config import Config
from broker_app.core.commands import DeleteQueue
from broker_app.core.destination import QUEUE, TOPIC
from broker_app.core.errors import Refused
from broker_app.engine import Engine
from broker_app.jobs.job_manager import Jobs
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.http.origin_check import Origins
from broker_app.net.http.tracing import trace_of
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access, Client, Way
from broker_app.net.policy.destination_settings import Destinations
from broker_app.net.policy.policy import Policy
from broker_app.net.rest import items, openapi, opsmanager, refusals
from broker_app.net.rest.alerts import AlertDesk, Alerts
from broker_app.net.rest.batch import BatchPublisher
from broker_app.net.rest.bridge_queues import BridgeQueues
from broker_app.net.rest.bridges import BridgeDesk, Trial
from broker_app.net.rest.browse import Browser
from broker_app.net.rest.connections import ConnectionDesk
from broker_app.net.rest.consumers import ConsumerDesk
from broker_app.net.rest.credentials import Credentials
from broker_app.net.rest.destinations import QueueFacts, TopicFacts
from broker_app.net.rest.direct import Direct
from broker_app.net.rest.engine_client import EngineClient
from broker_app.net.rest.envelopes import Envelopes
from broker_app.net.rest.event_log import EventLogEndpoint
from broker_app.net.rest.events import Events
from broker_app.net.rest.histories import Histories
from broker_app.net.rest.idempotency import Repeats
from broker_app.net.rest.jobs import JobDesk
from broker_app.net.rest.limits import RestLimits
from broker_app.net.rest.long_poll import Waiting
from broker_app.net.rest.node_info import NodeFacts
from broker_app.net.rest.publish import Publisher
from broker_app.net.rest.receive import Receiver
from broker_app.net.rest.refusals import Refusal
from broker_app.net.rest.replies import NO_CONTENT, Header, Reply, problem_reply
from broker_app.net.rest.requests import Departed, Receive, Request, Scope, Send, Uploads
from broker_app.net.rest.routing import Endpoint, Place, Router, raw_path_of
from broker_app.net.rest.settle import Settler
from broker_app.net.rest.single_message import OneMessage
from broker_app.net.rest.stats import Figures
from broker_app.net.rest.subscriptions import Subscriptions
from broker_app.net.rest.summary import Digests
from broker_app.net.rest.tail import Tails
from broker_app.net.rest.tree import Tree
from broker_app.net.stomp.connections import Connections
from broker_app.remote import Remote
from broker_app.rules.event import REST
from broker_app.telemetry import Statistics
from broker_app.telemetry.bridges import Facts, Forwarding
from broker_app.telemetry.event_log import EventLog

_log = logging.getLogger(__name__)
#: settings of patterns
_SETTINGS = Place((b"destinations", b"settings"))
_NO_STORE: Header = (b"cache-control", b"no-store")


class RestPlane:
    """All of `/api/v1` that moves or shows messages.

    `journal_read` is `Engine.read`, `jobs` are the node's; `limits` replace those that follow from `config`;
    `statistics` has what `/stats` shows, `connections` the registry of connections, `actions` records what
    operators do, `forwarding` has the state of the bridges and `trial` tests their connections, `sizes` is
    `Journal.statistics`, `events` the event log, `alerts` the node's; `control_document` is an OpenAPI
    document whose paths are added to ours.
    Made within the running loop. The node calls `policy_changed` after a new policy, `engine_ended`
    when the engine fails, and `stop` before it closes the listeners.
    """

    def __init__(
        self,
        engine: Engine,
        journal_read: Callable[[Sequence[int]], list[bytes]],
        logins: Logins,
        config: Config,
        jobs: Jobs,
        *,
        access: Access,
        actions: OperatorActions,
        limits: RestLimits | None = None,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        trial: Trial,
        sizes: Callable[[], Mapping[str, int]],
        events: EventLog,
        alerts: Alerts,
        control_document: Mapping[str, Any] | None = None,
    ) -> None:
        self._limits = limits or RestLimits.of(config)
        self._logins = logins
        self._access = access
        self._actions = actions
        self._credentials = Credentials(logins, Origins(config.known_hosts, config.allowed_origins))
        self._behind_tls = config.behind_tls
        self._uploads = Uploads()
        self._waiting = Waiting(self._limits)
        self._engine_client = EngineClient(engine, round(self._limits.max_queue_wait_s * 1000))
        self._numbers = itertools.count(1)
        self._blocks = items.Blocks()
        self._repeats = Repeats(asyncio.get_running_loop().time)
        self._router = Router()
        monitored = opsmanager.MonitoredStats(
            engine.broker, config, statistics, connections, forwarding, sizes, time.time()
        )
        self._smash = Router(opsmanager.PREFIX)
        self._smash.add("GET", Place((b"application", b"_self")), monitored.stats)
        self._bridges = BridgeDesk(
            self._engine_client, statistics, forwarding, trial, self._policy, self._limits
        )
        self._router.add("GET", Place((b"events",)), EventLogEndpoint(events, self._limits).page)
        self._add_alerts(AlertDesk(alerts, self._limits), control=control_document is not None)
        self._add_endpoints(journal_read, jobs, statistics, connections, forwarding, control_document)

    def owns(self, scope: Scope) -> bool:
        """True if an HTTP request is answered here."""
        return self._router_of(raw_path_of(scope)).owns(scope["method"], raw_path_of(scope))

    def _router_of(self, raw_path: bytes) -> Router:
        return self._smash if raw_path.startswith(opsmanager.PREFIX.encode()) else self._router

    def stop(self) -> None:
        """Let every waiting receive and event stream end now, and further ones at once."""
        self._waiting.stop()

    def configure(self, config: Config) -> None:
        """Go on with other settings."""
        self._limits.follow(config)
        self._engine_client.peer.patience_ms = round(self._limits.max_queue_wait_s * 1000)

    async def turn(self) -> None:
        """Wait until what was submitted before is decided and let out. Raises Refusal where none will be."""
        await self._engine_client.turn()

    def policy_changed(self) -> None:
        """End what waits for users and tokens that are gone, or have lost the right to it."""
        self._waiting.look_again(self._access)

    def waiting(self) -> Iterator[Identity]:
        """The identities of requests that wait for messages."""
        return self._waiting.identities

    def engine_ended(self, error: BaseException) -> None:
        """Answer all requests that wait for the engine, which has ended."""
        self._engine_client.engine_ended(error)
        self.stop()

    def _add_endpoints(
        self,
        journal_read: Callable[[Sequence[int]], list[bytes]],
        jobs: Jobs,
        statistics: Statistics,
        connections: Connections,
        forwarding: Forwarding,
        control_document: Mapping[str, Any] | None,
    ) -> None:
        engine_client, limits, add = self._engine_client, self._limits, self._router.add
        blocks, envelopes = self._blocks, Envelopes(limits)
        publisher = Publisher(engine_client, envelopes, limits)
        self.direct = Direct(
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
        batches = BatchPublisher(engine_client, publisher, envelopes, limits)
        publisher.publish_batch = batches.publish
        receiver = Receiver(engine_client, self._waiting, blocks, limits)
        settler = Settler(engine_client, limits)
        browser = Browser(engine_client, journal_read, blocks, limits)
        facts = NodeFacts(engine_client, self._waiting, limits, openapi.document(control_document))
        figures = Figures(engine_client.engine.broker, statistics, self._waiting, self._bridges.seen)
        people = ConnectionDesk(engine_client, connections, limits)

        queue_batch = _queue(b"messages", b"batch")
        topic_batch = Place((b"topics",), (b"messages", b"batch"), True, "topic")
        add("POST", queue_batch, batches.to_queue)
        add("POST", topic_batch, batches.to_topic)
        add("POST", _queue(b"messages"), publisher.to_queue)
        add("GET", _queue(b"messages"), browser.messages)
        add("DELETE", _queue(b"messages"), browser.purge)
        add("GET", _queue(b"digest"), Digests(browser).digest)
        add("POST", Place((b"topics",), (b"messages",), True, "topic"), publisher.to_topic)
        add("POST", _queue(b"receive"), receiver.receive)
        histories = Histories(engine_client, journal_read, blocks, limits)
        add("GET", Place((b"topics",), (b"messages",), True, "topic"), histories.messages)
        subscriptions = Subscriptions(engine_client, journal_read, limits)
        add("GET", Place((b"topics",), (b"subscriptions",), True, "topic"), subscriptions.of_topic)
        add("GET", Place((b"subscriptions",)), subscriptions.all)
        add("GET", Place((b"subscriptions",), (), True), subscriptions.one)
        add("DELETE", Place((b"subscriptions",), (), True), subscriptions.delete)
        add("GET", _queue(b"events"), Events(engine_client, self._waiting, blocks, limits).stream)
        tails = Tails(engine_client, self._waiting, blocks)
        add("GET", _queue(b"tail"), tails.of_queue)
        add("GET", Place((b"topics",), (b"tail",), True, "topic"), tails.of_topic)
        job_desk = JobDesk(jobs, engine_client.engine.broker, blocks, limits)
        add("POST", _queue(b"import"), job_desk.upload)
        add("GET", Place((b"jobs",)), job_desk.all)
        add("POST", Place((b"jobs",)), job_desk.begin)
        add("POST", Place((b"jobs",), (b"cancel",), True), job_desk.cancel)
        add("POST", Place((b"jobs",), (b"undo",), True), job_desk.undo)
        add("GET", Place((b"jobs",), (b"results",), True), job_desk.results)
        add("GET", Place((b"jobs",), (b"export",), True), job_desk.exported)
        add("GET", Place((b"jobs",), (), True), job_desk.one)
        #: what makes something, and may be repeated with an Idempotency-Key
        self._once: set[Endpoint] = {
            publisher.to_queue,
            publisher.to_topic,
            batches.to_queue,
            batches.to_topic,
            job_desk.begin,
            job_desk.upload,
        }
        one = OneMessage(engine_client, journal_read, blocks, limits, forwarding)
        add("GET", Place((b"messages",), (b"body",), True), one.body)
        add("GET", Place((b"messages",), (b"why",), True), one.why)
        add("GET", Place((b"messages",), (), True), one.one)
        add("DELETE", Place((b"messages",), (), True), one.delete)
        add("POST", Place((b"leases", b"settle")), settler.settle)
        add("POST", Place((b"leases",), (b"nack",), True), settler.nack)
        add("DELETE", Place((b"leases",), (), True), settler.acknowledge)
        add("PATCH", Place((b"leases",), (), True), settler.extend)
        add("GET", _queue(b"stats"), figures.of_queue)
        add("GET", Place((b"topics",), (b"stats",), True, "topic"), figures.of_topic)
        add("GET", Place((b"stats",)), figures.node)
        add("GET", Place((b"node", b"stats")), figures.past_of_node)
        add("GET", Place((b"stats", b"stream")), figures.stream)
        consumers = ConsumerDesk(engine_client, connections)
        add("GET", _queue(b"consumers"), consumers.of_queue)
        add("GET", Place((b"topics",), (b"consumers",), True, "topic"), consumers.of_topic)
        add("GET", Place((b"connections",)), people.page)
        add("GET", Place((b"connections",), (b"events",), True), people.events)
        add("POST", Place((b"connections",), (b"drain",), True), people.drain)
        add("GET", Place((b"connections",), (), True), people.one)
        add("DELETE", Place((b"connections",), (), True), people.close)
        queues = QueueFacts(engine_client, self._said, statistics, limits)
        topics = TopicFacts(engine_client, self._said, statistics, limits)
        self._add_bridges(publisher, browser, queues, control=control_document is not None)
        tree = Tree(engine_client, statistics, {QUEUE: queues.names, TOPIC: topics.names}, limits)
        add("GET", Place((b"destinations", b"tree")), tree.level)
        if control_document is not None:
            for place in (_SETTINGS, _SETTINGS._replace(named=True)):
                self._router.leave(("GET", "PUT", "PATCH", "DELETE"), place)
        add("GET", Place((b"limits",)), facts.limits)
        add("GET", Place((b"openapi.json",), open=True), facts.openapi)
        add("GET", Place((b"health", b"live"), open=True), facts.live)
        add("GET", Place((b"health", b"ready"), open=True), facts.ready)
        # These last: every other address below `queues` and `topics` would fit as well.
        for facts_of, word, parameter in ((queues, b"queues", "queue"), (topics, b"topics", "topic")):
            for place, endpoint in (
                (Place((word,)), facts_of.all),
                (Place((word,), (), True, parameter), facts_of.one),
            ):
                add("GET", place, endpoint)
                if control_document is not None:
                    self._router.leave(("PUT", "PATCH", "DELETE"), place)

    def _add_alerts(self, engine_client: AlertDesk, *, control: bool) -> None:
        add, word = self._router.add, (b"alerts",)
        add("GET", Place(word), engine_client.page)
        add("POST", Place(word, (b"acknowledge",), True), engine_client.acknowledge)
        add("POST", Place(word, (b"silence",), True), engine_client.silence)
        if control:
            for place in (Place((b"alerts", b"rules")), Place((b"alerts", b"rules"), (), True)):
                self._router.leave(("GET", "PUT", "PATCH", "DELETE"), place)

    def _add_bridges(
        self, publisher: Publisher, browser: Browser, queues: QueueFacts, *, control: bool
    ) -> None:
        add, engine_client = self._router.add, self._bridges
        of_bridges = BridgeQueues(self._engine_client, self._policy, publisher, browser, queues)
        self._once |= {of_bridges.publish, of_bridges.make}
        messages, queue = _of_bridge(b"messages"), _of_bridge()
        add("GET", messages, of_bridges.browse)
        add("POST", messages, of_bridges.publish)
        add("GET", queue, of_bridges.one)
        add("POST", queue, of_bridges.make)
        add("GET", Place((b"forwarding",)), engine_client.all)
        add("DELETE", Place((b"forwarding", b"incoming")), engine_client.forget)
        add("PATCH", Place((b"forwarding", b"incoming")), engine_client.hand_over)
        for method, word, endpoint in (
            ("GET", b"status", engine_client.status),
            ("GET", b"events", engine_client.events),
            ("POST", b"retry", engine_client.retry),
            ("POST", b"test", engine_client.test),
        ):
            add(method, Place((b"bridges",), (word,), True), endpoint)
        if control:
            self._router.leave(("POST",), Place((b"bridges",), (b"clone",), True))
            self._router.leave(("POST",), Place((b"forwarding", b"test")))
            for place in (Place((b"bridges",)), Place((b"bridges",), (), True)):
                self._router.leave(("GET", "PUT", "PATCH", "DELETE"), place)

    def _policy(self) -> Policy:
        return self._logins.policy

    async def bridges(self) -> Facts:
        """The status of all bridges, for administrators."""
        return self._bridges.whole()

    async def bridge(self, name: str) -> Facts | None:
        """The status of a bridge and its events, for administrators."""
        return self._bridges.one(name)

    async def retry_bridge(self, name: str, queue: str | None) -> bool:
        """Has a bridge, or one of its flows, try again now."""
        return self._bridges.try_again(name, queue)

    async def try_remote(self, remote: Remote, queue: str | None) -> Facts:
        """Test a connection that need not be configured yet. Raises Refusal."""
        return await self._bridges.try_remote(remote, queue)

    def _said(self) -> Destinations:
        return self._logins.policy.destinations

    async def remove_queue(self, address: str, *, force: bool) -> None:
        """Delete a queue (see `commands.DeleteQueue`). Raises Refusal."""
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(DeleteQueue(self._engine_client.peer, address, force, pending_reply))
        await self._engine_client.answer(pending_reply)

    # ------------------------------------------------------------------ one request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send, self._access, self._limits, self._uploads, self._actions)
        own = [self._engine_client.request_id(next(self._numbers))]
        trace_id = None
        if trace := trace_of(request.headers):
            own.append((b"traceparent", trace[0]))
            trace_id = trace[1]
        request.reply_headers = own
        try:
            reply = await self._answer(request, scope)
        except Departed:
            return
        except Refusal as refusal:
            reply = problem_reply(refusal, trace_id)
        except Refused as refused:
            reply = problem_reply(refusals.of_core(refused), trace_id)
        except Exception:
            _log.exception("request %s failed", own[0][1].decode())
            reply = problem_reply(Refusal("internal", "the node failed; its log has the details"), trace_id)
        if reply is not None:
            await _send(request, reply)

    async def _answer(self, request: Request, scope: Scope) -> Reply | None:
        raw_path = raw_path_of(scope)
        router = self._router_of(raw_path)
        if request.method == "OPTIONS":
            allowed = ", ".join(router.methods(raw_path))
            return Reply(204, headers=((b"allow", allowed.encode()),))
        match = router.find(request.method, raw_path)
        if not match.place.open:
            way = Way.of_scope(REST, scope, behind_tls=self._behind_tls)
            certified = scope.get("mom.certified", ())
            identity = await self._credentials.identify(request, way.address or "", certified)
            request.client = Client(identity, way)
        request.name, request.owner = request.choose_name(match.name, match.place.parameter), match.owner
        if request.idempotency_key is not None and match.endpoint in self._once:
            return await self._repeats.answer(request, request.idempotency_key, match.endpoint)
        return await match.endpoint(request)


def _queue(*behind: bytes) -> Place:
    return Place((b"queues",), behind, True, "queue")


def _of_bridge(*behind: bytes) -> Place:
    return Place((b"bridges",), behind, True, "queue", within=b"queues")


async def _send(request: Request, reply: Reply) -> None:
    headers = [*request.reply_headers, *reply.headers]
    if request.method != "POST":  # what answers a POST is not cached anyway
        headers.append(_NO_STORE)
    if reply.content_type:
        headers.append((b"content-type", reply.content_type))
    if reply.status != NO_CONTENT.status:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    await request.send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await request.send(
        {"type": "http.response.body", "body": b"" if request.method == "HEAD" else reply.body}
    )
