"""Events are declared with their sentences, and who reports one has the fields of its sentence."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator

import pytest

from broker_app.telemetry import events
from broker_app.telemetry.event_log import EventLog
from broker_app.telemetry.events import BROKER, CLUSTER, DECLARED, EVENTS, MIRRORS, STORE, Event
from tests.support import checkout
from tests.support.checkout import ROOT

KINDS = {"MIRRORS": MIRRORS, "CLUSTER": CLUSTER, "STORE": STORE, "BROKER": BROKER}


def fields_of(event: Event) -> set[str]:
    return {name for _text, name, _form, _conversion in string.Formatter().parse(event.sentence) if name}


def last_name(node: ast.expr) -> str:
    """`MIRROR_LEFT` of `events.MIRROR_LEFT`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Each call of the broker, with its module."""
    for name in checkout.files("broker_app/*.py"):
        source = (ROOT / name).read_text(encoding="utf-8")
        if "report(" in source or ".note(" in source:
            yield from ((name, one) for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call))


def missing(call: ast.Call) -> set[str]:
    """The fields of the sentence of an event that its report lacks; empty for other calls."""
    event = getattr(events, last_name(call.args[0]), None) if call.args else None
    if not isinstance(event, Event) or any(one.arg is None for one in call.keywords):
        return set()
    return fields_of(event) - {one.arg for one in call.keywords if one.arg is not None}


def test_a_report_without_a_field_would_be_found() -> None:
    (call,) = (
        one for one in ast.walk(ast.parse("log.report(MIRROR_LEFT, name)")) if isinstance(one, ast.Call)
    )
    assert missing(call) == {"mirror"}


def test_each_report_has_the_fields_of_its_sentence() -> None:
    reports = [
        (name, call) for name, call in calls() if call.args and last_name(call.func) in ("report", "_report")
    ]
    found = {(name, call.lineno): missing(call) for name, call in reports}
    assert {where: fields for where, fields in found.items() if fields} == {}
    assert sum(isinstance(getattr(events, last_name(call.args[0]), None), Event) for _, call in reports) > 10


def test_events_of_kinds_that_are_declared_have_no_sentence_elsewhere() -> None:
    noted = [
        (name, call.lineno)
        for name, call in calls()
        if last_name(call.func) == "note" and call.args and last_name(call.args[0]) in KINDS
    ]
    assert noted == []


def test_an_event_is_declared_once_and_has_a_label() -> None:
    names = [(one.kind, one.name) for one in DECLARED]
    assert len(set(names)) == len(names)
    assert all(EVENTS[one.name] for one in DECLARED)


@pytest.mark.parametrize(
    ("event", "fields", "code", "detail", "facts"),
    [
        (
            events.MIRROR_LEFT,
            {"mirror": "b2"},
            "MIRROR_LEFT",
            "b2 does not follow any more",
            {"mirror": "b2"},
        ),
        (events.LINK_DOWN, {"detail": "reset"}, "LINK_DOWN", "reset", {}),
        (events.KEEPER_BACK, {}, "", "", {}),
        (
            events.TOOK_OVER,
            {"code": "FORCED", "detail": "by hand", "epoch": 2},
            "FORCED",
            "by hand",
            {"epoch": 2},
        ),
    ],
)
def test_a_report_has_code_sentence_and_facts(
    event: Event, fields: dict[str, object], code: str, detail: str, facts: dict[str, object]
) -> None:
    log = EventLog(lambda: 0.0)
    log.report(event, "b1", **fields)  # type: ignore[arg-type]
    (found,) = log.all()
    assert (found.kind, found.name, found.event) == (event.kind, "b1", event.name)
    assert (found.code, found.detail, found.facts) == (code, detail, facts)
