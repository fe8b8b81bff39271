"""Pages of alerts: open alerts, and the alert rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_lazy as translated

from broker_app.base import durations
from broker_app.base.audit_actions import NOTIFICATION_TESTED
from broker_app.base.refused import Refused
from broker_app.base.states import SEVERITY
from broker_app.features.notifications.target import MOST_TARGETS
from broker_app.features.notifications.target_tests import AT_A_TIME, TIMEOUT_S
from broker_app.telemetry.alerts.conditions import CONDITIONS
from broker_app.telemetry.alerts.rule import AlertRule
from broker_app.web.actions import ChangeResult, audit, version_of
from broker_app.web.actor import actor_of
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.policy_sync import answer_of, ask, node_of
from broker_app.web.resource_types import Spec
from broker_app.web.resource_types.alerts import built_in_rules

#: subjects that a preview names
_NAMED = 10
#: seconds for which a test waits for the node, which waits for the targets
_TEST_S = TIMEOUT_S * MOST_TARGETS / AT_A_TIME + 5
_NO_NODE: Final = _("This process only serves the console: no broker here sends notifications.")


class AlertRuleForm(ResourceForm):
    kind = "alerts"

    condition = forms.ChoiceField(
        label=_("Condition"),
        choices=[
            (name, format_lazy("{}: {}", name, translated(one.about))) for name, one in CONDITIONS.items()
        ],
    )
    threshold = forms.FloatField(
        label=_("Threshold"),
        required=False,
        help_text=_("the value at which the alert fires; empty: the default of the condition"),
    )
    for_s = forms.FloatField(
        label=_("Duration (seconds)"),
        required=False,
        help_text=_(
            "how long the condition must hold before the alert fires; empty: the default of the condition"
        ),
    )
    severity = forms.ChoiceField(
        label=_("Severity"), choices=[(name, translated(one.label)) for name, one in SEVERITY.items()]
    )
    pattern = forms.CharField(
        label=_("Pattern"),
        required=False,
        help_text=_("names of the queues, bridges or clients to check, such as /queue/orders.>; empty: all"),
    )
    enabled = forms.BooleanField(label=_("Enabled"), required=False)
    notify = LinesField(
        label=_("Notify"),
        help_text=_("where notifications are sent, one per line: queue:NAME, https://…, mailto:ADDRESS"),
    )
    comment = forms.CharField(label=_("Comment"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def spec(self) -> Spec:
        return {name: value for name, value in super().spec().items() if value is not None}


ALERTS = ResourcePages(
    kind="alerts",
    title=_("Alerts"),
    about=_("Problems that need attention, found by the alert rules below."),
    adds=_("Add an alert rule"),
    form=AlertRuleForm,
    columns={
        "condition": _("condition"),
        "threshold": _("threshold"),
        "for_s": _("duration (seconds)"),
        "severity": _("severity"),
        "pattern": _("pattern"),
        "enabled": _("enabled"),
        "notify": _("notify"),
    },
    list_template="console/alerts.html",
    edit_template="console/alert_rule.html",
)


class AlertsPage(ListPage):
    """Open alerts and all effective rules: the built-in ones, unless replaced by a rule of the same name."""

    subject = ALERTS

    def specs(self) -> Mapping[str, Spec]:
        self.own = self.subject.of.read()
        return {**built_in_rules(), **self.own}

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        row = super().row(key, spec)
        return {
            **row,
            "spec": spec,
            "about": translated(CONDITIONS[spec["condition"]].about),
            "own": key in self.own,
        }


class _Previewed(EditPage):
    """An editor that names what the rule in it would fire for now, and tests where it notifies."""

    def post(self, request: HttpRequest) -> HttpResponse:
        if request.POST.get("operation") != "test":
            return super().post(request)
        # Only the targets are sent; the rest of the form may be unfinished.
        form = self.sent(request)
        targets = LinesField().clean(request.POST.get("notify", ""))
        return self.show(request, form, **test_of(request, targets))

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        specs = [(changed.key, changed.after) for changed in outcome.changed if changed.after is not None]
        fires = would_fire(request, *specs[0]) if specs else {}
        return {**super().preview_context(request, outcome), **fires}


def would_fire(request: HttpRequest, key: str, spec: Spec) -> dict[str, object]:
    """All that the condition of a rule holds of now, for a template; empty if no node answers."""
    rule = AlertRule.of(key, spec)
    found, _fault = answer_of(request, lambda node: node.alerts.preview(rule), _NO_NODE)
    if found is None:
        return {}
    subjects = [one.subject for one in found]
    return {
        "would_fire": len(subjects),
        "subjects": subjects[:_NAMED],
        "unnamed": max(0, len(subjects) - _NAMED),
        "holds_for": durations.in_words(rule.for_s) if rule.for_s else "",
    }


def test_of(request: HttpRequest, targets: Sequence[str]) -> dict[str, object]:
    """The answers of targets to a test, for a template, or why none was sent."""
    node = node_of(request)
    if node is None:
        return {"test_fault": _NO_NODE}
    try:
        question = node.operations.test_notification(targets, request.user.get_username())
        tested = ask(node, question, within_s=_TEST_S)
    except Refused as refusal:
        return {"test_fault": refusal.detail}
    except ValueError as fault:
        return {"test_fault": str(fault)}
    for one in tested:
        audit.record(actor_of(request), audit.Action.of(NOTIFICATION_TESTED, one["target"], ok=one["ok"]))
    return {"tested": tested}


class AddAlertRule(_Previewed, AddPage):
    subject = ALERTS


class EditAlertRule(_Previewed):
    """Edit a configured rule, or a built-in one, which saving replaces."""

    subject = ALERTS

    def resource(self, request: HttpRequest) -> tuple[str, Spec]:
        key = request.GET.get("name", "")
        spec = self.subject.of.read([key]).get(key) or built_in_rules().get(key)
        if spec is None:
            raise Http404(f"There is no {self.subject.one} {key[:100]}.")
        return key, spec

    def page_context(self, request: HttpRequest) -> dict[str, object]:
        key, spec = self.resource(request)
        built_in = not version_of(self.subject.kind, key)
        fires = would_fire(request, key, spec)
        return {**super().page_context(request), **fires, "from_the_start": built_in}


class RemoveAlertRule(RemovePage):
    subject = ALERTS
