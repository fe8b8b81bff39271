"""Causes that the broker reports are shown in the language of the page."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from django.utils.translation import override

from broker_app.base import events
from broker_app.base.causes import CAUSES
from broker_app.base.events import DECLARED
from broker_app.features.bridge.bridge_errors import of_connecting
from broker_app.features.callbacks.webhooks.verdict import described
from broker_app.peers.http_client.exchange import HttpAnswer
from broker_app.telemetry.event_log import EventLog
from broker_app.web.console.base.causes import cause_in_words, detail_in_words

#: events whose sentence is a name and what is passed to them
PLAIN = {"", "{detail}", "{target}: {fault}"}


def test_each_cause_and_each_sentence_of_an_event_is_translated() -> None:
    sentences = {*CAUSES, *(event.sentence for event in DECLARED)} - PLAIN
    with override("de"):
        texts = {sentence: sentence.replace("{", "").replace("}", "") for sentence in CAUSES}
        assert [sentence for sentence, text in texts.items() if cause_in_words(text) == text] == []
        log = EventLog(lambda: 0.0)
        for event in DECLARED:
            if event.sentence in sentences:
                fields: dict[str, Any] = dict.fromkeys((*event.fields, "detail"), 7)
                log.report(event, "x", **fields)
        assert len(log) >= 20
        assert [event.detail for event in log.all() if detail_in_words(event) == event.detail] == []


@pytest.mark.parametrize(
    ("text", "german"),
    [
        (of_connecting(ConnectionRefusedError()).detail, "unter dieser Adresse wartet kein Broker"),
        (
            of_connecting(socket.gaierror(-2, "Name or service not known")).detail,
            "der Hostname ist unbekannt: Name or service not known",
        ),
        (described(HttpAnswer(500, {}, b"no database")), "die Antwort war 500: no database"),
        (described(HttpAnswer(404, {}, b"")), "die Antwort war 404"),
        ("something else", "something else"),
        ("", ""),
    ],
)
def test_a_cause_keeps_its_values(text: str, german: str) -> None:
    assert cause_in_words(text) == text
    with override("de"):
        assert cause_in_words(text) == german


def test_a_cause_within_a_sentence_is_translated_too() -> None:
    log = EventLog(lambda: 0.0)
    log.report(events.NOT_APPLIED, "/queue/a", broker="b2", detail="no answer in time")
    (event,) = log.all()
    with override("de"):
        assert "b2" in detail_in_words(event) and cause_in_words("no answer in time") in detail_in_words(
            event
        )
