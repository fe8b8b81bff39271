"""Each event that the log of events may have has a label, which is translated."""

from __future__ import annotations

from django.utils.translation import override

from broker_app.base.events import DECLARED, EVENTS
from broker_app.web.console.base.labels import label_of_event


def test_each_event_has_a_label_that_is_translated() -> None:
    with override("de"):
        same = {event.label for event in DECLARED if label_of_event(event.name) == event.label}
    assert same == set(), "they have no German"


def test_events_of_one_name_have_one_label() -> None:
    assert {event.name: event.label for event in reversed(DECLARED)} == EVENTS


def test_the_labels_of_mirrors_and_files_are_translated() -> None:
    with override("de"):
        assert str(label_of_event("took over")) == "hat \u00fcbernommen"
        assert str(label_of_event("applied")) == "angewendet"
