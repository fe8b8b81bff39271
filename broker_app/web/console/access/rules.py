"""Pages of rules: the ordered list, and the form of one rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.models import Rule
from broker_app.rules.errors import RuleError
from broker_app.rules.grammar import parse
from broker_app.web.actions import ChangeResult, Conflict, Edit, InvalidEdits, Stale, apply
from broker_app.web.actor import actor_of
from broker_app.web.console.access.explain import Question, answer
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import CodeField, LinesField
from broker_app.web.console.base.impact_preview import impact_of
from broker_app.web.console.base.labels import title_of
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages, ResourceView, report
from broker_app.web.impact import edited
from broker_app.web.policy_sync import node_of
from broker_app.web.resource_types import RESOURCE_TYPES, Spec

#: distance of positions after renumbering
_STEP = 10


class RuleForm(ResourceForm):
    kind = "rules"

    effect = forms.ChoiceField(
        label=gettext_lazy("Effect"),
        choices=((Rule.ALLOW, gettext_lazy("allow")), (Rule.DENY, gettext_lazy("deny"))),
        help_text=gettext_lazy("The decision when the rule matches."),
    )
    conditions = CodeField(
        required=False,
        rows=5,
        language="conditions",
        label=gettext_lazy("Conditions"),
        help_text=gettext_lazy(
            "When the rule matches: /event/queue == orders.new && /event/method == POST. Empty: always."
        ),
    )
    users = LinesField(
        language="users",
        label=gettext_lazy("Users"),
        help_text=gettext_lazy(
            "Users to which the rule applies, one per line. Without users and groups "
            "it applies to all authenticated users."
        ),
    )
    groups = LinesField(
        language="groups",
        label=gettext_lazy("Groups"),
        help_text=gettext_lazy("Or groups to which the rule applies, one per line."),
    )
    position = forms.IntegerField(
        label=gettext_lazy("Position"),
        help_text=gettext_lazy("The first matching rule decides; lower positions are evaluated first."),
    )
    comment = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Comment"),
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    #: the error in the conditions, and its position
    condition_error: RuleError | None = None

    def clean_conditions(self) -> str:
        conditions: str = self.cleaned_data["conditions"]
        try:
            parse(conditions)
        except RuleError as error:
            self.condition_error = error
            raise ValidationError(str(error)) from error
        return conditions


RULES = ResourcePages(
    kind="rules",
    title=gettext_lazy("Rules"),
    about=gettext_lazy(
        "Which users may do what. Rules are evaluated in this order; the first that matches decides."
    ),
    adds=gettext_lazy("Add a rule"),
    none=gettext_lazy("There are no rules yet."),
    command="mom rule create billing conditions='/event/queue == billing.*' groups=billing",
    form=RuleForm,
    columns={
        "effect": gettext_lazy("effect"),
        "conditions": gettext_lazy("conditions"),
        "users": gettext_lazy("users"),
        "groups": gettext_lazy("groups"),
        "comment": gettext_lazy("comment"),
    },
    list_template="console/rules.html",
    edit_template="console/rule.html",
)


class RulesPage(ListPage):
    subject = RULES
    #: rules are shown in order of evaluation, so other orders are not offered
    sortable = ()

    def get(self, request: HttpRequest) -> HttpResponse:
        node = node_of(request)
        self.hits = node.decisions.hits() if node is not None else None
        return super().get(request)

    def specs(self) -> Mapping[str, Spec]:
        rules = super().specs()
        return {key: {**spec, "number": number} for number, (key, spec) in enumerate(rules.items(), 1)}

    def extra_context(self, specs: Mapping[str, Spec]) -> dict[str, object]:
        return {"counted": self.hits is not None, "question": Question(auto_id="ask_%s")}

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        who = [*spec["users"], *(f"@{group}" for group in spec["groups"])]
        return {
            "key": key,
            "spec": spec,
            "number": spec["number"],
            "who": ", ".join(who),
            "hits": (self.hits or {}).get(key, 0),
        }


class ImpactPreviewMixin(EditPage):
    """Mixin for the preview of a rule: its impact, and the decision of the edited rules for a test
    question."""

    subject = RULES

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        return {
            **super().preview_context(request, outcome),
            **impact_of(request, outcome.changed),
            **_asked(request, outcome),
        }

    def page_context(self, request: HttpRequest) -> dict[str, object]:
        return {**super().page_context(request), "question": _question(request)}


class AddRule(ImpactPreviewMixin, AddPage):
    def page_context(self, request: HttpRequest) -> dict[str, object]:
        return {**super().page_context(request), "is_first": not Rule.objects.exists()}


class EditRule(ImpactPreviewMixin):
    pass


def _question(request: HttpRequest) -> Question:
    """The form for testing the edited rules; empty at first."""
    question = Question(request.POST or None, prefix="asked", use_required_attribute=False)
    question.fields["user"].initial = request.user.get_username()
    return question


def _asked(request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
    """The decision of the rules if they were saved; None without a question."""
    question = _question(request)
    if not request.POST.get("asked-destination") or not question.is_valid():
        return {}
    edits = {one.key: one.after for one in outcome.changed if one.kind == "rules"}
    return answer(question, edited(RESOURCE_TYPES["rules"].read(), edits), administrator=True)


class RemoveRule(RemovePage):
    subject = RULES
    template = "console/rule_remove.html"

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        return impact_of(request, outcome.changed)


class MoveRule(ResourceView):
    """Move a rule up or down by one."""

    subject = RULES

    def post(self, request: HttpRequest) -> HttpResponse:
        key, _spec = self.resource(request)
        step = -1 if request.POST.get("operation") == "up" else 1
        edits = moved(RESOURCE_TYPES["rules"].read(), key, step)
        try:
            if edits:
                report(request, apply(actor_of(request), edits), title_of("rules", key))
        except (Conflict, InvalidEdits, Stale) as refusal:
            messages.error(
                request,
                _("%(what)s cannot be moved: %(why)s.") % {"what": title_of("rules", key), "why": refusal},
            )
        return redirect(self.subject.address)


def moved(rules: Mapping[str, Spec], key: str, step: int) -> list[Edit]:
    """The edits that move a rule one place up (-1) or down (1)."""
    order = list(rules)
    place = order.index(key)
    if not 0 <= place + step < len(order):
        return []
    order.insert(place + step, order.pop(place))
    position = _between(order, rules, place + step)
    if position is not None:
        return [Edit("rules", key, {**rules[key], "position": position})]
    return [
        Edit("rules", name, {**rules[name], "position": number * _STEP})
        for number, name in enumerate(order, 1)
        if rules[name]["position"] != number * _STEP
    ]


def _between(order: Sequence[str], rules: Mapping[str, Spec], place: int) -> int | None:
    """A position between the neighbours at `place`; None if there is none."""
    before = rules[order[place - 1]]["position"] if place else None
    behind = rules[order[place + 1]]["position"] if place + 1 < len(order) else None
    if before is None:
        return int(behind) - _STEP if behind is not None else None
    if behind is None:
        return int(before) + _STEP
    return (before + behind) // 2 if behind - before > 1 else None
