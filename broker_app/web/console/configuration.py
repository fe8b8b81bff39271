"""The page of the effective configuration: what each setting of the node is, and who says so."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app import config
from broker_app.web.console.frame import AdministratorsPage
from broker_app.web.kinds import KINDS

DEFAULT = "default"


class Effective(NamedTuple):
    """A setting as it holds; secrets are not told."""

    setting: config.Setting
    value: str
    default: str
    source: str
    #: whether it is said for the broker in the configuration, and not by who started it
    replaced: bool


class ConfigurationPage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        sought = request.GET.get("filter", "").strip()
        chosen = "chosen" in request.GET
        rows = effective(settings.MOM)
        matching = [
            row
            for row in rows
            if (not chosen or row.source != DEFAULT)
            and sought.casefold() in f"{row.setting.name} {row.setting.rule.about} {row.source}".casefold()
        ]
        context: dict[str, Any] = {"rows": matching, "all": len(rows), "filter": sought, "chosen": chosen}
        return render(request, "console/configuration.html", context)


def effective(started_with: config.Config) -> list[Effective]:
    """Every setting of this broker, as it was started and as it was replaced since."""
    said = KINDS["brokers"].read([started_with.name]).get(started_with.name, {})
    replaced: dict[str, Any] = said.get("settings", {})
    return [_effective(setting, started_with, replaced) for setting in config.settings()]


def _effective(setting: config.Setting, started: config.Config, replaced: dict[str, Any]) -> Effective:
    name, default = setting.name, _in_words(setting, setting.default)
    if name in replaced:
        value = _in_words(setting, replaced[name])
        return Effective(setting, value, default, f"brokers/{started.name}", True)
    value = _in_words(setting, getattr(started, name))
    return Effective(setting, value, default, started.sources.get(name, DEFAULT), False)


def _in_words(setting: config.Setting, value: Any) -> str:
    if setting.rule.secret:
        return "(none)" if value is None else "(set, and not shown)"
    match value:
        case None | "" | ():
            return "(none)"
        case bool():
            return "yes" if value else "no"
        case tuple():
            return ", ".join(map(str, value))
        case int():
            return f"{value:,}"
        case _:
            return str(value)
