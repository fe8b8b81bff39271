"""The frame around every page: the broker's name, the navigation, access control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.forms import Form
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views import View
from django.views.decorators.cache import never_cache

from broker_app.models import Broker
from broker_app.net.stomp.session import VERSION
from broker_app.web.actions import views_of
from broker_app.web.content_policy import cluster_consoles_of, consoles_of
from broker_app.web.roles import is_monitor

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


_Form = TypeVar("_Form", bound=Form)

#: the sentence of pages about the role monitor
CHANGES_REFUSED = _("You have the role monitor, which sees everything and changes nothing.")

#: saved views that the menu and the palette offer; the settings list all
MAX_VIEWS = 50


class NavItem(NamedTuple):
    """An entry of the navigation; `url_name` is the name of its address, `icon` that of its symbol."""

    url_name: str
    title: StrPromise
    icon: str
    for_all: bool = False
    #: keyboard shortcut: pressed after g
    key: str = ""


#: all navigation entries by groups, in order
NAVIGATION: tuple[tuple[StrPromise | str, tuple[NavItem, ...]], ...] = (
    ("", (NavItem("console", _("Overview"), "layout-dashboard", True, key="o"),)),
    (
        _("Messaging"),
        (
            NavItem("console:queues", _("Queues"), "inbox", True, key="q"),
            NavItem("console:topics", _("Topics"), "radio", True, key="t"),
            NavItem("console:connections", _("Connections"), "plug-zap", True, key="n"),
            NavItem("console:services", _("Services"), "server", True, key="v"),
        ),
    ),
    (
        _("Delivery"),
        (
            NavItem("console:callbacks", _("Callbacks"), "webhook", key="k"),
            NavItem("console:reflexes", _("Reflexes"), "zap", key="f"),
            NavItem("console:bridges", _("Bridges"), "arrow-left-right", key="b"),
            NavItem("console:pipelines", _("Pipelines"), "workflow", key="p"),
        ),
    ),
    (
        _("Operation"),
        (
            NavItem("console:alerts", _("Alerts"), "bell", key="a"),
            NavItem("console:cluster", _("Cluster"), "waypoints", key="l"),
            NavItem("console:channels", _("Channels"), "send", True),
            NavItem("console:mirrors", _("Mirrors"), "network", key="m"),
            NavItem("console:jobs", _("Jobs"), "list-checks", True, key="j"),
            NavItem("console:events", _("Events"), "history", key="e"),
        ),
    ),
    (
        _("Administration"),
        (
            NavItem("console:rules", _("Rules"), "shield-check", key="r"),
            NavItem("console:masks", _("Masks"), "eye-off"),
            NavItem("console:explain", _("Explain access"), "circle-help", True, key="x"),
            NavItem("console:users", _("Users"), "user"),
            NavItem("console:groups", _("Groups"), "users"),
            NavItem("console:tokens", _("Tokens"), "key-round", True),
            NavItem("console:configuration", _("Configuration"), "sliders-horizontal", key="c"),
            NavItem("console:brokers", _("Brokers"), "cable"),
            NavItem("console:audit", _("Audit"), "file-text", key="u"),
            NavItem("console:settings", _("Settings"), "settings", True, key="s"),
        ),
    ),
)

#: entries of the bar below a page on a phone, which the menu of all pages follows
TAB_BAR = ("console", "console:queues", "console:topics", "console:alerts")


class NavigationLine(NamedTuple):
    """A navigation entry as it is rendered; `here` is True if the current page lies below it."""

    address: str
    title: StrPromise
    icon: str
    key: str
    here: bool


def frame(request: HttpRequest) -> dict[str, object]:
    """The context of every template: the broker and, for authenticated users, the navigation."""
    known: dict[str, object] = {"broker_name": settings.MOM.name, "version": VERSION}
    # Without a node in this process, only its settings are known.
    node = getattr(request, "scope", {}).get("mom.node")
    known["stomp_port"] = (settings.MOM.stomp_port if node is None else node.stomp_port) or ""
    known["mirrors"] = consoles_of(request)
    known["cluster_consoles"] = cluster_consoles_of(request)
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        everything = sees_all(request)
        known["sees_all"], known["may_change"] = everything, not is_monitor(user)
        known["changes_refused"] = CHANGES_REFUSED
        known["navigation"] = navigation = _navigation(request.path, everything)
        bar = [reverse(name) for name in TAB_BAR]
        known["tab_bar"] = [line for _, lines in navigation for line in lines if line.address in bar]
        known["environment"], known["environment_colour"] = _environment()
        known["saved_views"] = views_of(user.get_username())[:MAX_VIEWS]
        known["jobs_address"] = _address_of("console:jobs", everything)
        known["alerts_address"] = _address_of("console:alerts", everything)
        if node is not None and everything:
            known["firing"] = node.alerts.state.firing
    return known


def icon_of(url_name: str) -> str:
    """The symbol of a navigation entry."""
    return next(item.icon for _, group in NAVIGATION for item in group if item.url_name == url_name)


def in_production() -> bool:
    """Return whether the environment is production, in which removing asks for the name."""
    return _environment()[0].casefold() == "production"


def _environment() -> tuple[str, str]:
    """The environment of the broker, and its colour."""
    spec = Broker.objects.filter(name=settings.MOM.name).values_list("environment", "colour").first()
    return spec or ("", "")


def _address_of(url_name: str, administrator: bool) -> str:
    """URL of a navigation entry, or "" if the current user may not see it."""
    items = [item for _, group in NAVIGATION for item in group if item.url_name == url_name]
    return reverse(url_name) if any(administrator or item.for_all for item in items) else ""


def _navigation(path: str, administrator: bool) -> list[tuple[StrPromise | str, list[NavigationLine]]]:
    """The navigation: its groups with the entries that the current user may see."""
    groups = [
        (title, [(reverse(item.url_name), item) for item in items if administrator or item.for_all])
        for title, items in NAVIGATION
    ]
    # The address of the overview is a prefix of all others, but it is not their parent.
    overview = reverse("console")
    addresses = [
        address
        for _, items in groups
        for address, _ in items
        if path == address or (path.startswith(address) and address != overview)
    ]
    here = max(addresses, key=len, default="")
    return [
        (
            title,
            [
                NavigationLine(address, item.title, item.icon, item.key, address == here)
                for address, item in items
            ],
        )
        for title, items in groups
        if items
    ]


@method_decorator(never_cache, name="dispatch")
class Page(LoginRequiredMixin, View):
    """A page for all authenticated users."""


class AdministratorsPage(Page):
    """A page for administrators and monitors; other users get an explanation and status 403."""

    def dispatch(self, request: HttpRequest, *args: Any, **options: Any) -> HttpResponseBase:
        if request.user.is_authenticated and not self.admits(request):
            return render(request, "console/refused.html", status=403)
        return super().dispatch(request, *args, **options)

    def admits(self, request: HttpRequest) -> bool:
        """Return whether the current user may see the page."""
        return sees_all(request)


def sees_all(request: HttpRequest) -> bool:
    """Return whether the current user sees what administrators see: one, or a monitor."""
    return is_administrator(request) or is_monitor(request.user)


def shown_to(request: HttpRequest, form: _Form) -> _Form:
    """A form with its values, of which a monitor changes none."""
    if is_monitor(request.user):
        for field in form.fields.values():
            field.disabled = True
    return form


def is_administrator(request: HttpRequest) -> bool:
    return request.user.is_authenticated and request.user.is_superuser
