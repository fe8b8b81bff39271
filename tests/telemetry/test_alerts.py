"""Alerts: when they fire, their acknowledgement, and when they end; in a time that the test turns."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_app.base.events import ALERT_UNSILENCED, FILES_APPLIED, FILES_REFUSED
from broker_app.base.reply_types import Facts
from broker_app.core import commands as c
from broker_app.features.cluster.report import DiscoveryReport
from broker_app.features.cluster.status import status
from broker_app.telemetry import Statistics
from broker_app.telemetry.alerts import (
    DEFAULT_RULES,
    Alert,
    AlertEvaluator,
    AlertEvent,
    AlertRule,
    AlertState,
    ConditionChecks,
    Violation,
)
from broker_app.telemetry.alerts.alert_state import CALM_S, MAX_ENDED, MAX_OF_RULE
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.client_events import ClientIdentity
from broker_app.telemetry.component_health import Component
from broker_app.telemetry.event_log import EventLog
from tests.core.stage import Stage
from tests.support.clusters import a_link, a_report, a_takeover, an_enhanced_cluster

NOW = 1_800_000_000.0
RULE = AlertRule("waits", "no-consumer", 1, 60, "warning")


class Turned:
    """A watch over symptoms that the test puts there."""

    def __init__(self, *rules: AlertRule) -> None:
        self.watch = AlertState()
        self.rules = rules or (RULE,)
        self.now = NOW
        self.found: dict[str, float] = {}

    def after(self, seconds: float, **found: float) -> list[tuple[str, str]]:
        """(event, subject) of what became of alerts when so much time had passed."""
        self.now += seconds
        told = self.watch.evaluate(self.now, self.rules, lambda rule: self._symptoms(found))
        return [(event.name, alert.subject) for event, alert in told]

    def _symptoms(self, found: dict[str, float]) -> list[Violation]:
        return [Violation(subject, value) for subject, value in found.items()]


def test_an_alert_fires_when_its_condition_has_held_for_long_enough_and_ends_when_it_is_calm() -> None:
    turned = Turned()
    assert turned.after(0, a=3) == []
    assert turned.after(59, a=4) == []
    assert turned.after(1, a=5) == [("fired", "a")]
    alert = turned.watch.open()[0]
    assert (alert.since, alert.fired_at, alert.value) == (NOW, NOW + 60, 5)
    assert turned.after(5, a=9) == []
    assert alert.value == 9
    assert turned.after(CALM_S - 1) == []
    assert turned.after(1) == [("ended", "a")]
    assert alert.ended_at == turned.now
    assert turned.watch.all() == [alert]
    assert turned.watch.firing == 0


def test_an_interrupted_condition_starts_again() -> None:
    turned = Turned()
    turned.after(0, a=1)
    turned.after(50)
    assert turned.after(10, a=1) == []
    assert turned.after(60, a=1) == [("fired", "a")]


def test_acknowledged_alerts_are_listed_behind_open_ones() -> None:
    turned = Turned(replace(RULE, for_s=0))
    turned.after(0, a=1)
    turned.after(1, a=1, b=1)
    first = turned.watch.open()[0]
    told = turned.watch.acknowledge(first, "ann", "on it")
    assert (told.event.name, first.state, first.by, first.reason) == (
        "acknowledged",
        "acknowledged",
        "ann",
        "on it",
    )
    assert [alert.subject for alert in turned.watch.open()] == ["b", "a"]
    assert turned.watch.firing == 1
    assert turned.after(5, a=1, b=1) == []
    assert turned.after(CALM_S, b=1) == [("ended", "a")]
    assert turned.after(1, a=1, b=1) == [("fired", "a")]


def test_a_silence_covers_what_comes_again_and_ends_by_itself() -> None:
    turned = Turned(replace(RULE, for_s=0))
    turned.after(0, a=1)
    turned.watch.silence(turned.watch.open()[0], turned.now + 100, "ann", "maintenance")
    assert turned.after(CALM_S) == [("ended", "a")]
    assert turned.after(1, a=1) == [("silenced", "a")]
    assert turned.watch.open()[0].by == "ann"
    assert turned.watch.firing == 0
    assert turned.after(100, a=1) == [("fired", "a")]
    assert turned.watch.open()[0].until is None


def test_a_silence_is_taken_back() -> None:
    turned = Turned(replace(RULE, for_s=0))
    turned.after(0, a=1)
    alert = turned.watch.open()[0]
    turned.watch.silence(alert, turned.now + 100, "ann", "")
    assert turned.watch.reopen(alert) == AlertEvent(ALERT_UNSILENCED, alert)
    assert alert.state == "firing"
    turned.after(CALM_S)
    assert turned.after(1, a=1) == [("fired", "a")]


@pytest.mark.parametrize("rules", [(), (replace(RULE, for_s=0, enabled=False),)])
def test_alerts_of_a_rule_that_is_gone_or_switched_off_end_at_once(rules: tuple[AlertRule, ...]) -> None:
    turned = Turned(replace(RULE, for_s=0))
    turned.after(0, a=1)
    turned.rules = rules
    assert turned.after(1, a=1) == [("ended", "a")]


def test_of_many_alerts_of_a_rule_the_worst_are_there_and_the_others_are_counted() -> None:
    turned = Turned(replace(RULE, for_s=0))
    turned.after(0, **{f"q{number}": 1 for number in range(MAX_OF_RULE + 20)})
    assert len(turned.watch.open()) == MAX_OF_RULE
    assert turned.watch.missed == 20


def test_of_those_that_ended_the_newest_are_remembered() -> None:
    turned = Turned(replace(RULE, for_s=0))
    for number in range(MAX_ENDED + 50):
        turned.after(1, **{f"q{number}": 1})
    turned.after(CALM_S)
    ended = [alert.subject for alert in turned.watch.all()]
    assert len(ended) == MAX_ENDED
    assert ended[0] == f"q{MAX_ENDED + 49}"


# ---------------------------------------------------------------------- what is found


class Broken(Stage):
    """A broker with symptoms."""

    def __init__(self) -> None:
        super().__init__()
        self.statistics = Statistics(self.broker, "mom", "1")
        self.bridges: list[dict[str, Any]] = []
        self.taken = 0.1
        self.flaps: list[tuple[ClientIdentity, int, float, str]] = []
        self.components: list[Component] = []
        self.events = EventLog(lambda: self.now_us / 1e6)
        self.cluster: Facts | None = None
        self.checks = ConditionChecks(
            self.broker, self.statistics, bridges=lambda: self.bridges, taken=lambda: self.taken,
            flapping=lambda: self.flaps, events=self.events.all, components=lambda: self.components,
            cluster=lambda: self.cluster,
        )  # fmt: skip

    async def look(self, seconds: int = 0) -> None:
        self.pass_time(seconds * 1_000)
        self.statistics.sample(self.now_us / 1e6)
        await self.checks.update(self.now_us / 1e6)

    async def found(self, rule: str, **other: Any) -> dict[str, float]:
        found = await self.checks.find(replace(DEFAULT_RULES[rule], **other))
        return {one.subject: one.value for one in found}


async def test_what_fails_and_what_works_in_part_have_one_condition_each_whatever_it_is() -> None:
    stage = Broken()
    stage.components = [
        Component("store", "journal", "failing", "no space"),
        Component("callback", "erp", "failing", "the answer was 500"),
        Component("pipeline", "archive", "stalled", ""),
        Component("mirror", "B", "degraded", "no standby"),
        Component("reflex", "r", "running", ""),
        Component("callback", "p", "paused", ""),
    ]
    failing = {"store/journal": 1, "callback/erp": 1, "pipeline/archive": 1}
    assert await stage.found("failing") == failing
    assert await stage.found("failing", pattern="callback/*") == {"callback/erp": 1}
    assert await stage.found("degraded") == {"mirror/B": 1}
    stage.components = [Component("store", "journal", "degraded", "80 %")]
    assert await stage.found("degraded") == {}, "it is the alert `store`"
    stage.components = [Component("callback", "erp", "failing", "the answer was 500")]
    (found,) = await stage.checks.find(replace(DEFAULT_RULES["failing"], pattern="callback/*"))
    alert = Alert(
        "1", "failing", "failing", "critical", found.subject, 1, NOW, NOW, found.value, dict(found.facts)
    )
    assert shown(alert)["detail"] == "Callback erp is failing: the answer was 500"
    assert shown(alert)["page"] == "callbacks/one?name=erp"


async def test_a_bridge_that_fails_has_an_alert_also_without_waiting_messages_and_only_one() -> None:
    stage = Broken()
    stage.components = [Component("bridge", name, "failing", "refused") for name in ("idle", "west")]
    rest = {"state": "retrying", "desired": "running", "error": None}
    stage.bridges = [{"name": "idle", "flows": [], **rest}]
    stage.bridges.append({"name": "west", "flows": [flow("retrying", 7)], **rest})
    await stage.look()
    assert await stage.found("failing") == {"bridge/idle": 1}
    assert await stage.found("bridge-stalled") == {"west": 7}
    (found,) = await stage.checks.find(DEFAULT_RULES["failing"])
    alert = Alert(
        "1", "failing", "failing", "critical", found.subject, 1, NOW, NOW, found.value, dict(found.facts)
    )
    assert shown(alert)["page"] == "bridges/one?name=idle"


async def test_a_message_that_waits_too_long_for_its_consumers() -> None:
    stage = Broken()
    producer, taker = stage.client(), stage.client()
    taker.subscribe("/queue/a", credit=1)
    for _ in range(3):
        producer.publish("/queue/a")
    await stage.look(299)
    assert await stage.found("oldest") == {}
    await stage.look(1)
    assert await stage.found("oldest") == {"/queue/a": 300}
    assert await stage.found("oldest", pattern="/queue/b>") == {}
    assert await stage.found("oldest", pattern="/queue/*a") == {"/queue/a": 300}
    assert await stage.found("no-consumer") == {}


async def test_a_queue_without_consumers() -> None:
    stage = Broken()
    stage.client().publish("/queue/a")
    stage.client().publish("/queue/a.dead")
    stage.client().publish("/queue/storeAndForward:west/queue/a")
    await stage.look()
    assert await stage.found("no-consumer") == {"/queue/a": 1}
    assert await stage.found("no-consumer", threshold=2) == {}


async def test_dead_letters_that_come_are_counted_for_ten_minutes_and_those_of_before_are_not() -> None:
    stage = Broken()
    producer = stage.client()
    producer.publish("/queue/a.dead")
    await stage.look(1)
    assert await stage.found("dead-letters") == {}
    for _ in range(3):
        producer.publish("/queue/a.dead")
    producer.publish("/queue/b.dead")
    await stage.look(5)
    assert await stage.found("dead-letters") == {"/queue/a.dead": 3, "/queue/b.dead": 1}
    producer.purge("/queue/a.dead")
    for _ in range(119):
        await stage.look(5)
    assert await stage.found("dead-letters") == {"/queue/a.dead": 3, "/queue/b.dead": 1}
    for _ in range(12):
        await stage.look(5)
    assert await stage.found("dead-letters") == {}


async def test_dead_letter_queues_that_were_deleted_take_no_place_of_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_app.telemetry.alerts.growth.MAX_GROWING", 2)
    stage = Broken()
    producer = stage.client()
    await stage.look()
    for name in ("a", "b"):
        producer.publish(f"/queue/{name}.dead")
        await stage.look(30)
        producer.do(c.DeleteQueue(producer.peer, f"/queue/{name}.dead", True))
    for _ in range(21):
        await stage.look(30)
    producer.publish("/queue/c.dead")
    await stage.look(30)
    assert await stage.found("dead-letters") == {"/queue/c.dead": 1}


def flow(state: str, depth: int, *, paused: bool = False, code: str = "") -> dict[str, Any]:
    error = {"code": code, "detail": "", "at_ms": 0} if code else None
    return {"state": state, "depth": depth, "paused": paused, "error": error}


async def test_bridges_that_stall_with_messages_before_them() -> None:
    stage = Broken()
    rest = {"desired": "running", "error": None}
    stage.bridges = [
        {"name": "west", "state": "retrying", "flows": [flow("retrying", 7, code="REFUSED")], **rest},
        {"name": "idle", "state": "retrying", "flows": [], **rest},
        {"name": "fine", "state": "running", "flows": [flow("running", 9)], **rest},
        {
            "name": "slow",
            "state": "running",
            "flows": [flow("stalled", 3), flow("failed", 1, paused=True)],
            **rest,
        },
        {**rest, "name": "off", "state": "suspended", "flows": [flow("failed", 4)], "desired": "paused"},
    ]
    await stage.look()
    found = await stage.checks.find(DEFAULT_RULES["bridge-stalled"])
    assert [(one.subject, one.value, one.facts["state"], one.facts["error"]) for one in found] == [
        ("west", 7, "retrying", "REFUSED"), ("slow", 3, "stalled", ""),
    ]  # fmt: skip


async def test_a_full_store_a_flapping_client_and_refused_files() -> None:
    stage = Broken()
    await stage.look()
    assert (
        await stage.found("store")
        == await stage.found("flapping")
        == await stage.found("configuration")
        == {}
    )
    stage.taken = 0.815
    stage.flaps = [
        (ClientIdentity("ann", "shop", "10.0.0.1"), 12, NOW, "gone"),
        (ClientIdentity("bob", "shop", "h"), 9, NOW, ""),
    ]
    stage.events.report(FILES_REFUSED, "reload", detail="zero.config:3: no")
    assert await stage.found("store") == {"store": 81.5}
    assert await stage.found("flapping") == {"ann@10.0.0.1": 12}
    assert await stage.found("configuration") == {"files": 1}
    stage.events.report(FILES_APPLIED, "reload", detail="")
    assert await stage.found("configuration") == {}


async def test_takeovers_suspects_and_ways_in_which_no_broker_is_found() -> None:
    stage = Broken()
    rules = ("takeover", "suspect", "discovery")
    assert [await stage.found(rule) for rule in rules] == [{}, {}, {}]
    await stage.look()
    began = NOW - 590
    takeovers = [
        a_takeover(began=NOW - 5, result="failed", error="it is damaged"),
        a_takeover(began=began),
        a_takeover(member="b5", began=NOW - 1, result="running"),
        a_takeover(member="b4", began=NOW - 601),
    ]
    discovery = [
        DiscoveryReport(way="multicast", place="239.255.2.3:6155", error="no such device"),
        DiscoveryReport(way="registry", place="shop"),
    ]
    stage.cluster = status(a_report(enhanced=an_enhanced_cluster(takeovers=takeovers), discovery=discovery))
    assert await stage.found("takeover") == {"b3": 2}
    assert await stage.found("suspect") == {"b2": 1}
    assert await stage.found("discovery") == {"multicast 239.255.2.3:6155": 1}
    texts = []
    for rule in rules:
        found = (await stage.checks.find(DEFAULT_RULES[rule]))[0]
        facts = dict(found.facts)
        alert = Alert(
            "1", rule, DEFAULT_RULES[rule].condition, "warning", found.subject, 1, NOW, NOW, 1, facts
        )
        texts.append((shown(alert)["detail"], shown(alert)["page"]))
    suspected = (
        "no heart-beat for 2.5 s; looks at it that found none: 1; "
        "suspected since 2025-06-15T15:06:43.500Z by b1, b3"
    )
    assert texts == [
        ("b1 could not take over from b3: it is damaged", "cluster/"),
        (f"Member b2 of the cluster is suspect: {suspected}", "cluster/"),
        ("Brokers cannot be found by multicast 239.255.2.3:6155: no such device", "cluster/"),
    ]


async def test_links_of_a_cluster_that_are_down_or_refused_and_a_keeper_that_is_away() -> None:
    stage = Broken()
    assert [await stage.found(rule) for rule in ("link-down", "link-refused", "keeper-away")] == [{}, {}, {}]
    b4 = a_link("b4", state="refused", reason="autocreate.queue is false here and true there")
    report = a_report(
        a_link("b2"), a_link("b3", state="connecting", reason="no route to host"), b4,
        a_link("b5", state="stopped"),
        keeper="b3:7676", keeper_state="the keeper b3:7676 cannot be reached",
    )  # fmt: skip
    stage.cluster = status(report)
    assert await stage.found("link-down") == {"b3": 1, "b5": 1}
    assert await stage.found("link-refused") == {"b4": 1}
    assert await stage.found("keeper-away") == {"b3:7676": 1}
    assert await stage.found("link-down", pattern="b5") == {"b5": 1}
    stage.cluster = status(msgspec.structs.replace(report, enhanced=an_enhanced_cluster()))
    assert await stage.found("link-down") == {"b5": 1}, "b1 has taken over b3"
    stage.cluster = status(report)
    stage.components = [
        Component("link", "b3", "degraded", ""), Component("link", "b4", "failing", "")
    ]  # fmt: skip
    unhealthy = [await stage.found(rule) for rule in ("failing", "degraded")]
    assert unhealthy == [{}, {}], "they have conditions of their own"
    texts = []
    for rule in ("link-down", "link-refused", "keeper-away"):
        found = (await stage.checks.find(DEFAULT_RULES[rule]))[0]
        facts = dict(found.facts)
        alert = Alert(
            "1", rule, DEFAULT_RULES[rule].condition, "warning", found.subject, 1, NOW, NOW, 1, facts
        )
        texts.append((shown(alert)["detail"], shown(alert)["page"]))
    assert texts == [
        ("Broker b3 of the cluster cannot be reached: no route to host", "cluster/"),
        (
            "Broker b4 is not in one cluster with this one: autocreate.queue is false here and true there",
            "cluster/",
        ),
        ("Changes of the configuration are refused: the keeper b3:7676 cannot be reached", "cluster/"),
    ]


@pytest.mark.parametrize(
    ("condition", "subject", "value", "said", "where"),
    [
        (
            "oldest",
            "/queue/a",
            480,
            "a: the oldest message has waited 8 min",
            "queues/one?name=a&tab=history&at=",
        ),
        ("dead-letters", "/queue/a.dead", 400, "a.dead grew by 400 in 10 min", "queues/one?name=a.dead"),
        ("no-consumer", "/queue/a", 1, "a: 1 message waits, no consumers", "queues/one?name=a"),
        (
            "bridge-stalled",
            "west",
            1204,
            "Bridge west is stalled: 1,204 messages wait",
            "bridges/one?name=west",
        ),
        ("store", "store", 81.5, "Store usage: 81.5 %", "?at=2027-01-15T08%3A00%3A00Z"),
        ("flapping", "ann@h", 12, "ann@h connected 12 times in 5 min", "connections/?user=ann"),
        ("configuration", "files", 1, "Configuration files were rejected", "configuration/files"),
    ],
)
def test_each_alert_has_a_sentence_and_a_page(
    condition: str, subject: str, value: float, said: str, where: str
) -> None:
    alert = Alert("1", "r", condition, "warning", subject, 1, NOW, NOW, value)
    assert shown(alert)["detail"] == said
    assert shown(alert)["page"].startswith(where)
    assert shown(alert)["fired_at"] == "2027-01-15T08:00:00.000Z"


# ---------------------------------------------------------------------- in a node


class OnDuty(Broken):
    """Alerts of a broker as a node has them."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.evaluator = AlertEvaluator(
            file, self.checks, lambda: tuple(DEFAULT_RULES.values()), lambda: self.now_us / 1e6
        )
        self.heard: list[str] = []
        self.evaluator.listeners.add(
            lambda told: self.heard.append(f"{told.event.name} {told.alert.subject}")
        )
        self.evaluator.start()

    async def second(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.pass_time(1_000)
            self.statistics.sample(self.now_us / 1e6)
            self.evaluator.evaluate_if_due()
            for evaluation in asyncio.all_tasks() - {asyncio.current_task()}:
                await evaluation


async def test_acknowledgements_and_silences_survive_a_restart(tmp_path: Path) -> None:
    stage = OnDuty(tmp_path / "alerts.json")
    stage.taken = 0.9
    await stage.second(66)
    assert stage.heard == ["fired store"]
    stage.evaluator.silence(stage.evaluator.all()[0], 3_600, "ann", "a larger disk comes")
    await stage.evaluator.stop()
    again = OnDuty(tmp_path / "alerts.json")
    again.taken, again.now_us = 0.9, stage.now_us
    await again.second(10)
    assert again.heard == []
    alert = again.evaluator.all()[0]
    assert (alert.state, alert.by, alert.reason) == ("silenced", "ann", "a larger disk comes")
    again.taken = 0.1
    await again.second(40)
    assert again.heard == ["ended store"]
    await again.evaluator.stop()


@pytest.mark.parametrize("content", ["", "[]", '{"alerts": [{}]}', '{"alerts": 7}', '{"silences": [[1]]}'])
async def test_after_an_unusable_file_alerts_start_again(tmp_path: Path, content: str) -> None:
    file = tmp_path / "alerts.json"
    file.write_text(content)
    stage = OnDuty(file)
    assert stage.evaluator.all() == []
    stage.taken = 0.9
    await stage.second(66)
    await stage.evaluator.stop()
    assert len(json.loads(await asyncio.to_thread(file.read_text))["alerts"]) == 1
