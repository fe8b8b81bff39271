"""Rules as they are now, and conditions written for people to go on from."""

from __future__ import annotations

import re

from broker_app.models import Entry
from broker_app.rules.event import Event
from broker_app.rules.ruleset import Rules
from broker_app.web.impact import rule_of
from broker_app.web.kinds import KINDS

_PLAIN = re.compile(r"[\w./:-]+")


def rules_now() -> Rules:
    """The rules that are configured, with the places of those that a file says."""
    origins = dict(Entry.objects.filter(kind="rules").exclude(origin="").values_list("key", "origin"))
    return Rules([rule_of(name, said, origins.get(name, "")) for name, said in KINDS["rules"].read().items()])


def conditions_of(event: Event) -> str:
    """Conditions that hold for what somebody wanted, whoever it was and from wherever."""
    facts = (("queue", event.queue), ("topic", event.topic), ("method", event.method))
    return " && ".join(f"/event/{fact} == {_quoted(value)}" for fact, value in facts if value is not None)


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
