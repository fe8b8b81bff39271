"""Each event that the broker logs and publishes is declared, with its code, its sentence and its fields."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator

import pytest

from broker_app.base import events
from broker_app.base.events import DECLARED, EVENTS, KINDS, Event
from broker_app.telemetry.event_log import EventLog
from tests.support import checkout
from tests.support.checkout import ROOT


def fields_of(event: Event) -> set[str]:
    return {name for _text, name, _form, _conversion in string.Formatter().parse(event.sentence) if name}


def last_name(node: ast.expr) -> str:
    """`MIRROR_LEFT` of `events.MIRROR_LEFT`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Each call of the broker, with its module."""
    for name in checkout.files("broker_app/*.py"):
        source = (ROOT / name).read_text(encoding="utf-8")
        if any(word in source for word in ("report(", "LoggedEvent(", "Event(")):
            yield from ((name, one) for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call))


def takes_events(name: str) -> bool:
    """Returns whether `Event` of a module is the one of the event log."""
    imports = ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
    return any(
        isinstance(one, ast.ImportFrom)
        and one.module == "broker_app.base.events"
        and any(alias.name == "Event" for alias in one.names)
        for one in imports
    )


def missing(call: ast.Call) -> set[str]:
    """The fields of the sentence of an event that its report lacks; empty for other calls."""
    event = getattr(events, last_name(call.args[0]), None) if call.args else None
    if not isinstance(event, Event) or any(one.arg is None for one in call.keywords):
        return set()
    return fields_of(event) - {one.arg for one in call.keywords if one.arg is not None}


def surplus(call: ast.Call) -> set[str]:
    """The fields of the report of an event that its declaration lacks."""
    event = getattr(events, last_name(call.args[0]), None) if call.args else None
    if not isinstance(event, Event):
        return set()
    given = {one.arg for one in call.keywords if one.arg is not None}
    return given - {*event.fields, "detail", "code"}


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


def test_no_event_is_reported_with_a_field_that_is_not_declared() -> None:
    found = {
        (name, call.lineno): undeclared
        for name, call in calls()
        if last_name(call.func) in ("report", "_report") and (undeclared := surplus(call))
    }
    assert found == {}


def test_a_field_that_is_not_declared_would_be_found() -> None:
    (call,) = (
        one
        for one in ast.walk(ast.parse("log.report(MIRROR_LEFT, name, mirror=a, colour=b)"))
        if isinstance(one, ast.Call)
    )
    assert surplus(call) == {"colour"}


def test_no_event_is_made_or_written_elsewhere() -> None:
    """Whatever is published comes through `EventLog.report`, which takes what `events` declares."""
    made = {name for name, call in calls() if last_name(call.func) == "LoggedEvent"}
    assert made == {"broker_app/telemetry/event_log.py"}
    constructed = {
        name
        for name, call in calls()
        if isinstance(call.func, ast.Name) and call.func.id == "Event" and takes_events(name)
    }
    assert constructed == set()
    assert EventLog.report.__annotations__["event"] == "Event"
    assert not [name for name in vars(EventLog) if name in ("note", "add", "append")]


def test_each_declared_event_is_reported_somewhere() -> None:
    text = "\n".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in checkout.files("broker_app/*.py")
        if name != "broker_app/base/events.py"
    )
    constants = {name for name, value in vars(events).items() if isinstance(value, Event)}
    assert len(constants) == len(DECLARED)
    assert {name for name in constants if not re.search(rf"\b{name}\b", text)} == set()


def test_an_event_is_declared_once_and_has_a_label() -> None:
    names = [(one.kind, one.name) for one in DECLARED]
    assert len(set(names)) == len(names)
    assert {one.kind for one in DECLARED} == set(KINDS)
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
            events.ALERT_FIRED,
            {"code": "FULL", "detail": "no room", "alert": "7"},
            "FULL",
            "no room",
            {"alert": "7"},
        ),
        (events.BRIDGE_RETRYING, {"detail": "", "queue": "a"}, "", "", {"queue": "a"}),
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
