"""Labels of resource types, of their changes, and of events."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext as translated
from django.utils.translation import gettext_lazy

from broker_app.base.audit_actions import KINDS
from broker_app.base.events import EVENTS
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
    if kind in KINDS:
        return translated(KINDS[kind])
    return str(_ONES.get(kind) or (RESOURCE_TYPES[kind].one if kind in RESOURCE_TYPES else kind))


def title_of(kind: str, key: str) -> str:
    """The title of a resource, at the beginning of a sentence: "Rule billing"."""
    return f"{capfirst(one_of(kind))} {key}"


def name_of(kind: str, key: str) -> str:
    """The name of a resource within a sentence: "rule billing"; an address is one by itself."""
    return key if key.startswith("/") else f"{one_of(kind)} {key}"


def place_of(pointer: str) -> str:
    """The place in definitions of a pointer: "Rule billing: conditions" for /rules/billing/conditions."""
    kind, key, field = [*pointer.removeprefix("/").split("/", 2), "", ""][:3]
    place = title_of(kind, key.replace("~1", "/").replace("~0", "~")) if key else capfirst(kind)
    return f"{place}: {field.replace('/', ' ')}" if field else place


def done(action: str) -> str:
    """The label of a change, or of another action of the audit log: "created"."""
    return translated(action)


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
