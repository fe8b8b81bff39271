"""The page of the event log."""

from __future__ import annotations

import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils.translation import gettext as translated
from django.utils.translation import override

from broker_app.base import causes
from broker_app.base.events import ALERT_FIRED, BRIDGE_RETRYING, FILES_APPLIED, MIRROR_LEFT
from broker_app.telemetry.alerts import Alert
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.alerts.texts import shown
from broker_app.telemetry.event_log import EventLog
from broker_app.web.console import event_log, overview
from tests.support.no_alerts import NO_ALERTS

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
    assert "orders · REFUSED: no listener" in page and "/console/bridges/?filter=west" in page
    page = inside.get("/console/events/?filter=WEST").content.decode()
    assert "no listener" in page and "brokers.config:4" not in page
    page = inside.get("/console/events/?kind=files").content.decode()
    assert "no listener" not in page and "brokers.config:4" in page
    page = inside.get("/console/events/?trouble=1").content.decode()
    assert "no listener" in page and "brokers.config:4" not in page
    assert "Nothing matches" in inside.get("/console/events/?filter=none").content.decode()


def test_what_happens_while_one_reads_is_a_link_and_moves_no_row(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(lambda: 1_750_000_000.0)
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))

    def page(address: str) -> tuple[list[str], str, str]:
        """The rows, the line above them, and the address that is read after each event."""
        text = inside.get(address).content.decode()
        line = text[text.index('role="status"') :].partition("</div>")[0]
        again = unescape(text.partition('id="happened" hx-get="')[2].partition('"')[0])
        return re.findall(r'<tr id="event-(\d+)">', text), line, again

    for name in ("west", "east"):
        log.report(BRIDGE_RETRYING, name, code="REFUSED", detail="no listener", queue="orders")
    rows, line, again = page("/console/events/?filter=we")
    assert (rows, "1 of 2 events" in line, "new event" in line) == (["1"], True, False)
    for name in ("west", "east", "west"):
        log.report(BRIDGE_RETRYING, name, code="REFUSED", detail="no listener", queue="orders")
    rows, line, _ = page(again)
    assert (rows, "1 of 2 events" in line) == (["1"], True)
    assert "2 new events</a>" in line and 'href="/console/events/?filter=we"' in line
    assert page("/console/events/?filter=we")[0] == ["5", "3", "1"]
    # The log has begun again, since the broker was started again.
    assert page("/console/events/?until=77")[0] == ["5", "4", "3", "2", "1"]
    assert page(f"/console/events/?until={'7' * 5000}")[0] == ["5", "4", "3", "2", "1"]


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
    monkeypatch.setattr(overview, "node_of", lambda request: SimpleNamespace(events=log, alerts=NO_ALERTS))
    page = inside.get("/console/", headers={"Accept-Language": "de"}).content.decode()
    assert "verbindet neu: unter dieser Adresse wartet kein Broker" in page
    assert "broker-2 folgt nicht mehr" in page


@pytest.mark.parametrize(
    ("condition", "subject", "value", "found", "german"),
    [
        ("no-consumer", "/queue/orders", 1204, {"depth": 1204}, "orders: 1,204 Nachrichten warten, keine"),
        ("no-consumer", "/queue/orders", 1, {"depth": 1}, "orders: 1 Nachricht wartet, keine"),
        ("oldest", "/queue/orders", 7200, {}, "orders: Die älteste Nachricht wartet seit 2 h"),
        ("store", "store", 81.5, {}, "Speicherbelegung: 81.5 %"),
        (
            "failing",
            "bridge/dc",
            1,
            {"kind": "bridge", "health": "failing", "detail": causes.NOT_LISTENING},
            "Brücke dc: schlägt fehl: unter dieser Adresse wartet kein Broker",
        ),
        ("bridge-stalled", "dc", 2, {"state": "retrying", "error": "DNS"}, "verbindet neu (DNS)"),
        ("takeover", "b1", 1, {"taker": "b3", "result": "failed", "reason": "damaged"}, "b3 konnte b1 nicht"),
        ("takeover", "b1", 1, {"taker": "b3", "result": "complete", "reason": ""}, "b3 hat b1 übernommen"),
    ],
)
def test_what_an_alert_has_found_is_in_the_language_of_the_page(
    inside: Client,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    subject: str,
    value: float,
    found: dict[str, object],
    german: str,
) -> None:
    log = EventLog(lambda: 1_750_000_000.0)
    of: dict[str, Any] = {
        "alert": "7",
        "condition": condition,
        "subject": subject,
        "value": value,
        "found": found,
    }
    log.report(ALERT_FIRED, "r", code=condition.upper(), detail="in English", **of)
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))
    page = inside.get("/console/events/", headers={"Accept-Language": "de"}).content.decode()
    assert german in page and "in English" not in page


def test_each_sentence_of_an_alert_is_translated() -> None:
    sentences = {text for one in CONDITIONS.values() for text in (one.sentence, one.failed) if text}
    with override("de"):
        assert [text for text in sentences if translated(text) == text] == []


def test_an_alert_in_the_log_is_in_english_the_sentence_of_the_broker(
    inside: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(lambda: 1_750_000_000.0)
    alert = Alert("7", "r", "no-consumer", "warning", "/queue/orders", 1, 0.0, 0.0, 1204, {"depth": 1204})
    about = shown(alert)
    of: dict[str, Any] = {name: about[name] for name in ("condition", "subject", "value")}  # type: ignore[literal-required]
    log.report(ALERT_FIRED, "r", detail=about["detail"], alert="7", found=about["facts"], **of)
    monkeypatch.setattr(event_log, "node_of", lambda request: SimpleNamespace(events=log))
    assert about["detail"] in inside.get("/console/events/").content.decode()


def test_without_a_node_the_page_reports_it(inside: Client) -> None:
    assert "only serves the console" in inside.get("/console/events/").content.decode()
