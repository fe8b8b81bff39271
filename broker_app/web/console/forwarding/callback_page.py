"""The page of one callback: its status, its pushes and its actions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from broker_app.base.audit_actions import CALLBACK_RETRIED, CALLBACK_TESTED
from broker_app.features.callbacks.webhooks.callback import LONGEST_TIMEOUT_S, MEMBERS, PAUSED, RUNNING
from broker_app.features.callbacks.webhooks.signature import new_secret
from broker_app.models import Entry
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Stale, apply, audit
from broker_app.web.actor import actor_of
from broker_app.web.api.rows import row_of
from broker_app.web.console.base.differences import in_a_sentence
from broker_app.web.console.base.field_words import FieldWords
from broker_app.web.console.base.resource_page import ResourceView, report
from broker_app.web.console.forwarding.callback_status import (
    NO_NODE,
    one_callback,
    shown_callback,
    shown_pushes,
)
from broker_app.web.console.forwarding.callbacks import CALLBACKS, page_of, shown_once
from broker_app.web.policy_sync import answer_of
from broker_app.web.resource_types import Spec
from broker_app.web.resource_types.callbacks import address_of

#: seconds for which a test waits for the node, which waits for the receiver
_TEST_S = LONGEST_TIMEOUT_S + 5
_DESIRED = {"pause": PAUSED, "resume": RUNNING}


class CallbackPage(ResourceView):
    """The status of one callback."""

    subject = CALLBACKS

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def show(self, request: HttpRequest, **more: Any) -> HttpResponse:
        key, spec = self.resource(request)
        found, unknown = one_callback(request, key)
        context = {
            "subject": self.subject,
            "key": key,
            "spec": spec,
            "source": address_of(spec),
            "settings": _in_words(spec),
            "row": row_of(self.subject.kind, key),
            "entry": Entry.objects.filter(kind=self.subject.kind, key=key).first(),
            "callback": shown_callback(found[0]) if found else None,
            "pushes": shown_pushes(found[1]) if found else [],
            "unknown": unknown,
            **more,
        }
        return render(request, "console/callback.html", context)


def _in_words(spec: Spec) -> list[tuple[str, str]]:
    """The settings that have a value, each with its label, as the form has them; the head has the state."""
    words = FieldWords(CALLBACKS.kind)
    return [
        (words.label(name), words.value(name, spec[name]))
        for name in (*MEMBERS, "selector", "headers", "comment")
        if name != "desired" and spec.get(name) not in ("", {}, None)
    ]


class TestPage(CallbackPage):
    """Send a signed sample, and show request and answer."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect(page_of(self.resource(request)[0]))

    def post(self, request: HttpRequest) -> HttpResponse:
        key, _spec = self.resource(request)
        test, fault = answer_of(request, lambda node: node.operations.test_callback(key), NO_NODE, _TEST_S)
        if test is None:
            return self.show(request, fault=fault)
        audit.record(actor_of(request), audit.Action.of(CALLBACK_TESTED, key, ok=test["ok"]))
        return self.show(request, test=test)


class ControlPage(ResourceView):
    """Pause or resume a callback, push now, or rotate its secret."""

    subject = CALLBACKS

    @sensitive_variables("secret", "edit")
    def post(self, request: HttpRequest) -> HttpResponse:
        key, spec = self.resource(request)
        operation = request.POST.get("operation", "")
        if operation == "push":
            self.push(request, key)
        elif operation == "rotate":
            secret = new_secret()
            edit = Edit(self.subject.kind, key, spec, secrets={"secret": secret})
            if self.apply(request, key, edit):
                return shown_once(request, key, secret)
        elif operation in _DESIRED:
            self.apply(request, key, Edit(self.subject.kind, key, {**spec, "desired": _DESIRED[operation]}))
        return redirect(page_of(key))

    def apply(self, request: HttpRequest, key: str, edit: Edit) -> bool:
        """Carry out an edit; False if it was refused, which the next page reports."""
        try:
            outcome = apply(actor_of(request, request.POST.get("reason", "")), [edit])
        except (Conflict, InvalidEdits, Stale, ValidationError) as fault:
            messages.error(request, _("No changes were made: %s") % in_a_sentence(fault))
            return False
        if not edit.secrets:
            report(request, outcome, _("Callback %s") % key)
        return True

    def push(self, request: HttpRequest, key: str) -> None:
        _done, fault = answer_of(request, lambda node: node.operations.push_callback(key), NO_NODE)
        if fault:
            messages.error(request, fault)
            return
        audit.record(actor_of(request), audit.Action.of(CALLBACK_RETRIED, key))
        messages.success(request, _("Messages that waited for their next attempt are pushed now."))
