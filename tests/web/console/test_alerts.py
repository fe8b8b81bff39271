"""Pages of alert rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import Client

from broker_app.models import AuditEntry
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.snapshot import read_policy
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db

FIELDS = {
    "condition": "oldest",
    "severity": "critical",
    "threshold": "60",
    "enabled": "on",
    "pattern": "/queue/a>",
}


class TestedNode:
    """A node that is asked for tests of notifications."""

    __test__ = False
    stomp_port = 61613
    alerts = NO_ALERTS
    mirror = None
    cluster_consoles = list[str]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.asked: list[list[str]] = []

    async def test_notification(self, targets: list[str], user: str) -> list[dict[str, Any]]:
        self.asked.append(targets)
        refused = {"target": "mailto:a@b", "ok": False, "detail": "no mail server", "seconds": 0.1}
        return [{"target": "queue:ops", "ok": True, "detail": "", "seconds": 0.25}, refused]


def in_force() -> dict[str, tuple[float, bool]]:
    return {rule.name: (rule.threshold, rule.enabled) for rule in read_policy(False).alerts}


def test_built_in_rules_are_listed_replaced_and_restored(inside: Client) -> None:
    assert "built-in" in inside.get("/console/alerts/").content.decode()
    page = inside.get("/console/alerts/rules/edit?name=oldest").content.decode()
    assert "This rule is built in" in page and "Remove…" not in page
    page = sent(inside, "/console/alerts/rules/edit?name=oldest", notify="queue:ops", **FIELDS)
    assert "Alert rule oldest was created." in page
    assert RESOURCE_TYPES["alerts"].read()["oldest"]["notify"] == ["queue:ops"]
    assert in_force()["oldest"] == (60, True)
    sent(inside, "/console/alerts/rules/remove?name=oldest")
    assert in_force()["oldest"] == (300, True)


def test_a_rule_is_disabled_and_another_one_created(inside: Client) -> None:
    off = {name: value for name, value in FIELDS.items() if name != "enabled"}
    sent(inside, "/console/alerts/rules/edit?name=oldest", **off)
    sent(inside, "/console/alerts/rules/add", name="slow", **FIELDS)
    assert in_force()["oldest"] == (60, False)
    assert in_force()["slow"] == (60, True)
    assert len(in_force()) == 16


def test_targets_are_tested_before_the_rule_is_saved(inside: Client) -> None:
    form = {"operation": "test", "notify": "queue:ops\nmailto:a@b"}
    with answering(TestedNode) as node:
        page = inside.post("/console/alerts/rules/add", form).content.decode()
    assert node.asked == [["queue:ops", "mailto:a@b"]]
    for text in (
        "> accepted</span> <code>queue:ops</code>",
        "> not accepted</span> <code>mailto:a@b</code>",
        "no mail server",
    ):
        assert text in page, text
    assert "queue:ops\nmailto:a@b</textarea>" in page
    logged = AuditEntry.objects.filter(action="tested").values_list("kind", "key")
    assert sorted(logged) == [("notifications", "mailto:a@b"), ("notifications", "queue:ops")]
    alone = inside.post("/console/alerts/rules/add", form).content.decode()
    assert "no broker here sends notifications" in alone


def test_an_invalid_notification_target_is_refused_at_its_field(inside: Client) -> None:
    page = sent(inside, "/console/alerts/rules/add", name="slow", notify="ftp://host", **FIELDS)
    assert 'id="id_notify_error"' in page and "must begin with queue:" in page
    assert inside.get("/console/alerts/rules/edit?name=none").status_code == 404
