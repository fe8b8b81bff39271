"""Pages of the effective configuration: each setting of the node with its source, and the files that were
read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as translated

from broker_app.base.reply_types import Facts
from broker_app.base.settings.setting_groups import TITLES
from broker_app.web import effective
from broker_app.web.console.base.field_words import FieldWords, as_text
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.shown import Shown
from broker_app.web.files import FileWatcher
from broker_app.web.files.reloads import ReloadStatus


class ConfigurationPage(AdministratorsPage):
    """Every setting of the node with its value and source."""

    def get(self, request: HttpRequest) -> HttpResponse:
        watch = watch_of(request)
        found = effective.shown(settings.MOM, watch.restart if watch is not None else ())
        query = request.GET.get("filter", "").strip().casefold()
        chosen = "chosen" in request.GET
        groups = [(title, _matching(rows, query, chosen)) for title, rows in _groups(found["settings"])]
        context = {
            "groups": [(title, rows) for title, rows in groups if rows],
            "matching": sum(len(rows) for _title, rows in groups),
            "destinations": _matching(_in_words(found["destinations"]), query, chosen),
            "all": len(found["settings"]),
            "filter": request.GET.get("filter", ""),
            "chosen": chosen,
            "override": f"broker {found['broker']}",
        }
        return render(request, "console/configuration.html", context)


def _groups(rows: Sequence[Facts]) -> list[tuple[str, list[Facts]]]:
    """The settings in the groups of `mom up --help`, with their titles."""
    groups: list[tuple[str, list[Facts]]] = []
    for row in rows:
        if row["name"] in TITLES or not groups:
            groups.append((translated(TITLES[row["name"]]), []))
        groups[-1][1].append(row)
    return groups


def _in_words(rows: Sequence[Facts]) -> list[Facts]:
    """The settings of destinations with labels, values and sentences as their form has them."""
    words = FieldWords("destinations")

    def in_words(row: Facts) -> Facts:
        name = row["name"]
        values = {key: words.value(name, row[key]) for key in ("value", "default")}
        return {**row, "label": words.label(name), "about": words.about(name), **values}

    return [in_words(row) for row in rows]


def _matching(rows: Sequence[Facts], query: str, chosen: bool) -> list[Facts]:
    """The settings that the filter leaves, with their values as text, and whether these are the defaults."""
    return [
        {**row, "value": as_text(row["value"]), "default": as_text(row["default"]), "is_default": is_default}
        for row in rows
        for is_default in (row["value"] == row["default"],)
        if not (chosen and row["source"] == effective.DEFAULT)
        and query in f"{row['name']} {row['about']} {row['source']}".casefold()
    ]


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
