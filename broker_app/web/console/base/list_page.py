"""The list of all resources of a kind. Filter, order and page are in the address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from broker_app.models import Entry
from broker_app.web.console.base.field_words import as_text
from broker_app.web.console.base.resource_page import ResourceView
from broker_app.web.console.versions import whole
from broker_app.web.resource_types import Spec

#: rows per page
A_PAGE = 100
_NAME = "name"


class Column(NamedTuple):
    """A heading of a list.

    `address` sorts by it, or reverses the order; empty if it is not sortable. `sorted` is the value of
    aria-sort, empty for columns that the list is not sorted by.
    """

    label: str
    address: str
    sorted: str


class ListPage(ResourceView):
    #: sortable fields; None: all columns
    sortable: ClassVar[Collection[str] | None] = None

    def get(self, request: HttpRequest) -> HttpResponse:
        subject = self.subject
        query = request.GET.get("filter", "").strip()
        specs = self.specs()
        matching = [key for key, spec in specs.items() if self.fits(query.casefold(), key, spec)]
        order = request.GET.get("sort", "")
        matching = self.ordered(matching, specs, order)
        page = max(1, whole(request.GET, "page", 1) or 1)
        shown = matching[(page - 1) * A_PAGE : page * A_PAGE]
        origins = dict(
            Entry.objects.filter(kind=subject.kind).exclude(origin="").values_list("key", "origin")
        )
        context = {
            "subject": subject,
            "rows": [{**self.row(key, specs[key]), "origin": origins.get(key, "")} for key in shown],
            "columns": self.columns(request, order),
            "filter": query,
            "sort": order,
            "all": len(specs),
            "matching": len(matching),
            "first": (page - 1) * A_PAGE + 1,
            "last": (page - 1) * A_PAGE + len(shown),
            "newer": with_query(request.GET, page=str(page - 1)) if page > 1 else "",
            "older": with_query(request.GET, page=str(page + 1)) if page * A_PAGE < len(matching) else "",
            **self.extra_context(specs),
        }
        return render(request, subject.list_template, context)

    def specs(self) -> Mapping[str, Spec]:
        """All resources by key, with the values for the columns."""
        return self.subject.of.read()

    def fits(self, query: str, key: str, spec: Spec) -> bool:
        return query in key.casefold() or any(
            query in as_text(spec.get(name, "")).casefold() for name in self.subject.columns
        )

    def ordered(self, keys: list[str], specs: Mapping[str, Spec], order: str) -> list[str]:
        """Keys sorted by `column` or `-column`; empty values come last."""
        name = order.removeprefix("-")
        if name not in self._sortable():
            return keys
        cells = {key: key if name == _NAME else self.cell(specs[key], name) for key in keys}
        ordered = sorted(keys, key=lambda key: cells[key].casefold(), reverse=order.startswith("-"))
        return sorted(ordered, key=lambda key: cells[key] == "")

    def columns(self, request: HttpRequest, order: str) -> dict[str, Column]:
        """The headings by field, the name first."""
        found = {}
        for name, label in {_NAME: "", **self.subject.columns}.items():
            sorted_by = {name: "ascending", f"-{name}": "descending"}.get(order, "")
            turned = f"-{name}" if order == name else name
            address = with_query(request.GET, sort=turned, page="") if name in self._sortable() else ""
            found[name] = Column(str(label), address, sorted_by)
        return found

    def _sortable(self) -> Collection[str]:
        return (_NAME, *self.subject.columns) if self.sortable is None else self.sortable

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        cells = [(label, self.cell(spec, name)) for name, label in self.subject.columns.items()]
        return {"key": key, "spec": spec, "cells": cells}

    def cell(self, spec: Spec, name: str) -> str:
        """The text of a cell; empty if the value is not set."""
        value = spec[name]
        return "" if value in ("", [], {}, None, False) else as_text(value)

    def extra_context(self, specs: Mapping[str, Spec]) -> dict[str, object]:
        """Additional context for the page of a kind."""
        return {}


def with_query(given: QueryDict, **extra_context: str) -> str:
    """The query with the given values added; empty ones are removed."""
    query = given.copy()
    for name, value in extra_context.items():
        query[name] = value
        if not value:
            del query[name]
    return query.urlencode()
