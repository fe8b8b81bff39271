"""Pages of what holds: each setting of the node with its source, and the files that were read."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.web import effective
from broker_app.web.console.differences import in_words
from broker_app.web.console.frame import AdministratorsPage
from broker_app.web.files import Watch

#: so many settings whose names begin alike are a group
_A_GROUP = 2


class ConfigurationPage(AdministratorsPage):
    """Every setting of the node, its value, and who says so."""

    def get(self, request: HttpRequest) -> HttpResponse:
        watch = watch_of(request)
        found = effective.shown(settings.MOM, watch.restart if watch is not None else ())
        sought = request.GET.get("filter", "").strip().casefold()
        chosen = "chosen" in request.GET
        rows = [
            {**row, "value": in_words(row["value"]), "default": in_words(row["default"])}
            for row in found["settings"]
            if not (chosen and row["source"] == effective.DEFAULT)
            and sought in f"{row['name']} {row['about']} {row['source']}".casefold()
        ]
        context = {
            "groups": _by_subject(rows),
            "rows": rows,
            "destinations": [
                {**row, "value": in_words(row["value"]), "default": in_words(row["default"])}
                for row in found["destinations"]
                if not (chosen and row["source"] == effective.DEFAULT)
                and sought in f"{row['name']} {row['about']} {row['source']}".casefold()
            ],
            "all": len(found["settings"]),
            "filter": request.GET.get("filter", ""),
            "chosen": chosen,
            "override": f"broker {found['broker']}",
        }
        return render(request, "console/configuration.html", context)


def _by_subject(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The settings in groups by what their names begin with; those that stand alone come last, as ""."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["name"].partition("_")[0], []).append(row)
    alone = [row for group in found.values() if len(group) < _A_GROUP for row in group]
    groups = [(name, group) for name, group in found.items() if len(group) >= _A_GROUP]
    return groups + ([("", alone)] if alone else [])


class FilesPage(AdministratorsPage):
    """The files of the configuration, what they include, how they were read, and the last reloads."""

    def get(self, request: HttpRequest) -> HttpResponse:
        watch = watch_of(request)
        shown: dict[str, Any] = watch.shown() if watch is not None else {"main": None}
        for reload in shown.get("reloads", ()):
            reload["acts"] = [(act, reload[act]) for act in ("added", "changed", "removed", "kept")]
        return render(request, "console/files.html", {"shown": shown})


def watch_of(request: HttpRequest) -> Watch | None:
    """The files of the node, where it follows any."""
    return cast("Watch | None", getattr(request, "scope", {}).get("mom.files"))
