"""The pages of one queue or topic. Each tab has its own address: `queues/one?name=orders&tab=use`."""

from __future__ import annotations

from typing import ClassVar

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from broker_app.web.console.frame import Page


class QueuePage(Page):
    kind = "queue"
    #: address and title of the list
    place, list_title = "console:queues", "Queues"
    #: with titles; the first is shown where none is named. Each has templates/console/destination/<tab>.html
    tabs: ClassVar[dict[str, str]] = {"messages": "Messages", "publish": "Publish", "use": "Use it"}

    def get(self, request: HttpRequest) -> HttpResponse:
        name = request.GET.get("name", "")
        tab = request.GET.get("tab", next(iter(self.tabs)))
        if not name or tab not in self.tabs:
            raise Http404(f"No {self.kind} or no such view of it.")
        context = {
            "kind": self.kind,
            "name": name,
            "address": f"/{self.kind}/{name}",
            "list_address": reverse(self.place),
            "list_title": self.list_title,
            "tabs": [
                (view, title, f"{request.path}?{urlencode({'name': name, 'tab': view})}", view == tab)
                for view, title in self.tabs.items()
            ],
            "tab_template": f"console/destination/{tab}.html",
        }
        return render(request, "console/destination.html", context)


class TopicPage(QueuePage):
    kind = "topic"
    place, list_title = "console:topics", "Topics"
    tabs: ClassVar[dict[str, str]] = {"publish": "Publish", "use": "Use it"}
