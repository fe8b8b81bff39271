"""The pages of clients: frames, which the browser fills over REST and the broker's own STOMP."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page, is_administrator


class ConnectionsPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/connections.html")


class ConnectionPage(Page):
    """One client, by the `session` header of CONNECTED; kept for a day after it disconnects."""

    def get(self, request: HttpRequest) -> HttpResponse:
        connection = request.GET.get("id", "")
        if not connection:
            raise Http404("The address names no connection.")
        context = {"id": connection, "admin": is_administrator(request)}
        return render(request, "console/connection.html", context)
