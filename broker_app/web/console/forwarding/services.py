"""The pages of services and of messages to profiles: frames, which the browser fills over REST."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import Page, is_administrator


class ServicesPage(Page):
    """The registered services, and the messages to profiles that wait for further ones."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "console/services.html", {"admin": is_administrator(request)})


class ServicePage(Page):
    """One service, by the id of its registration."""

    def get(self, request: HttpRequest) -> HttpResponse:
        service = request.GET.get("id", "")
        if not service:
            raise Http404("The address names no service.")
        return render(request, "console/service.html", {"id": service, "admin": is_administrator(request)})
