"""The lists of queues and of topics: frames, which the browser fills over REST and the broker's own STOMP."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from broker_app.web.console.base.frame import Page


class QueuesPage(Page):
    kind = "queue"
    title = _("Queues")

    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/destinations.html", {"kind": self.kind, "title": self.title})


class TopicsPage(QueuesPage):
    kind = "topic"
    title = _("Topics")
