"""The page of recent denials, each with a rule that would allow it."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from broker_app.net.policy.decisions import Denial
from broker_app.web.console.base.conditions import conditions_of
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.events import shown
from broker_app.web.policy_sync import node_of
from broker_app.web.resource_types import RESOURCE_TYPES

_SHOWN = 200


class DenialsPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        node = node_of(request)
        query = request.GET.get("filter", "").strip()
        denials = node.decisions.denials() if node is not None else []
        matching = [denial for denial in denials if query.casefold() in _words(denial)]
        positions = {name: spec["position"] for name, spec in RESOURCE_TYPES["rules"].read().items()}
        context = {
            "node": node is not None,
            "filter": query,
            "all": len(denials),
            "matching": len(matching),
            "rows": [_row(denial, positions) for denial in matching[:_SHOWN]],
        }
        return render(request, "console/denials.html", context)


def _words(denial: Denial) -> str:
    event = denial.event
    return f"{event.user} {event.right} {event.destination} {denial.reason} {event.address}".casefold()


def _row(denial: Denial, positions: dict[str, int]) -> dict[str, object]:
    event = denial.event
    rule: dict[str, object] = {"effect": "allow", "conditions": conditions_of(event), "users": event.user}
    if denial.rule in positions:
        # The new rule must precede the one that denies.
        rule["position"] = positions[denial.rule] - 1
    question = {name: value for name, value in shown(event).items() if value is not None}
    question["right"] = event.right
    if event.tls is not None:
        question["tls"] = "true" if event.tls else "false"
    return {
        "time": datetime.fromtimestamp(denial.at_s, UTC),
        "event": event,
        "reason": denial.reason,
        "add": f"{reverse('console:rules-add')}?{urlencode(rule)}",
        "explain": f"{reverse('console:explain')}?{urlencode(question)}",
    }
