"""The page that one comes to first: how the broker is."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.frame import Page


class OverviewPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/overview.html")
