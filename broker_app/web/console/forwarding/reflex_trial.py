"""The trial on the page of a reflex: a message that is not published, and the decision of each reflex."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.reflex.declaration import MOST_LIMIT_S
from broker_app.reflex.report import ReflexTrial
from broker_app.web.console.base.fields import CodeField, LinesField
from broker_app.web.console.forwarding.reflex_status import NO_NODE
from broker_app.web.policy_sync import ask, node_of

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


def first_form(declared: Facts) -> TrialForm:
    """The form with a message that the reflex may be asked about."""
    service, event = declared["service"], declared["event"]
    named = not any(sign in service for sign in _WILD)
    headers = [] if any(sign in event for sign in _WILD) else [f"type={event}"]
    return TrialForm(initial={"destination": service if named else "", "headers": headers})


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
