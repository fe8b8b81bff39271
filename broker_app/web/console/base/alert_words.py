"""The sentence about what an alert has found, in the language of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as translated
from django.utils.translation import ngettext

from broker_app.base import durations, states
from broker_app.telemetry.alerts.texts import pattern_of, reason_of
from broker_app.telemetry.component_health import LABELS
from broker_app.web.console.base.causes import cause_in_words


def alert_in_words(condition: str, subject: str, value: float, facts: Mapping[str, Any]) -> str:
    """The sentence about what a condition has found, with the reason if there is one."""
    found = translated(pattern_of(condition, facts)).format_map(_words(subject, value, facts))
    reason = reason_of(facts)
    return f"{found}: {cause_in_words(reason)}" if reason else found


def _words(subject: str, value: float, facts: Mapping[str, Any]) -> dict[str, str]:
    """The words that the sentence may have in braces."""
    kind, _, name = subject.partition("/")
    return {
        "name": name if "kind" in facts else subject.removeprefix("/queue/"),
        "kind": translated(LABELS[kind]) if kind in LABELS else kind,
        "count": floatformat(value, "0g"),
        "percent": floatformat(value, -1),
        "span": durations.in_words(value),
        "waiting": _waiting(round(value)),
        "health": _label(states.HEALTH, facts.get("health")),
        "state": _state(facts),
        "taker": str(facts.get("taker", "")),
    }


def _waiting(number: int) -> str:
    return ngettext("{count} message waits", "{count} messages wait", number).format(
        count=floatformat(number, "0g")
    )


def _state(facts: Mapping[str, Any]) -> str:
    word = _label(states.FLOW, facts.get("state", "stalled"))
    return f"{word} ({facts['error']})" if facts.get("error") else word


def _label(family: states.Family, name: Any) -> str:
    return translated(family[name].label) if name in family else str(name or "")
