"""A REST API over a real engine and a journal in memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.engine import Engine
from broker_app.features.bridge.remote import Remote
from broker_app.features.bulk.batch_commits import BatchCommits
from broker_app.features.bulk.stage_store import StageStore
from broker_app.features.callbacks.webhooks.supervisor import Supervisor
from broker_app.features.cluster.replicated_record import ReplicatedRecord
from broker_app.features.cluster.report import ClusterReport
from broker_app.features.jobs.job_manager import JobManager
from broker_app.features.services.registry import ServiceRegistry
from broker_app.features.services.seed_messages import SeedMessages
from broker_app.journal.memory import MemoryJournal, MemoryStorage
from broker_app.net import asyncapi
from broker_app.net.auth.login import Logins
from broker_app.net.broker_state import BrokerState
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.decisions import Decisions
from broker_app.net.policy.owner_rights import OwnerRights, SenderRights
from broker_app.net.policy.policy import Policy, TokenFacts, UserFacts
from broker_app.net.rest import RestApi, RestLimits
from broker_app.net.rest.messages.ndjson import MessageLines
from broker_app.net.rest.node.metrics import Metrics
from broker_app.net.stomp.changed_headers import ChangedHeaders
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.reflex.reflexes import Reflexes, Settings
from broker_app.reflex.shipped.context import Context
from broker_app.rules.ruleset import Rules
from broker_app.telemetry import Statistics
from broker_app.telemetry.alerts import DEFAULT_RULES, AlertEvaluator, ConditionChecks
from broker_app.telemetry.bridges import status
from broker_app.telemetry.cursor_lags import CursorLags
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.metrics.detailed_metrics import DetailedMetrics
from broker_app.telemetry.metrics.node_metrics import NodeMetrics, Sources
from broker_app.telemetry.metrics.pipeline_metrics import PipelineMetrics, RunFigures
from broker_app.telemetry.pipeline_store import NoPipeline, StoredHistory
from tests.rest.bridging import BOBS, report
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
        self.known: dict[str, dict[str, Any]] = {}
        self.happened: dict[str, list[dict[str, Any]]] = {}
        self.stray: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.retried: list[tuple[str, str | None]] = []
        self.tried: list[tuple[Remote, str | None]] = []

    def report_of(self, name: str) -> dict[str, Any] | None:
        return self.known.get(name)

    def reports(self) -> list[dict[str, Any]]:
        return [self.known[name] for name in sorted(self.known)]

    def events_of(self, name: str) -> list[dict[str, Any]] | None:
        return self.happened.get(name, [])

    def orphans(self) -> list[dict[str, Any]]:
        return self.stray

    def incoming(self, most: int) -> list[dict[str, Any]]:
        return self.marks[:most]

    def retry(self, name: str, queue: str | None = None) -> bool:
        self.retried.append((name, queue))
        return name in self.known

    async def trial(self, remote: Remote, queue: str | None) -> dict[str, Any]:
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
        lines = MessageLines(limits or RestLimits())
        self.job_files = jobs
        self.jobs = JobManager(self.engine, self.engine.records, jobs, lines)
        with pytest.raises(StopIteration):  # a journal in memory answers at once
            self.jobs.start().send(None)
        self.bulk = BatchCommits(
            self.engine, StageStore(jobs.parent / "bulk", 1 << 30), shared=shared_journal
        )
        self.statistics = Statistics(self.engine.broker, "mom", "0")
        self.access = Access(self.logins)
        self.actions = OperatorActions()
        self.registry = SessionRegistry(
            self.engine, self.logins, self.access, Config(name="mom"), ids=self.engine.broker.turn.ids
        )
        self.bridges = FakeBridges()
        self.callbacks = Supervisor(self.engine, Config(data=jobs), OwnerRights(self.access).refusal)
        self.services = ServiceRegistry()
        self.live = LiveSubscribers()
        self.seeds = SeedMessages(
            self.engine, self.services, SenderRights(self.access), self.registry.seed_shares
        )
        self.events = EventLog(lambda: 1_750_000_000.0)
        #: one item for each time that the broker was ordered to stop
        #: restarts (True) and shutdowns
        self.shut_downs: list[bool] = []
        self.store_is_nearly_full = False
        #: the cluster that the broker is in
        self.cluster: ClusterReport | None = None
        self.record: ReplicatedRecord | None = None
        self.now = 1_750_000_000.0
        self.checks = ConditionChecks(
            self.engine.broker, self.statistics, bridges=list, taken=lambda: 0.0,
            flapping=list, events=self.events.all,
        )  # fmt: skip
        rules = tuple(DEFAULT_RULES.values())
        connections = Connections(self.registry)
        self.pipeline = FakePipeline()
        self.cursor_lags = CursorLags(self.journal)
        self.alerts = AlertEvaluator(jobs / "alerts.json", self.checks, lambda: rules, lambda: self.now)
        context = Context("mom", jobs, self.events, lambda: None)
        settings = Settings("", 512 * MIB, 64 * MIB)
        self.reflexes = Reflexes(self.engine, context, ChangedHeaders(100, 65_536), settings)
        self.rest_api = RestApi(
            self.engine,
            self.engine.records,
            self.logins,
            Config(),
            self.jobs,
            access=self.access,
            actions=self.actions,
            limits=limits,
            statistics=self.statistics,
            control_document=control_document,
            connections=connections,
            forwarding=self.bridges,
            trial=self.bridges.trial,
            journal=self.journal,
            events=self.events,
            alerts=self.alerts,
            bulk=self.bulk,
            cursor_lags=self.cursor_lags,
            metrics=self._metrics(connections),
            pipeline=self.pipeline,
            reflexes=self.reflexes,
            callbacks=self.callbacks,
            services=self.services,
            seeds=self.seeds,
            live=self.live,
            state=BrokerState("mom"),
            clients=lambda: {"stomp": len(connections), "json": 0},
            stop=self.shut_downs.append,
            restart_refusal=lambda: Refused("conflict", "it cannot"),
            channels=self.registry.channels,
            nearly_full=lambda: self.store_is_nearly_full,
            cluster=lambda: self.cluster,
            record=lambda: self.record,
            event_document=asyncapi.document(),
        )
        self.alice = self.client(authorization="Bearer mom_alice")
        self.bob = self.client(authorization="Bearer mom_bob")
        self.anonymous = self.client()

    def _metrics(self, connections: Connections) -> Metrics:
        broker, statistics = self.engine.broker, self.statistics

        def bridges() -> list[dict[str, Any]]:
            return [status(statistics, report) for report in self.bridges.reports()]

        self.decisions = Decisions()
        sources = Sources(
            *("memory", self.journal.statistics, connections, self.decisions),
            *(lambda: (job.op for job in self.jobs.all() if job.open), bridges, self.callbacks.totals),
            lambda: None,
        )
        return Metrics(
            NodeMetrics(broker, statistics, "mom", "0", sources),
            DetailedMetrics(broker, statistics, bridges),
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
