"""Labels of resource types, of their changes, and of events."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext as translated
from django.utils.translation import gettext_lazy

from broker_app.telemetry.events import EVENTS
from broker_app.web.resource_types import RESOURCE_TYPES

_ONES: dict[str, str | Promise] = {
    "destinations": gettext_lazy("destination"),
    "rules": gettext_lazy("rule"),
    "masks": gettext_lazy("mask"),
    "users": gettext_lazy("user"),
    "groups": gettext_lazy("group"),
    "tokens": gettext_lazy("token"),
    "brokers": gettext_lazy("broker"),
    "bridges": gettext_lazy("bridge"),
    "callbacks": gettext_lazy("callback"),
    "reflexes": gettext_lazy("reflex"),
    "alerts": gettext_lazy("alert rule"),
}


def one_of(kind: str) -> str:
    """The label of a resource of this kind: "rule"."""
    return str(_ONES.get(kind) or (RESOURCE_TYPES[kind].one if kind in RESOURCE_TYPES else kind))


def title_of(kind: str, key: str) -> str:
    """The title of a resource, at the beginning of a sentence: "Rule billing"."""
    return f"{capfirst(one_of(kind))} {key}"


def done(action: str) -> str:
    """The label of a change: "created"."""
    return {"created": _("created"), "changed": _("changed"), "removed": _("removed")}.get(action, action)


def was_done(what: str, action: str) -> str:
    """The sentence that reports a change: "Rule billing was created"."""
    sentence = {
        "created": _("%(what)s was created."),
        "changed": _("%(what)s was changed."),
        "removed": _("%(what)s was removed."),
    }
    return sentence[action] % {"what": what}


def label_of_event(event: str) -> str:
    """The label of an event of the event log, or of a bridge; the event itself if it is of a later broker."""
    return translated(EVENTS[event]) if event in EVENTS else event
