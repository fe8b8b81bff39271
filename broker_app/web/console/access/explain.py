"""The page that explains access: whether it is allowed, by which rule, and why earlier rules do not match."""

from __future__ import annotations

from django import forms
from django.contrib.auth.models import User
from django.core.validators import validate_ipv46_address
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.base.refused import Refused
from broker_app.net.policy.access import asked_of_rules, decided_before_rules
from broker_app.rules.event import METHODS, PROTOCOLS, Event
from broker_app.rules.explain import Explanation
from broker_app.rules.ruleset import Rules
from broker_app.web.console.base.frame import Page, sees_all
from broker_app.web.events import destination_of
from broker_app.web.roles import is_monitor
from broker_app.web.snapshot import read_rules
from mom_client.storeandforward import PREFIX

_ABOUT = {
    "send": gettext_lazy("send: send messages to it"),
    "receive": gettext_lazy("receive: receive messages from it, subscribe to it"),
    "browse": gettext_lazy("browse: list its messages"),
    "read": gettext_lazy("read: read messages without receiving them"),
    "manage": gettext_lazy("manage: purge, move and delete messages"),
}


class Question(forms.Form):
    """The form: user, right, destination, and properties of the connection for conditions of rules."""

    user = forms.CharField(max_length=150, label=gettext_lazy("User"))
    right = forms.ChoiceField(
        label=gettext_lazy("Right"), choices=[(right, _ABOUT[right]) for right in METHODS]
    )
    destination = forms.CharField(
        max_length=300, label=gettext_lazy("Destination"), help_text="queue:orders, topic:prices.eu"
    )
    address = forms.CharField(
        required=False,
        validators=[validate_ipv46_address],
        label=gettext_lazy("IP address"),
        help_text=gettext_lazy("Empty: unknown."),
    )
    protocol = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Protocol"),
        choices=[("", gettext_lazy("unknown")), *((name, name) for name in PROTOCOLS)],
    )
    tls = forms.ChoiceField(
        required=False,
        label="TLS",
        choices=(
            ("", gettext_lazy("unknown")),
            ("true", gettext_lazy("yes")),
            ("false", gettext_lazy("no")),
        ),
    )
    client = forms.CharField(required=False, max_length=300, label=gettext_lazy("STOMP client-id"))

    def clean_destination(self) -> str:
        text: str = self.cleaned_data["destination"].strip()
        if text.startswith(PREFIX):
            text = f"queue:{text}"
        try:
            self.target = destination_of(text)
        except Refused as refusal:
            raise forms.ValidationError(refusal.detail) from refusal
        return text

    def event(self, groups: frozenset[str]) -> Event:
        """The event that a valid form describes."""
        given = self.cleaned_data
        return Event(
            user=given["user"],
            groups=groups,
            **asked_of_rules(given["right"], self.target),
            address=given["address"] or None,
            protocol=given["protocol"] or None,
            tls={"true": True, "false": False}.get(given["tls"]),
            client=given["client"] or None,
        )


class ExplainPage(Page):
    """Explain access.

    Administrators can check all users, others only themselves. The form is in the address.
    """

    def get(self, request: HttpRequest) -> HttpResponse:
        administrator = sees_all(request)
        question = request.GET.copy()
        if not administrator or "user" not in question:
            question["user"] = request.user.get_username()
        form = Question(question) if "destination" in question else Question(initial=question.dict())
        if not administrator:
            form.fields["user"].disabled = True
            form.initial["user"] = request.user.get_username()
        context: dict[str, object] = {"form": form}
        if administrator:
            context["users"] = User.objects.order_by("username").values_list("username", flat=True)[:1000]
        if form.is_bound and form.is_valid():
            context |= answer(form, read_rules(), administrator)
        return render(request, "console/explain.html", context)


def answer(form: Question, rules: Rules, administrator: bool) -> dict[str, object]:
    """The decision of `rules` for a valid form, with its steps, for templates."""
    user = User.objects.filter(username=form.cleaned_data["user"]).first()
    groups = frozenset(user.groups.values_list("name", flat=True)) if user is not None else frozenset()
    of_monitor = user is not None and is_monitor(user)
    explanation = rules.explain(form.event(groups))
    return {
        "fixed": decided_before_rules(
            form.cleaned_data["user"],
            form.cleaned_data["right"],
            form.target,
            admin=False,
            monitor=of_monitor,
        ),
        "of_monitor": of_monitor,
        "explanation": explanation,
        "steps": _steps(explanation, administrator),
        "known": user,
        "over_rules": user is not None and user.is_active and user.is_superuser,
    }


def _steps(explanation: Explanation, administrator: bool) -> list[tuple[int, str, bool, str]]:
    """Each rule that was evaluated. Only administrators see the users of rules that apply to others."""
    event = explanation.event
    return [
        (
            step.number,
            step.rule.name,
            step.matched,
            step.why
            if administrator or step.rule.concerns(event.user, event.groups)
            else _("only administrators may check other users"),
        )
        for step in explanation.steps
    ]
