"""Changes of a destination's settings in the last 24 hours, as marks of its charts."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from broker_app.models import ChangedObject
from broker_app.web.console.base.frame import sees_all
from broker_app.web.console.queues.destination_patterns import addresses_about

#: time range of charts
_PAST = timedelta(days=1)
MAX_MARKS = 50


def marks_of(request: HttpRequest, kind: str, name: str) -> list[dict[str, object]]:
    """Changes of its settings and of matching patterns: time, label, and for administrators the address of
    the version."""
    found = (
        ChangedObject.objects.filter(
            kind="destinations",
            key__in=addresses_about(kind, name),
            change__time__gte=timezone.now() - _PAST,
        )
        .select_related("change")
        .order_by("-pk")[:MAX_MARKS]
    )
    administrator = sees_all(request)
    return [
        {
            "time_s": row.change.time.timestamp(),
            "label": _label(row) % {"author": row.change.author},
            **({"href": reverse("console:version", args=[row.change.number])} if administrator else {}),
        }
        for row in reversed(found)
    ]


def _label(row: ChangedObject) -> str:
    if row.before is None:
        return _("settings created by %(author)s")
    return _("settings removed by %(author)s") if row.after is None else _("settings changed by %(author)s")
