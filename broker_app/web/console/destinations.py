"""The page of all destinations: a frame, which the browser fills over the broker's own STOMP and REST."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.frame import Page


class DestinationsPage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/destinations.html")
