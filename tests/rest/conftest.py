"""A REST API over a real engine and a journal in memory."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import httpx
import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.engine import Engine
from broker_app.features.bridge.connection_test import BridgeTrial
from broker_app.features.bridge.remote import Remote
from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.bulk.stage_store import StageStore
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.cluster.record.replicated_record import ReplicatedRecord
from broker_app.features.cluster.report import ClusterReport, RemovalReport, TakeoverReport
from broker_app.features.notifications import (
    Mailer,
    Notification,
    NotificationTarget,
    TargetTests,
)
from broker_app.features.notifications.delivery import deliver
from broker_app.features.services.registry import ServiceRegistry
from broker_app.net.auth.login import Logins
from broker_app.net.broker_state import BrokerState
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.policy import Policy, TokenFacts, UserFacts
from broker_app.net.rest import RestApi, RestLimits
from broker_app.net.rest.features.bridges import BridgeEndpoints
from broker_app.net.rest.node.metrics import Metrics
from broker_app.net.rest.node.opsmanager import MonitoredStats
from broker_app.net.rest.rest_parts import RestParts
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.node.features.feature import NodeParts
from broker_app.node.features.features import Features, Given
from broker_app.node.features.operation import OperationFeature, Orders
from broker_app.node.system_publisher import SystemPublisher
from broker_app.rules.ruleset import Rules
from broker_app.telemetry import Statistics
from broker_app.telemetry.alerts import DEFAULT_RULES, AlertEvaluator, ConditionChecks
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.metrics.detailed_metrics import DetailedMetrics
from broker_app.telemetry.metrics.node_metrics import NodeMetrics, Sources
from broker_app.telemetry.metrics.pipeline_metrics import PipelineMetrics, RunFigures
from broker_app.telemetry.pipeline_store import NoPipeline, StoredHistory
from tests.rest.bridging import BOBS, report
from tests.support.memory_journal import MemoryJournal, MemoryStorage
from tests.support.patience import patient

MIB = 1024 * 1024
TOKENS = {"mom_alice": "alice", "mom_bob": "bob"}


def policy(*, anonymous: bool = False) -> Policy:
    return Policy(
        users=MappingProxyType({name: UserFacts(name, name) for name in ("alice", "bob")}),
        tokens=MappingProxyType(
            {
                hashlib.sha256(secret.encode()).digest(): TokenFacts(user, "test")
                for secret, user in TOKENS.items()
            }
        ),
        anonymous=anonymous,
    )


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body as it comes from a socket: each piece in a turn of the loop."""
    for at in range(0, len(body), 65_536):
        yield body[at : at + 65_536]
        await asyncio.sleep(0)


class FakePipeline(NoPipeline):
    """A store that has what a test sets; `asked` is what it was asked for."""

    def __init__(self) -> None:
        self.jobs: list[RunFigures] = []
        self.stored: StoredHistory | None = None
        self.asked: list[tuple[str, str, int, int, int]] = []

    def figures(self) -> list[RunFigures]:
        return self.jobs

    def history(self, broker: str, destination: str, t0: int, step_s: int, steps: int) -> StoredHistory:
        self.asked.append((broker, destination, t0, step_s, steps))
        return self.stored or super().history(broker, destination, t0, step_s, steps)


class FakeBridges:
    """A supervisor that has what a test sets; `retried` and `tried` are what it was asked for."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.happened: dict[str, Any] = {}
        self.stray: list[Any] = []
        self.marks: list[Any] = []
        self.retried: list[tuple[str, str | None]] = []
        self.tried: list[tuple[Remote, str | None]] = []

    def report_of(self, name: str) -> Any:
        return self.known.get(name)

    def reports(self) -> list[Any]:
        return [self.known[name] for name in sorted(self.known)]

    def events_of(self, name: str) -> Any:
        return self.happened.get(name, [])

    def orphans(self) -> list[Any]:
        return self.stray

    def incoming(self, most: int) -> list[Any]:
        return self.marks[:most]

    def retry(self, name: str, queue: str | None = None) -> bool:
        self.retried.append((name, queue))
        return name in self.known

    async def trial(self, remote: Remote, queue: str | None) -> BridgeTrial:
        self.tried.append((remote, queue))
        return {"ok": True, "server": "", "delivery": None, "seconds": 0.0, "steps": []}


class Rest:
    """Engine, API and clients of one test. The password of a user is the user's name."""

    def __init__(
        self,
        *,
        anonymous: bool = False,
        limits: RestLimits | None = None,
        core: Limits | None = None,
        hold: bool = False,
        control_document: dict[str, Any] | None = None,
        jobs: Path,
        shared_journal: bool = False,
        storage: MemoryStorage | None = None,
    ) -> None:
        self.journal = MemoryJournal(storage, hold=hold)
        self.engine = Engine(Broker(limits=core), self.journal)
        self.engine.recover()
        self.logins = Logins(
            policy(anonymous=anonymous),
            lambda password, password_hash: password == password_hash,
            {"cookie-of-alice": "alice"}.get,
            failure_delay_s=0.0,
        )
        config = Config(name="mom", data=jobs.parent)
        self.statistics = Statistics(self.engine.broker, "mom", "0")
        self.access = Access(self.logins)
        self.actions = OperatorActions()
        self.decisions = Decisions()
        self.registry = SessionRegistry(
            self.engine, self.logins, self.access, config, ids=self.engine.broker.turn.ids
        )
        self.services = ServiceRegistry()
        self.live = LiveSubscribers()
        self.events = EventLog(lambda: 1_750_000_000.0)
        #: one item for each time that the broker was ordered to stop: True for a restart
        self.shut_downs: list[bool] = []
        self.store_is_nearly_full = False
        #: the cluster that the broker is in
        self.cluster: ClusterReport | None = None
        #: takeovers that were ordered: member, user, whether by force
        self.takeovers: list[tuple[str, str, bool]] = []
        #: removals that were ordered: member, whether by force
        self.removals: list[tuple[str, bool]] = []
        self.record: ReplicatedRecord | None = None
        #: those of the other brokers
        self.pages: RemotePages | None = None
        #: what each broker does when the central file is read again
        self.reloads: list[BrokerReload] = []
        self.now = 1_750_000_000.0
        self.pipeline = FakePipeline()
        self.parts = NodeParts(
            config=config,
            engine=self.engine,
            journal=self.journal,
            logins=self.logins,
            access=self.access,
            state=BrokerState("mom"),
            events=self.events,
            statistics=self.statistics,
            sessions=self.registry,
            connections=Connections(self.registry),
            services=self.services,
            live=self.live,
            publisher=SystemPublisher(self.engine),
            rest=RestParts(
                *(self.engine, self.logins, self.access, self.statistics, limits or RestLimits.of(Config()))
            ),
            failed=asyncio.get_running_loop().create_future(),
        )
        self.features = self._features(shared=shared_journal)
        self.job_files = jobs
        self.jobs = self.features.jobs.jobs
        with pytest.raises(StopIteration):  # a journal in memory answers at once
            self.jobs.start().send(None)
        self.callbacks = self.features.callbacks.supervisor
        self.seeds = self.features.services.seeds
        self.reflexes = self.features.reflexes.reflexes
        self.cursor_lags = self.features.journal.lags
        self.checks = ConditionChecks(
            self.engine.broker, self.statistics, bridges=list, taken=lambda: 0.0,
            flapping=list, events=self.events.all,
        )  # fmt: skip
        rules = tuple(DEFAULT_RULES.values())
        self.alerts = AlertEvaluator(jobs / "alerts.json", self.checks, lambda: rules, lambda: self.now)
        operation = OperationFeature(
            self.parts,
            Orders(self.shut_downs.append, lambda: Refused("conflict", "it cannot")),
            self.alerts,
            TargetTests(self._notify, "mom", None),
            self._metrics(),
            clients=self._clients,
            nearly_full=lambda: self.store_is_nearly_full,
            control_document=control_document,
        )
        self.alert_endpoints = operation.alerts
        monitored = MonitoredStats(
            *(self.engine.broker, config, self.statistics, self.parts.connections, self.bridges),
            *(self.journal.statistics, time.time()),
        )
        self.rest_api = RestApi(
            *(self.parts.rest, {**self.features.endpoints(), **operation.endpoints()}, config),
            actions=self.actions,
            state=self.parts.state,
            others=(monitored.router(),),
            control_document=control_document,
        )
        self.alice = self.client(authorization="Bearer mom_alice")
        self.bob = self.client(authorization="Bearer mom_bob")
        self.anonymous = self.client()

    async def take_over(self, member: str, user: str, *, force: bool) -> TakeoverReport:
        """Notes the order, and answers as if it were carried out."""
        self.takeovers.append((member, user, force))
        return TakeoverReport(
            member=member, journal=member, taker="mom", epoch=2, why=f"ordered by {user}", began=self.now,
            result="complete", messages=3, lost="nothing",
        )  # fmt: skip

    async def remove_member(self, member: str, *, force: bool) -> RemovalReport:
        """Notes the order, and answers as if it were carried out."""
        self.removals.append((member, force))
        return RemovalReport(member=member, journals=[f"shop.{member}"], messages=4 if force else 0)

    async def reload(self) -> list[BrokerReload]:
        return self.reloads

    async def _notify(self, target: NotificationTarget, notification: Notification) -> None:
        """Deliver to queues alone."""
        await deliver(target, notification, self.parts.publisher, Mailer())

    def _features(self, *, shared: bool) -> Features:
        """Those of a node; bridges and the cluster are what a test sets."""
        features = Features(self.parts, Given(pipeline=self.pipeline))
        rest = self.parts.rest
        self.bridges = FakeBridges()
        features.bridges.supervisor = cast(Any, self.bridges)
        features.bridges.rest_endpoints = BridgeEndpoints(
            *(rest.engine_client, self.statistics, self.bridges, self.bridges.trial, rest.policy, rest.limits)
        )
        features.cluster.report = lambda *, interest=True: self.cluster  # type: ignore[method-assign]
        features.cluster.record = lambda: self.record  # type: ignore[method-assign]
        features.cluster.pages = lambda: self.pages  # type: ignore[method-assign]
        features.cluster.take_over = self.take_over  # type: ignore[method-assign]
        features.cluster.remove = self.remove_member  # type: ignore[method-assign]
        features.cluster.reload = self.reload  # type: ignore[method-assign]
        stages = StageStore(self.parts.config.data / "bulk", 1 << 30)
        self.bulk = features.bulk.commits = BatchCommits(self.engine, stages, shared=shared)
        return features

    def _clients(self) -> dict[str, int]:
        return {"stomp": len(self.parts.connections), "json": 0, "rest": self.rest_api.receiving}

    def _metrics(self) -> Metrics:
        broker, statistics = self.engine.broker, self.statistics
        sources = Sources(
            *("memory", self.journal.statistics, self.parts.connections, self.decisions),
            features=self.features.metrics,
        )
        return Metrics(
            NodeMetrics(broker, statistics, "mom", "0", sources),
            DetailedMetrics(broker, statistics, self.features.bridges.statuses),
            PipelineMetrics(self.journal, "mom", self.pipeline.figures),
        )

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.rest_api, raise_app_exceptions=True),  # type: ignore[arg-type]
            base_url="http://localhost/api/v1",
            headers=headers,
        )

    async def publish(self, queue: str, *bodies: str, **headers: str) -> list[str]:
        """Publish texts; their ids."""
        ids = []
        for body in bodies:
            reply = await self.alice.post(
                f"/queues/{queue}/messages", content=body, headers={"content-type": "text/plain", **headers}
            )
            assert reply.status_code == 201, reply.text
            ids.append(reply.json()["id"])
        return ids

    async def receive(self, queue: str, **wanted: Any) -> list[dict[str, Any]]:
        reply = await self.alice.post(f"/queues/{queue}/receive", json=wanted)
        assert reply.status_code == 200, reply.text
        items: list[dict[str, Any]] = reply.json()["items"]
        return items

    def depth(self, queue: str) -> int:
        found = self.engine.broker.destinations.queues.get(f"/queue/{queue}")
        return found.depth if found is not None else 0

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until `condition` holds."""
        async with asyncio.timeout(patient(10)):
            while not condition():
                await asyncio.sleep(0)

    async def until_later(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, which needs threads or time."""
        async with asyncio.timeout(patient(10)):
            while not condition():
                await asyncio.sleep(0.005)


MakeRest = Callable[..., Rest]


@pytest.fixture
async def make_rest(tmp_path: Path) -> AsyncIterator[MakeRest]:
    made: list[Rest] = []

    def make(**options: Any) -> Rest:
        made.append(Rest(jobs=tmp_path / "jobs", **options))
        return made[-1]

    yield make
    for rest in made:
        rest.journal.hold = False
        rest.rest_api.stop()
        for client in (rest.alice, rest.bob, rest.anonymous):
            await client.aclose()
        await rest.jobs.stop()
        await rest.bulk.stop()
        await rest.engine.stop()


@pytest.fixture
async def rest(make_rest: MakeRest) -> Rest:
    return make_rest()


@pytest.fixture
def bridged(rest: Rest) -> Rest:
    """Alice administers, and bob has rules; there is a bridge with two flows."""
    users = {"alice": UserFacts("alice", "alice", True), "bob": UserFacts("bob", "bob")}
    remotes = {name: Remote(name, "w", password="hidden") for name in ("west", "east")}
    said = replace(policy(), version=1, users=MappingProxyType(users), rules=Rules(BOBS), bridges=remotes)
    rest.logins.reload(said)
    rest.bridges.known = {"west": report(), "east": report("east", flows=[], foreign=True)}
    rest.bridges.happened = {
        "west": [
            {
                "time_ms": 1_750_000_000_000 + at, "first_ms": 1_750_000_000_000, "event": "refused",
                "queue": queue, "code": "TARGET_FULL", "detail": "full", "times": 2,
            }
            for at, queue in enumerate(("", "orders", "bills"))
        ]
    }  # fmt: skip
    return rest
