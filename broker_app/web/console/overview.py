"""The start page: the status of the broker."""

import json

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page, sees_all
from broker_app.web.console.base.labels import event_labels
from broker_app.web.policy_sync import node_of

#: alerts that the overview shows
_SHOWN = 6


class OverviewPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        """Render the page, with room for the alerts that are open now: nothing moves when they come."""
        node = node_of(request)
        alerts = 0
        if node is not None and sees_all(request):
            alerts = node.alerts.state.firing + node.alerts.state.acknowledged
        context = {
            "alert_rows": range(min(alerts, _SHOWN)),
            "more_alerts": alerts > _SHOWN,
            "event_labels": json.dumps(event_labels()),
        }
        return render(request, "console/overview.html", context)
