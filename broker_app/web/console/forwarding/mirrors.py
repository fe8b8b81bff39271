"""The page of mirrors: the brokers that share the journal, and the order to switch over."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.forwarding.mirror_status import shown, status_of


class MirrorsPage(AdministratorsPage):
    """The active broker, the lag of the others, what would be lost now, and past takeovers."""

    def get(self, request: HttpRequest) -> HttpResponse:
        status, unknown = status_of(request)
        # `mirrors` has the addresses of all consoles, in every page.
        context = {
            "status": shown(status) if status else None,
            "unknown": unknown,
            "cluster_id": settings.MOM.cluster_id,
        }
        return render(request, "console/mirrors.html", context)
