"""What kinds of things, and what was done to them, are called on pages."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.web.resource_types import KINDS

_ONES: dict[str, str | Promise] = {
    "destinations": gettext_lazy("destination"),
    "rules": gettext_lazy("rule"),
    "users": gettext_lazy("user"),
    "groups": gettext_lazy("group"),
    "tokens": gettext_lazy("token"),
    "brokers": gettext_lazy("broker"),
    "bridges": gettext_lazy("bridge"),
    "alerts": gettext_lazy("alert rule"),
}


def one_of(kind: str) -> str:
    """A thing of a kind, as it is called: "rule"."""
    return str(_ONES.get(kind) or (KINDS[kind].one if kind in KINDS else kind))


def thing(kind: str, key: str) -> str:
    """A thing by its name, at the beginning of a sentence: "Rule billing"."""
    return f"{capfirst(one_of(kind))} {key}"


def done(act: str) -> str:
    """What was done to a thing, behind its name: "created"."""
    return {"created": _("created"), "changed": _("changed"), "removed": _("removed")}.get(act, act)


def was_done(what: str, act: str) -> str:
    """That something was done to a thing, as a sentence."""
    sentence = {
        "created": _("%(what)s was created."),
        "changed": _("%(what)s was changed."),
        "removed": _("%(what)s was removed."),
    }
    return sentence[act] % {"what": what}
