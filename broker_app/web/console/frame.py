"""The frame around every page: which broker this is, the way around, and who gets in."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from broker_app.models import Broker
from broker_app.net.lobby import VERSION


class Way(NamedTuple):
    """One line of the navigation; `place` is the name of its address."""

    place: str
    title: str
    for_all: bool = False


WAYS = (
    (
        "",
        (
            Way("console", "Overview", True),
            Way("console:queues", "Queues", True),
            Way("console:topics", "Topics", True),
        ),
    ),
    (
        "Access",
        (
            Way("console:rules", "Rules"),
            Way("console:explain", "Explain", True),
            Way("console:users", "Users"),
            Way("console:groups", "Groups"),
            Way("console:tokens", "Tokens", True),
        ),
    ),
    (
        "System",
        (
            Way("console:brokers", "Brokers"),
            Way("console:bridges", "Bridges"),
            Way("console:configuration", "Configuration"),
            Way("console:events", "Events"),
            Way("console:audit", "Audit"),
        ),
    ),
)


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: the broker and, for somebody who is logged in, the way around."""
    known: dict[str, Any] = {"broker_name": settings.MOM.name, "version": VERSION}
    # Without a node in this process, its settings are the best that is known.
    node = getattr(request, "scope", {}).get("mom.node")
    known["stomp_port"] = (settings.MOM.stomp_port if node is None else node.stomp_port) or ""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        known["ways"] = _ways(request.path, user.is_superuser)
        known["environment"] = _environment()
    return known


def in_production() -> bool:
    """Whether the environment is marked as one in which nothing is removed by one click."""
    return _environment().casefold() == "production"


def _environment() -> str:
    return Broker.objects.filter(name=settings.MOM.name).values_list("environment", flat=True).first() or ""


def _ways(path: str, administrator: bool) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """The navigation: per group its lines, each with its address and whether the page lies below it."""
    groups = [
        (group, [(reverse(way.place), way.title) for way in ways if administrator or way.for_all])
        for group, ways in WAYS
    ]
    addresses = [address for _, ways in groups for address, _ in ways if path.startswith(address)]
    here = max(addresses, key=len, default="")
    return [
        (group, [(address, title, address == here) for address, title in ways])
        for group, ways in groups
        if ways
    ]


@method_decorator(never_cache, name="dispatch")
class Page(LoginRequiredMixin, View):
    """A page for everybody who is logged in."""


class AdministratorsPage(Page):
    """A page for administrators. Others are told so."""

    def dispatch(self, request: HttpRequest, *args: Any, **options: Any) -> HttpResponseBase:
        if request.user.is_authenticated and not self.admits(request):
            return render(request, "console/refused.html", status=403)
        return super().dispatch(request, *args, **options)

    def admits(self, request: HttpRequest) -> bool:
        """Whether the page is for who asks for it."""
        return is_administrator(request)


def is_administrator(request: HttpRequest) -> bool:
    return request.user.is_authenticated and request.user.is_superuser
