"""The frame around every page: which broker this is, the way around, and who gets in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views import View
from django.views.decorators.cache import never_cache

from broker_app.models import Broker
from broker_app.net.stomp.session_registry import VERSION
from broker_app.web.actions import views_of

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


#: saved views that the menu and the palette offer; the settings list all
MOST_VIEWS = 50


class Way(NamedTuple):
    """One line of the explorer; `place` is the name of its address."""

    place: str
    title: StrPromise
    for_all: bool = False
    #: pressed after g, it goes there
    key: str = ""
    #: the kind of destinations that are listed below the line
    branch: str = ""


#: stands in WAYS for the name of the broker
BROKER = _("This broker")
#: all pages that one goes to from anywhere, in the explorer's order; lines below a title are in its branch
WAYS: tuple[tuple[StrPromise | str, tuple[Way, ...]], ...] = (
    ("", (Way("console", _("Overview"), True, key="o"),)),
    (
        BROKER,
        (
            Way("console:queues", _("Queues"), True, key="q", branch="queue"),
            Way("console:topics", _("Topics"), True, key="t", branch="topic"),
            Way("console:connections", _("Connections"), True, key="n"),
        ),
    ),
    (
        "",
        (
            Way("console:bridges", _("Bridges"), key="b"),
            Way("console:rules", _("Rules"), key="r"),
            Way("console:explain", _("Explain access"), True, key="x"),
            Way("console:configuration", _("Configuration"), key="c"),
            Way("console:jobs", _("Jobs"), True, key="j"),
            Way("console:alerts", _("Alerts"), key="a"),
            Way("console:events", _("Events"), key="e"),
            Way("console:audit", _("Audit"), key="u"),
        ),
    ),
    (
        _("Settings"),
        (
            Way("console:settings", _("My settings"), True, key="s"),
            Way("console:brokers", _("Brokers")),
            Way("console:users", _("Users")),
            Way("console:groups", _("Groups")),
            Way("console:tokens", _("Tokens"), True),
        ),
    ),
)


class Line(NamedTuple):
    """A line of the explorer as it is drawn; `here` where the page lies below it."""

    address: str
    title: StrPromise
    key: str
    branch: str
    here: bool


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: the broker and, for somebody who is logged in, the way around."""
    known: dict[str, Any] = {"broker_name": settings.MOM.name, "version": VERSION}
    # Without a node in this process, its settings are the best that is known.
    node = getattr(request, "scope", {}).get("mom.node")
    known["stomp_port"] = (settings.MOM.stomp_port if node is None else node.stomp_port) or ""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        known["ways"] = _ways(request.path, user.is_superuser)
        known["environment"], known["environment_colour"] = _environment()
        known["saved_views"] = views_of(user.get_username())[:MOST_VIEWS]
        known["jobs_address"] = _address_of("console:jobs", user.is_superuser)
        known["alerts_address"] = _address_of("console:alerts", user.is_superuser)
    return known


def in_production() -> bool:
    """Whether the environment is marked as one in which nothing is removed by one click."""
    return _environment()[0].casefold() == "production"


def _environment() -> tuple[str, str]:
    """What the broker is for, and the colour that shows it."""
    said = Broker.objects.filter(name=settings.MOM.name).values_list("environment", "colour").first()
    return said or ("", "")


def _address_of(place: str, administrator: bool) -> str:
    """Of one of the ways, for the frame's own links; empty where it is not for who looks."""
    ways = [way for _, group in WAYS for way in group if way.place == place]
    return reverse(place) if any(administrator or way.for_all for way in ways) else ""


def _ways(path: str, administrator: bool) -> list[tuple[StrPromise | str, list[Line]]]:
    """The explorer: its branches with their lines, as far as they are for who looks."""
    groups = [
        (title, [(reverse(way.place), way) for way in ways if administrator or way.for_all])
        for title, ways in WAYS
    ]
    # Everything is below the overview, and no part of it.
    overview = reverse("console")
    addresses = [
        address
        for _, ways in groups
        for address, _ in ways
        if path == address or (path.startswith(address) and address != overview)
    ]
    here = max(addresses, key=len, default="")
    return [
        (
            settings.MOM.name if title is BROKER else title,
            [Line(address, way.title, way.key, way.branch, address == here) for address, way in ways],
        )
        for title, ways in groups
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
