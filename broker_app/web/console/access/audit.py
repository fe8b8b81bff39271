"""The page of the audit log. Its filter is in the address."""

from __future__ import annotations

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy

from broker_app.base.audit_actions import KINDS
from broker_app.models import AuditEntry
from broker_app.web.actions import API, CLI, CLUSTER, CONSOLE, FILE, START, STOMP, audit
from broker_app.web.api.audit import NDJSON, lines
from broker_app.web.console.base.differences import DifferenceLine, between, labels
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.labels import done, name_of, one_of
from broker_app.web.console.versions import whole
from broker_app.web.resource_types import RESOURCE_TYPES

_A_PAGE = 100
#: conditions that are visible without being unfolded
_FIRST = ("author", "kind", "key", "words")
#: logs of at most so many entries are verified automatically, longer ones on request
_VERIFIED = 5_000


_one = lazy(one_of, str)


class Filter(forms.Form):
    """The filter of the audit log. Empty fields match everything."""

    author = forms.CharField(required=False, max_length=150, label=gettext_lazy("User"))
    via = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Via"),
        choices=[
            ("", gettext_lazy("any")),
            *((via, via) for via in (CONSOLE, API, CLI, FILE, START, STOMP, CLUSTER)),
        ],
    )
    action = forms.CharField(
        required=False,
        max_length=40,
        label=gettext_lazy("Action"),
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("created, changed, logged in…")}),
    )
    kind = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Kind"),
        choices=[("", gettext_lazy("any")), *((name, _one(name)) for name in (*RESOURCE_TYPES, *KINDS))],
    )
    key = forms.CharField(
        required=False,
        max_length=300,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("or part of it")}),
    )
    words = forms.CharField(
        required=False,
        max_length=300,
        label=gettext_lazy("Reason"),
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("words it contains")}),
    )
    trace = forms.CharField(required=False, max_length=32, label=gettext_lazy("Trace id"))
    since = forms.DateField(
        required=False,
        label=gettext_lazy("From (UTC)"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    until = forms.DateField(
        required=False,
        label=gettext_lazy("To (UTC)"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    @property
    def first_fields(self) -> list[forms.BoundField]:
        """The fields that are always visible."""
        return [self[name] for name in _FIRST]

    @property
    def further_fields(self) -> list[forms.BoundField]:
        """The fields that are unfolded, or one of them has a value."""
        return [self[name] for name in self.fields if name not in _FIRST]

    def entries(self) -> QuerySet[AuditEntry]:
        """The entries that match a valid form, newest first."""
        given = self.cleaned_data
        lookups = {
            "author": "author",
            "via": "via",
            "action": "act__icontains",
            "kind": "kind",
            "key": "key__icontains",
            "words": "reason__icontains",
            "trace": "trace_id",
            "since": "time__date__gte",
            "until": "time__date__lte",
        }
        wish = Q(**{lookup: given[name] for name, lookup in lookups.items() if given.get(name)})
        return AuditEntry.objects.filter(wish)


class AuditPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        form = Filter(request.GET)
        context: dict[str, object] = {
            "form": form,
            "filtered": any(request.GET.get(name) for name in form.fields),
            "unfolded": any(request.GET.get(field.name) for field in form.further_fields),
        }
        if form.is_valid():
            found = form.entries()
            before = whole(request.GET, "before")
            shown = list((found if before is None else found.filter(number__lt=before))[: _A_PAGE + 1])
            rows = shown[:_A_PAGE]
            context["rows"] = [_row(entry) for entry in rows]
            if len(shown) > _A_PAGE:
                context["older"] = _with(request, before=str(rows[-1].number))
        context |= {"query": _with(request, before=""), **_verdict(request)}
        return render(request, "console/audit.html", context)


def _row(entry: AuditEntry) -> tuple[AuditEntry, str, str, list[DifferenceLine], tuple[str, ...]]:
    """An entry with the name of its resource, what was done, and the fields and secrets that it changed."""
    lines, secrets = between(entry.kind, entry.before, entry.after), labels(entry.kind, entry.secrets)
    return entry, name_of(entry.kind, entry.key), done(entry.action), lines, secrets


class ExportPage(AdministratorsPage):
    """All entries that match the filter, oldest first, as one line of JSON each."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        form = Filter(request.GET)
        if not form.is_valid():
            return redirect(f"{reverse('console:audit')}?{request.GET.urlencode()}")
        reply = StreamingHttpResponse(lines(form.entries()), content_type=NDJSON)
        reply["Content-Disposition"] = f'attachment; filename="audit-{timezone.now():%Y%m%d-%H%M%S}.ndjson"'
        return reply


def _verdict(request: HttpRequest) -> dict[str, object]:
    """Return whether the chain is valid; verified only if it is short or the request asks for it."""
    long = AuditEntry.objects.count() > _VERIFIED
    if long and "verify" not in request.GET:
        return {"verify": _with(request, verify="now")}
    return {"verdict": audit.verify()}


def _with(request: HttpRequest, **more: str) -> str:
    """The query of the address with the given values added."""
    query = request.GET.copy()
    for name, value in more.items():
        query[name] = value
    return query.urlencode()
