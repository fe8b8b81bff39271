"""The page of one reflex: its declaration, its status and its actions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker_app.base.audit_actions import REFLEX_LIBRARY_RESTARTED
from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.models import Entry
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Stale, apply, audit
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import in_a_sentence
from broker_app.web.console.base.labels import title_of
from broker_app.web.console.base.resource_page import ResourceView, changes_of, report
from broker_app.web.console.forwarding.reflex_status import (
    KINDS,
    NO_NODE,
    TRIED,
    all_reflexes,
    shown_library,
    shown_options,
    shown_reflex,
    shown_trial,
)
from broker_app.web.console.forwarding.reflex_trial import (
    TrialForm,
    destination_for,
    first_form,
    stored_trial,
    trial_of,
)
from broker_app.web.console.forwarding.reflexes import REFLEXES, page_of
from broker_app.web.policy_sync import answer_of

_ENABLED = {"enable": True, "disable": False}


class ReflexPage(ResourceView):
    """The status of one reflex, of the configuration or of the file of the broker."""

    subject = REFLEXES

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def show(self, request: HttpRequest, **more: object) -> HttpResponse:
        key = request.GET.get("name", "")
        found, unknown = all_reflexes(request)
        status = next((row for row in found["items"] if row["name"] == key), None) if found else None
        spec = self.subject.of.read([key]).get(key)
        declared: Facts | None = spec or status
        if declared is None:
            raise Http404(f"There is no {self.subject.one} {key[:100]}.")
        libraries = found["libraries"] if found else []
        library = next((one for one in libraries if one["name"] == declared["library"]), None)
        context = {
            "subject": self.subject,
            "key": key,
            "spec": declared,
            "kind": KINDS[declared["kind"]],
            "options": shown_options(declared["options"]),
            "own": spec is not None,
            "entry": Entry.objects.filter(kind=self.subject.kind, key=key).first(),
            "changes": changes_of(self.subject.kind, key),
            "reflex": shown_reflex(status) if status else None,
            "library": shown_library(library) if library else None,
            "unknown": unknown,
            "trial_form": first_form(declared) if declared["kind"] in TRIED else None,
            "stored_destination": destination_for(declared["service"]),
            **more,
        }
        return render(request, "console/reflex.html", context)


class TrialPage(ReflexPage):
    """Ask the reflexes about a message, and show each step."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect(page_of(request.GET.get("name", "")))

    def post(self, request: HttpRequest) -> HttpResponse:
        if "stored" in request.POST:
            return self.show(request, **stored_trial(request, reflex=request.GET.get("name", "")))
        kind = request.POST.get("kind", "")
        form = TrialForm(request.POST)
        if form.is_valid():
            try:
                trial = trial_of(request, kind if kind in TRIED else TRIED[0], form)
            except Refused as refusal:
                form.add_error(None, refusal.detail)
            else:
                return self.show(request, trial_form=form, trial=shown_trial(trial))
        return self.show(request, trial_form=form)


class ControlPage(ResourceView):
    """Enable or disable a reflex."""

    subject = REFLEXES

    def post(self, request: HttpRequest) -> HttpResponse:
        key, spec = self.resource(request)
        enabled = _ENABLED.get(request.POST.get("operation", ""))
        if enabled is not None:
            edit = Edit(self.subject.kind, key, {**spec, "enabled": enabled})
            try:
                outcome = apply(actor_of(request, request.POST.get("reason", "")), [edit])
                report(request, outcome, title_of(self.subject.kind, key))
            except (Conflict, InvalidEdits, Stale, ValidationError) as fault:
                messages.error(request, _("No changes were made: %s") % in_a_sentence(fault))
        return redirect(page_of(key))


class RestartPage(ResourceView):
    """Start another process of the library of a reflex, which loads its code again."""

    subject = REFLEXES

    def post(self, request: HttpRequest) -> HttpResponse:
        key, library = request.GET.get("name", ""), request.POST.get("library", "")
        refusal = self.refusal(request, library)
        if refusal:
            messages.error(request, refusal)
        else:
            audit.record(actor_of(request), audit.Action.of(REFLEX_LIBRARY_RESTARTED, library))
            messages.success(request, _("Library %s is starting again.") % library)
        return redirect(page_of(key))

    def refusal(self, request: HttpRequest, library: str) -> Any:
        """Restart a library; returns the reason why that was not possible, empty if it was."""
        known, fault = answer_of(request, lambda node: node.operations.restart_library(library), NO_NODE)
        return fault or ("" if known else _("There is no library %s with a process.") % library)
