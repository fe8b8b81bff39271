"""The page that edits all rules as text: YAML definitions, planned while typing."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from broker_app.models import Entry
from broker_app.rules.errors import RuleError
from broker_app.rules.grammar import parse
from broker_app.web import definitions, history
from broker_app.web.actions import Conflict, Stale
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import difference, in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.impact_preview import impact_of
from broker_app.web.console.versions import whole
from broker_app.web.resource_types import RESOURCE_TYPES

#: maximum size of a form in bytes; larger sets of rules are edited with `mom definitions`
MAX_BYTES = 900 * 1024
_DRAWN = 200
_FAULTS = 50


class Mistake(NamedTuple):
    """An error in the text; `line` and `column` count from 1, 0 means unknown."""

    message: str
    line: int
    column: int


class RulesTextPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        text = definitions.to_yaml({"mom_definitions": 1, "rules": _of_database()})
        return self.show(request, text, history.newest())

    def post(self, request: HttpRequest) -> HttpResponse:
        text = request.POST.get("text", "").replace("\r\n", "\n")
        expected = whole(request.POST, "expected")
        actor = actor_of(request, request.POST.get("reason", ""))
        try:
            document = _document(text)
            if request.POST.get("operation") == "save":
                done = definitions.apply(actor, document, prune=True, expected=expected)
                return self.saved(request, done)
            plan = definitions.plan(actor, document, prune=True)
        except definitions.InvalidDocument as invalid:
            faults = [_placed(text, fault) for fault in invalid.faults[:_FAULTS]]
            return self.show(request, text, expected, faults=faults)
        except Stale as stale:
            fault = _(
                "The configuration has changed in the meantime. The preview "
                "shows what saving would change now."
            )
            return self.planned(
                request, text, definitions.plan(actor, document, prune=True), stale.version, fault
            )
        except Conflict as conflict:
            return self.show(request, text, expected, fault=in_a_sentence(conflict))
        return self.planned(request, text, plan, expected)

    def saved(self, request: HttpRequest, done: definitions.ImportPlan) -> HttpResponse:
        if not done.changes:
            messages.info(request, _("The rules are already like this: no changes were made."))
            return redirect("console:rules")
        version = done.version + 1
        count = len(done.changes)
        text = ngettext("%(count)d rule was changed.", "%(count)d rules were changed.", count)
        messages.success(request, text % {"count": count}, extra_tags=str(version))
        return redirect("console:rules")

    def planned(
        self,
        request: HttpRequest,
        text: str,
        plan: definitions.ImportPlan,
        version: int | None,
        fault: str = "",
    ) -> HttpResponse:
        return self.show(
            request,
            text,
            version,
            fault=fault,
            plan=plan,
            differences=[difference(one) for one in plan.changes[:_DRAWN]],
            undrawn=max(0, len(plan.changes) - _DRAWN),
            **impact_of(request, plan.changes),
        )

    def show(self, request: HttpRequest, text: str, version: int | None, **more: Any) -> HttpResponse:
        context = {"text": text, "expected": version, "reason": request.POST.get("reason", ""), **more}
        return render(request, "console/rules_text.html", context)


def _of_database() -> dict[str, object]:
    """The rules that do not come from files, in order."""
    filed = set(Entry.objects.filter(kind="rules").exclude(origin="").values_list("key", flat=True))
    return {name: spec for name, spec in RESOURCE_TYPES["rules"].read().items() if name not in filed}


def _document(text: str) -> definitions.Document:
    """The rules of the text. Raises InvalidDocument, also if it contains other resources."""
    content = text.encode()
    if len(content) > MAX_BYTES:
        detail = _("the file is larger than %(most)d KiB; use `mom definitions import` for it")
        raise definitions.InvalidDocument(definitions.Fault("", detail % {"most": MAX_BYTES // 1024}))
    document = definitions.from_yaml(content)
    others = [
        definitions.Fault(f"/{kind}", _("only rules can be edited here; use definitions for other resources"))
        for kind in document
        if kind != "rules"
    ]
    if others or "rules" not in document:
        missing = definitions.Fault(
            "", _("the text must have the member rules; to have no rules, write rules: {}")
        )
        raise definitions.InvalidDocument(*(others or [missing]))
    return document


def _placed(text: str, fault: definitions.Fault) -> Mistake:
    """The position of an error in the text; in conditions, of the very character."""
    if fault.line:
        return Mistake(fault.detail, fault.line, fault.column)
    node = definitions.node_at(text, fault.pointer)
    message = f"{fault.pointer.removeprefix('/rules/')}: {fault.detail}" if fault.pointer else fault.detail
    if node is None:
        return Mistake(message, 0, 0)
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    if fault.pointer.endswith("/conditions") and isinstance(node, yaml.ScalarNode):
        column += _within(node)
    return Mistake(message, line, column)


def _within(node: yaml.ScalarNode) -> int:
    """The offset of an error in a condition on a single line."""
    if node.start_mark.line != node.end_mark.line:
        return 0
    try:
        parse(node.value)
    except RuleError as error:
        return error.column - 1 + (node.style in ("'", '"'))
    return 0
