"""The page that removes a resource: it lists what is removed with it, and asks for a reason."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker_app.web.actions import ChangeResult, Conflict, Edit, InvalidEdits, Stale, apply, version_of
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import difference, in_a_sentence
from broker_app.web.console.base.frame import in_production
from broker_app.web.console.base.labels import title_of
from broker_app.web.console.base.resource_page import ResourceView, report


class RemovePage(ResourceView):
    template = "console/remove.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        key, _spec = self.resource(request)
        if in_production() and request.POST.get("typed", "").strip() != key:
            return self.show(request, _("This is a production environment: type the name to remove it."))
        version = request.POST.get("version", "")
        try:
            outcome = self.removed(request, int(version) if version.isdecimal() else None)
        except (Conflict, InvalidEdits, ValidationError) as fault:
            return self.show(request, in_a_sentence(fault))
        except Stale:
            return self.show(request, _("It has changed in the meantime. Below are its current values."))
        report(request, outcome, title_of(self.subject.kind, key))
        return redirect(self.subject.address)

    def removed(self, request: HttpRequest, expected: int | None, dry_run: bool = False) -> ChangeResult:
        edit = Edit(self.subject.kind, self.resource(request)[0], None, expected)
        return apply(actor_of(request, request.POST.get("reason", "")), [edit], dry_run=dry_run)

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        """Additional context for the page of a kind."""
        return {}

    def show(self, request: HttpRequest, fault: str = "") -> HttpResponse:
        key, _spec = self.resource(request)
        outcome, obstacle = None, ""
        try:
            outcome = self.removed(request, None, dry_run=True)
        except (Conflict, InvalidEdits, ValidationError) as error:
            obstacle = in_a_sentence(error)
        context = {
            "subject": self.subject,
            "key": key,
            "replaces": version_of(self.subject.kind, key),
            "differences": [difference(changed) for changed in outcome.changed] if outcome else [],
            "fault": fault or obstacle,
            "possible": outcome is not None,
            "type_name": in_production(),
            **(self.preview_context(request, outcome) if outcome else {}),
        }
        return render(request, self.template, context)
