"""The pages of one queue or topic. Each tab has its own address: `queues/one?name=orders&tab=connect`."""

from __future__ import annotations

import json
from typing import ClassVar

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from broker_app.base.refused import Refused
from broker_app.core.destination import DEAD_SUFFIX, SYNC_QUEUE, check_name, is_reserved
from broker_app.models import Bridge, DestinationSettings
from broker_app.net.policy.destination_settings import is_pattern
from broker_app.web.console.base.frame import Page, is_administrator
from broker_app.web.console.queues.destination_history import marks_of
from broker_app.web.console.queues.destination_routing import routing_of
from broker_app.web.console.queues.destination_settings import SettingsView
from mom_client import storeandforward

TEMPORARY, SYSTEM, FORWARDED, PATTERN, PLAIN = "temporary", "system", "forwarded", "pattern", ""
_TEMPORARY_PREFIXES = ("/temp-queue/", "/temp-topic/")


class QueuePage(Page):
    kind = "queue"
    #: URL name and title of the list
    list_url_name: ClassVar[str] = "console:queues"
    list_title: ClassVar[str | Promise] = _("Queues")
    #: tabs with titles; the first is the default. Each has templates/console/destination/<tab>.html
    tabs: ClassVar[dict[str, str | Promise]] = {
        "messages": _("Messages"),
        "consumers": _("Consumers"),
        "publish": _("Publish"),
        "routing": _("Routing"),
        "history": _("History"),
        "settings": _("Settings"),
        "connect": _("Connect"),
    }
    #: the tabs of special destinations
    _tabs_of: ClassVar[dict[str, tuple[str, ...]]] = {
        TEMPORARY: (),
        SYSTEM: ("connect",),
        PATTERN: ("settings",),
    }

    def get(self, request: HttpRequest) -> HttpResponse:
        name, nature, tabs = self._chosen(request)
        tab = request.GET.get("tab", next(iter(tabs), ""))
        if tabs and tab not in tabs:
            raise Http404(f"There is no such view of this {self.kind}.")
        return self._drawn(request, name, nature, tabs, tab, self._of_tab(request, tab, name))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change its settings."""
        name, nature, tabs = self._chosen(request)
        if request.GET.get("tab") != "settings" or "settings" not in tabs:
            raise Http404("Only settings are changed here.")
        if not is_administrator(request):
            return render(request, "console/refused.html", status=403)
        view = SettingsView(request, self.kind, name)
        answer = view.sent()
        if isinstance(answer, HttpResponse):
            return answer
        return self._drawn(request, name, nature, tabs, "settings", answer)

    def _of_tab(self, request: HttpRequest, tab: str, name: str) -> dict[str, object]:
        """The context of a tab that the server renders."""
        match tab:
            case "routing":
                return routing_of(request, self.kind, name)
            case "history":
                return {"marks_json": json.dumps(marks_of(request, self.kind, name))}
            case "settings":
                return SettingsView(request, self.kind, name).shown()
        return {}

    def _chosen(self, request: HttpRequest) -> tuple[str, str, dict[str, str | Promise]]:
        """Name, nature and tabs of the destination in the address. Raises Http404 if the name is invalid."""
        name = request.GET.get("name", "")
        nature = nature_of(self.kind, name)
        try:
            check_name(name.removesuffix(">") or name if nature == PATTERN else name)
        except Refused as refusal:
            raise Http404(refusal.detail) from None
        left = self._tabs_of.get(nature, tuple(self.tabs))
        return name, nature, {tab: title for tab, title in self.tabs.items() if tab in left}

    def _drawn(
        self,
        request: HttpRequest,
        name: str,
        nature: str,
        tabs: dict[str, str | Promise],
        tab: str,
        more: dict[str, object],
    ) -> HttpResponse:
        context = {
            "kind": self.kind,
            "name": name,
            "nature": nature,
            "dead": self.kind == "queue" and takes_dead_letters(name),
            "address": f"/{self.kind}/{name}",
            "list_address": reverse(self.list_url_name),
            "list_title": self.list_title,
            "tab": tab,
            "tabs": [
                (view, title, f"{request.path}?{urlencode({'name': name, 'tab': view})}", view == tab)
                for view, title in tabs.items()
            ],
            "tab_template": f"console/destination/{tab}.html"
            if tab
            else "console/destination/temporary.html",
            "bridge": bridge_of(name) if nature == FORWARDED else None,
            "in_cluster": settings.MOM.cluster_port is not None and nature in (PLAIN, FORWARDED),
            **more,
        }
        return render(request, "console/destination.html", context)


class TopicPage(QueuePage):
    kind = "topic"
    list_url_name = "console:topics"
    list_title = _("Topics")
    tabs: ClassVar[dict[str, str | Promise]] = {
        "subscriptions": _("Subscriptions"),
        "messages": _("Messages"),
        "publish": _("Publish"),
        "routing": _("Routing"),
        "history": _("History"),
        "settings": _("Settings"),
        "connect": _("Connect"),
    }


def nature_of(kind: str, name: str) -> str:
    """The nature of a destination, such as SYSTEM or PLAIN.

    Temporary ones are named by their whole address.
    """
    if name.startswith(_TEMPORARY_PREFIXES):
        return TEMPORARY
    if is_reserved(name) or (kind == "queue" and name == SYNC_QUEUE):
        return SYSTEM
    if kind == "queue" and name.startswith(storeandforward.PREFIX):
        return FORWARDED
    return PATTERN if is_pattern(f"/{kind}/{name}") else PLAIN


def takes_dead_letters(name: str) -> bool:
    """Return whether a queue receives dead letters, by its name or by the settings of another queue."""
    return (
        name.endswith(DEAD_SUFFIX) or DestinationSettings.objects.filter(values__dead_letters=name).exists()
    )


def bridge_of(name: str) -> dict[str, object]:
    """The target broker of a store-and-forward queue, and whether a bridge to it is configured."""
    try:
        found = storeandforward.parse(name)
    except ValueError:
        found = None
    broker = found.broker if found is not None else ""
    return {"broker": broker, "known": Bridge.objects.filter(name=broker).exists()}
