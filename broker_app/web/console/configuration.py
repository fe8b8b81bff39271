"""Pages of the effective configuration: each setting of the node with its source, and the files that were
read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.base.reply_types import Facts
from broker_app.web import effective
from broker_app.web.console.base.differences import as_text
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.shown import Shown
from broker_app.web.files import FileWatcher
from broker_app.web.files.reloads import ReloadStatus

#: at least so many settings with a common prefix form a group
_A_GROUP = 2


class ConfigurationPage(AdministratorsPage):
    """Every setting of the node with its value and source."""

    def get(self, request: HttpRequest) -> HttpResponse:
        watch = watch_of(request)
        found = effective.shown(settings.MOM, watch.restart if watch is not None else ())
        query = request.GET.get("filter", "").strip().casefold()
        chosen = "chosen" in request.GET
        rows = [
            {**row, "value": as_text(row["value"]), "default": as_text(row["default"])}
            for row in found["settings"]
            if not (chosen and row["source"] == effective.DEFAULT)
            and query in f"{row['name']} {row['about']} {row['source']}".casefold()
        ]
        context = {
            "groups": _by_subject(rows),
            "rows": rows,
            "destinations": [
                {**row, "value": as_text(row["value"]), "default": as_text(row["default"])}
                for row in found["destinations"]
                if not (chosen and row["source"] == effective.DEFAULT)
                and query in f"{row['name']} {row['about']} {row['source']}".casefold()
            ],
            "all": len(found["settings"]),
            "filter": request.GET.get("filter", ""),
            "chosen": chosen,
            "override": f"broker {found['broker']}",
        }
        return render(request, "console/configuration.html", context)


def _by_subject(rows: Sequence[Facts]) -> list[tuple[str, list[Facts]]]:
    """The settings grouped by the prefix of their names; ungrouped ones come last, as ""."""
    found: dict[str, list[Facts]] = {}
    for row in rows:
        found.setdefault(row["name"].partition("_")[0], []).append(row)
    alone = [row for group in found.values() if len(group) < _A_GROUP for row in group]
    groups = [(name, group) for name, group in found.items() if len(group) >= _A_GROUP]
    return groups + ([("", alone)] if alone else [])


class FilesPage(AdministratorsPage):
    """The configuration files, their includes, the result of reading them, and the last reloads."""

    def get(self, request: HttpRequest) -> HttpResponse:
        watch = watch_of(request)
        return render(request, "console/files.html", {"shown": _shown(watch)})


def _shown(watch: FileWatcher | None) -> Shown:
    """The files for the template: the changes of each reload by action."""
    if watch is None:
        return {"main": None}
    status = watch.shown()
    return {**status, "reloads": [{**reload, "actions": _actions(reload)} for reload in status["reloads"]]}


def _actions(reload: ReloadStatus) -> list[tuple[str, object]]:
    return [
        ("added", reload["added"]),
        ("changed", reload["changed"]),
        ("removed", reload["removed"]),
        ("kept", reload["kept"]),
    ]


def watch_of(request: HttpRequest) -> FileWatcher | None:
    """The watched files of the node, if there are any."""
    return cast("FileWatcher | None", getattr(request, "scope", {}).get("mom.files"))
