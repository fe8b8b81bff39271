"""The page of the cluster: the other brokers, what crosses the links, and where consumers are."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker_app.base.audit_actions import CLIENTS_REBALANCED
from broker_app.features.cluster.report import ClusterReport
from broker_app.features.cluster.status import HOW_TO_MAKE_ONE
from broker_app.web.actions import audit
from broker_app.web.actor import actor_of
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.forwarding.cluster_clients import found_clients, shown_clients
from broker_app.web.console.forwarding.cluster_status import (
    NO_NODE,
    clients_of,
    report_of,
    shown,
    shown_consumers,
    words,
)
from broker_app.web.console.forwarding.cluster_topology import draw
from broker_app.web.policy_sync import answer_of

#: rows of consumers
_SHOWN = 200


class ClusterPage(AdministratorsPage):
    """The states of all links, drawn and as a table, and a list of consumers with a filter."""

    def get(self, request: HttpRequest) -> HttpResponse:
        report, unknown = report_of(request)
        context: dict[str, object] = {"unknown": unknown, "command": HOW_TO_MAKE_ONE}
        if report is not None:
            context |= {"cluster": shown(report), "drawing": draw(report), **_consumers(request, report)}
            context |= _orders(report)
            found = clients_of(request)
            context["clients"] = shown_clients(*found) if found is not None else None
            if found is not None and found[0].clients:
                context["found"] = found_clients(request)
        return render(request, "console/cluster.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask this broker's surplus of clients to go to others."""
        actor = actor_of(request, request.POST.get("reason", ""))
        begun, fault = answer_of(request, lambda node: node.operations.rebalance_clients(actor.user), NO_NODE)
        if fault:
            messages.error(request, fault)
        elif begun is None:
            messages.success(request, _("No client needs to go: this broker has no more than its share."))
        else:
            audit.record(actor, audit.Action.of(CLIENTS_REBALANCED, "clients", planned=begun.planned))
            messages.success(request, _("Clients are being rebalanced."))
        return redirect("console:cluster")


def _orders(report: ClusterReport) -> dict[str, object]:
    """The orders to the cluster that make sense here."""
    may_change = report.keeper_is_here and settings.MOM.cluster_dynamic_keeper
    up = [link.broker for link in report.links if link.state == "up"]
    return {"reloads": settings.MOM.cluster_url is not None, "new_keepers": up if may_change else []}


def _consumers(request: HttpRequest, report: ClusterReport) -> dict[str, object]:
    query = request.GET.get("filter", "").strip()
    wanted = query.casefold().split()
    matching = [one for one in report.interest if all(word in words(one) for word in wanted)]
    matching.sort(key=lambda one: (one.address, one.broker, one.selector))
    return {
        "filter": query,
        "all": len(report.interest),
        "matching": len(matching),
        "consumers": [shown_consumers(one) for one in matching[:_SHOWN]],
    }
