"""Conditions of rules, suggested for editing."""

from __future__ import annotations

import re

from broker_app.rules.event import Event

_PLAIN = re.compile(r"[\w./:-]+")


def conditions_of(event: Event) -> str:
    """Conditions that match the destination and method of an event, regardless of user and address."""
    facts = (("queue", event.queue), ("topic", event.topic), ("method", event.method))
    return " && ".join(f"/event/{fact} == {_quoted(value)}" for fact, value in facts if value is not None)


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
