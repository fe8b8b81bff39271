"""Trials on the page and the form of a reflex: with a message that is not published, and with the newest
stored messages of a destination."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base.audit_actions import read_of
from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.core.destination import of_name
from broker_app.net.rest.features.reflex_trials import Draft, StoredTrialRequest
from broker_app.reflex.declaration import MOST_LIMIT_S
from broker_app.reflex.report import ReflexTrial
from broker_app.reflex.stored_trials import WITHIN_S
from broker_app.web.actions import audit
from broker_app.web.actor import actor_of
from broker_app.web.console.base.fields import CodeField, LinesField
from broker_app.web.console.base.shown import Shown
from broker_app.web.console.forwarding.reflex_status import NO_NODE, shown_stored
from broker_app.web.policy_sync import answer_of, ask, node_of
from broker_app.web.resource_types import Spec

#: characters of a body
_MOST = 1_000_000
_WILD = ("*", ">")


class TrialForm(forms.Form):
    """A message that the reflexes are asked about."""

    destination = forms.CharField(
        max_length=300, label=_("Destination"), help_text=_("a queue, or an address such as /topic/prices")
    )
    headers = LinesField(
        rows=2, label=_("Headers"), help_text=_("name=value, one per line; type=… is the event")
    )
    body = CodeField(rows=3, required=False, max_length=_MOST, label=_("Body"))

    def clean_headers(self) -> dict[str, str]:
        """The headers by name."""
        pairs = [line.partition("=") for line in self.cleaned_data["headers"]]
        if wrong := [name for name, equals, _value in pairs if not (name and equals)]:
            raise forms.ValidationError(_("%(line)s is not name=value"), params={"line": wrong[0]})
        return {name: value for name, _equals, value in pairs}


def destination_for(service: str) -> str:
    """The destination that is suggested for a trial; empty if the service is a pattern."""
    return "" if any(sign in service for sign in _WILD) else service


def first_form(declared: Facts) -> TrialForm:
    """The form with a message that the reflex may be asked about."""
    event = declared["event"]
    headers = [] if any(sign in event for sign in _WILD) else [f"type={event}"]
    return TrialForm(initial={"destination": destination_for(declared["service"]), "headers": headers})


def trial_of(request: HttpRequest, kind: str, form: TrialForm) -> ReflexTrial:
    """The decision of the reflexes of a kind about the message of a valid form. Raises Refused."""
    node = node_of(request)
    if node is None:
        raise Refused("conflict", str(NO_NODE))
    given = form.cleaned_data
    address = given["destination"]
    if not address.startswith("/"):
        address = f"/queue/{address}"
    asked = node.operations.test_reflexes(
        kind, address, given["headers"], given["body"].encode(), request.user.get_username()
    )
    return ask(node, asked, within_s=MOST_LIMIT_S)


def stored_trial(request: HttpRequest, *, reflex: str | None = None, draft: Spec | None = None) -> Shown:
    """The context of a trial with the stored messages of the destination in the field `stored`: of a
    reflex, or of one that need not be saved."""
    destination = request.POST.get("stored", "").strip()
    shown: Shown = {"stored_destination": destination}
    members = Draft.__struct_fields__
    declared = (
        Draft(**{name: draft[name] for name in members if name in draft}) if draft is not None else None
    )
    asked = StoredTrialRequest(destination, reflex, declared)
    user = request.user.get_username()
    found, fault = answer_of(
        request, lambda node: node.operations.test_reflexes_with_stored(asked, user), NO_NODE, 2 * WITHIN_S
    )
    if found is None:
        return {**shown, "stored_fault": fault}
    if found["messages"]:
        address = of_name(destination)
        read = audit.Action.of(read_of(address.kind), address.address, messages=found["messages"])
        audit.record(actor_of(request), read)
    return {**shown, "stored": shown_stored(found)}
