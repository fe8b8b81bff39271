"""The page of the cluster: the other brokers, what crosses the links, and where consumers are."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.features.cluster.report import ClusterReport
from broker_app.features.cluster.status import HOW_TO_MAKE_ONE
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.forwarding.cluster_status import report_of, shown, shown_consumers, words
from broker_app.web.console.forwarding.cluster_topology import draw

#: rows of consumers
_SHOWN = 200


class ClusterPage(AdministratorsPage):
    """The states of all links, drawn and as a table, and a list of consumers with a filter."""

    def get(self, request: HttpRequest) -> HttpResponse:
        report, unknown = report_of(request)
        context: dict[str, Any] = {"unknown": unknown, "command": HOW_TO_MAKE_ONE}
        if report is not None:
            context |= {"cluster": shown(report), "drawing": draw(report), **_consumers(request, report)}
        return render(request, "console/cluster.html", context)


def _consumers(request: HttpRequest, report: ClusterReport) -> dict[str, Any]:
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
