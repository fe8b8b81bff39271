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

from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.engine import Engine
from broker_app.jobs.job_manager import JobManager
from broker_app.journal.memory import MemoryJournal, MemoryStorage
from broker_app.net.auth.login import Logins
from broker_app.net.operator_audit import OperatorActions
from broker_app.net.policy.access import Access
from broker_app.net.policy.policy import Policy, TokenFacts, UserFacts
from broker_app.net.rest import RestApi, RestLimits
from broker_app.net.rest.ndjson import MessageLines
from broker_app.net.stomp.connections import Connections
from broker_app.net.stomp.session_registry import SessionRegistry
from broker_app.remote import Remote
from broker_app.rules.ruleset import Rules
from broker_app.telemetry import Statistics
from broker_app.telemetry.alerts import DEFAULT_RULES, AlertEvaluator, ConditionChecks
from broker_app.telemetry.event_log import EventLog
from tests.rest.bridging import BOBS, report

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
        self.statistics = Statistics(self.engine.broker, "mom", "0")
        self.access = Access(self.logins)
        self.actions = OperatorActions()
        self.registry = SessionRegistry(
            self.engine, self.logins, self.access, Config(), ids=self.engine.broker.turn.ids
        )
        self.bridges = FakeBridges()
        self.events = EventLog(lambda: 1_750_000_000.0)
        self.now = 1_750_000_000.0
        self.checks = ConditionChecks(
            self.engine.broker, self.statistics, bridges=list, taken=lambda: 0.0,
            flapping=list, events=self.events.all,
        )  # fmt: skip
        rules = tuple(DEFAULT_RULES.values())
        self.alerts = AlertEvaluator(jobs / "alerts.json", self.checks, lambda: rules, lambda: self.now)
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
            connections=Connections(self.registry),
            forwarding=self.bridges,
            trial=self.bridges.trial,
            sizes=self.journal.statistics,
            events=self.events,
            alerts=self.alerts,
        )
        self.alice = self.client(authorization="Bearer mom_alice")
        self.bob = self.client(authorization="Bearer mom_bob")
        self.anonymous = self.client()

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
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    async def until_later(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, which needs threads or time."""
        async with asyncio.timeout(10):
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
