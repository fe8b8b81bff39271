"""The console's pages."""

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from broker_app.net.lobby import VERSION


def broker(request: HttpRequest) -> dict[str, str]:
    """Context of every template: which broker this is."""
    return {"broker_name": settings.MOM.name, "version": VERSION}


@never_cache
@login_required
def destinations(request: HttpRequest) -> HttpResponse:
    """All destinations. The page is a frame; the browser fills it over the broker's own STOMP and REST."""
    # Without a node in this process, its settings are the best that is known.
    node = getattr(request, "scope", {}).get("mom.node")
    stomp_port = settings.MOM.stomp_port if node is None else node.stomp_port
    return render(request, "console/destinations.html", {"stomp_port": stomp_port})
