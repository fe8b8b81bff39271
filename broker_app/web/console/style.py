"""The style page: every component of the console in every state, for developers and tests."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page


class StylePage(Page):
    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/style.html")
