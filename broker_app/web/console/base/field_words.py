"""Labels of the fields of resources, and their values as words: those of their forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.base import durations
from broker_app.web.console.base.resource_form import FORMS

#: what no form has: the fields of tokens, and the facts of the audit log
_LABELS: Mapping[str, str | Promise] = {
    "a_minute": gettext_lazy("A minute"),
    "actions": gettext_lazy("Actions"),
    "broker": gettext_lazy("Broker"),
    "brokers": gettext_lazy("Brokers"),
    "changes": gettext_lazy("Changes"),
    "destination": gettext_lazy("Destination"),
    "destinations": gettext_lazy("Destinations"),
    "detail": gettext_lazy("Details"),
    "expires": gettext_lazy("Expiry"),
    "filter": gettext_lazy("Filter"),
    "for_s": gettext_lazy("Duration"),
    "force": gettext_lazy("By force"),
    "grants": gettext_lazy("Rights"),
    "message": gettext_lazy("Message"),
    "messages": gettext_lazy("Messages"),
    "ok": gettext_lazy("Success"),
    "op": gettext_lazy("Operation"),
    "owner": gettext_lazy("Owner"),
    "planned": gettext_lazy("Planned"),
    "position": gettext_lazy("Position"),
    "processed": gettext_lazy("Processed"),
    "queue": gettext_lazy("Queue"),
    "reason": gettext_lazy("Reason"),
    "rights": gettext_lazy("Rights"),
    "settings": gettext_lazy("Settings"),
    "source": gettext_lazy("Source"),
    "status": gettext_lazy("Status"),
    "target": gettext_lazy("Target"),
    "to": gettext_lazy("To"),
    "unmasked": gettext_lazy("Unmasked by"),
    "user": gettext_lazy("User"),
}


class FieldWords:
    """The words of the resources of one kind."""

    def __init__(self, kind: str) -> None:
        form = FORMS.get(kind)
        self._form = form() if form is not None else None

    def label(self, name: str) -> str:
        """The label of a field: "Longest retry" for max_retry_s."""
        label = self._form.label_of(name) if self._form is not None else None
        return str(label or _LABELS.get(name) or name.removesuffix("_s").replace("_", " "))

    def about(self, name: str) -> str:
        """The sentence on a field; empty if it has none."""
        return str(self._form.fields[name].help_text) if self._form is not None else ""

    def value(self, name: str, value: Any) -> str:
        """A value as words: the label of a choice, a time with its unit."""
        words = self._form.words_of(name, value) if self._form is not None else ""
        if words:
            return words
        if name.endswith("_s") and isinstance(value, int | float):
            return durations.exactly(value)
        return as_text(value)


def as_text(value: Any) -> str:
    """A value as text: strings unchanged, lists separated by commas, what has names with these."""
    match value:
        case "":
            return _("(empty)")
        case str():
            return value
        case None:
            return _("(none)")
        case list() | Mapping() if not value:
            return _("(none)")
        case bool():
            return _("yes") if value else _("no")
        case int():
            return str(value)
        case float():
            return f"{value:.15g}"
        case list() if any(isinstance(one, Mapping) for one in value):
            return "; ".join(map(as_text, value))
        case list():
            return ", ".join(map(as_text, value))
        case Mapping():
            return ", ".join(f"{_LABELS.get(name, name)}: {as_text(one)}" for name, one in value.items())
        case _:
            return str(value)
