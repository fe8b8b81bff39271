"""Each event that the log of events may have has a label, which is translated."""

from __future__ import annotations

import ast
from pathlib import Path

from django.utils.translation import override

from broker_app.reflex.reflexes import FAILED, RECOVERED
from broker_app.telemetry.events import EVENTS
from broker_app.web.console.base.labels import label_of_event
from broker_app.web.files.reloads import APPLIED, REFUSED, UNCHANGED

SOURCES = Path(__file__).parents[3] / "broker_app"


def noted() -> set[str]:
    """The events that `EventLog.note(KIND, name, "event")` is called with as a text."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        source = path.read_text("utf-8")
        if "_events.note(" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("_events.note"):
                found |= {str(one.value) for one in call.args[2:3] if isinstance(one, ast.Constant)}
    return found


def test_events_of_mirrors_files_and_reflexes_have_labels() -> None:
    events = {*noted(), APPLIED, REFUSED, UNCHANGED, FAILED, RECOVERED}
    assert "not delivered" in events
    assert events <= EVENTS.keys()


def test_the_labels_of_mirrors_and_files_are_translated() -> None:
    with override("de"):
        assert str(label_of_event("took over")) == "hat \u00fcbernommen"
        assert str(label_of_event("applied")) == "angewendet"
