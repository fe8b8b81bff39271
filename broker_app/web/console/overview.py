"""The start page: the status of the broker."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page


class OverviewPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/overview.html")
