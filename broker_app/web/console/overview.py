"""The start page: the status of the broker."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page, sees_all
from broker_app.web.console.event_log import shown_event
from broker_app.web.policy_sync import node_of

#: alerts and events that the overview shows
_ALERTS = 6
_EVENTS = 10


class OverviewPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        """Render the page, with room for the alerts that are open now: nothing moves when they come."""
        node = node_of(request)
        alerts, events = 0, []
        if node is not None and sees_all(request):
            alerts = node.alerts.state.firing + node.alerts.state.acknowledged
            events = node.events.all()[:_EVENTS]
        context = {
            "alert_rows": range(min(alerts, _ALERTS)),
            "more_alerts": alerts > _ALERTS,
            "node": node is not None,
            "events": [shown_event(event) for event in events],
        }
        return render(request, "console/overview.html", context)
