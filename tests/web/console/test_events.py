"""The page of the event log."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.test import Client

from broker_app.base import causes
from broker_app.base.events import BRIDGE_RETRYING, FILES_APPLIED, MIRROR_LEFT
from broker_app.telemetry.event_log import EventLog
from broker_app.web.console import event_log

pytestmark = pytest.mark.django_db


def test_events_are_shown_newest_first_and_found_by_words(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(lambda: 1_750_000_000.0)
    log.report(BRIDGE_RETRYING, "west", code="REFUSED", detail="no listener", queue="orders")
    log.report(FILES_APPLIED, "brokers.config", detail="brokers.config:4:1: <what>")
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))
    page = inside.get("/console/events/").content.decode()
    assert page.index("brokers.config:4:1: &lt;what&gt;") < page.index("REFUSED: no listener")
    assert "(orders)" in page and "/console/bridges/?filter=west" in page
    page = inside.get("/console/events/?filter=WEST").content.decode()
    assert "no listener" in page and "brokers.config:4" not in page
    page = inside.get("/console/events/?kind=files").content.decode()
    assert "no listener" not in page and "brokers.config:4" in page
    page = inside.get("/console/events/?trouble=1").content.decode()
    assert "no listener" in page and "brokers.config:4" not in page
    assert "Nothing matches" in inside.get("/console/events/?filter=none").content.decode()


def test_events_and_their_reasons_are_in_the_language_of_the_page(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(lambda: 1_750_000_000.0)
    log.report(BRIDGE_RETRYING, "west", code="REFUSED", detail=causes.NOT_LISTENING, queue="orders")
    log.report(MIRROR_LEFT, "m", mirror="broker-2")
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))
    page = inside.get("/console/events/", headers={"Accept-Language": "de"}).content.decode()
    assert "verbindet neu" in page and "REFUSED: unter dieser Adresse wartet kein Broker" in page
    assert "broker-2 folgt nicht mehr" in page
    overview = inside.get("/console/", headers={"Accept-Language": "de"})
    assert json.loads(overview.context["event_labels"])["retrying"] == "verbindet neu"


def test_without_a_node_the_page_reports_it(inside: Client) -> None:
    assert "only serves the console" in inside.get("/console/events/").content.decode()
