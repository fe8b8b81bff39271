"""The list of all things of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from broker_app.models import Entry
from broker_app.web.console.differences import in_words
from broker_app.web.console.subject import SubjectPage
from broker_app.web.kinds import Said

#: rows of a list; what is behind them is found with the filter
MOST_SHOWN = 500


class ListPage(SubjectPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        subject = self.subject
        sought = request.GET.get("filter", "").strip()
        everything = self.everything()
        matching = [key for key, said in everything.items() if self.fits(sought.casefold(), key, said)]
        origins = dict(
            Entry.objects.filter(kind=subject.kind).exclude(origin="").values_list("key", "origin")
        )
        rows = [
            {**self.row(key, everything[key]), "origin": origins.get(key, "")}
            for key in matching[:MOST_SHOWN]
        ]
        context = {
            "subject": subject,
            "rows": rows,
            "filter": sought,
            "all": len(everything),
            "matching": len(matching),
            **self.more(everything),
        }
        return render(request, subject.list_template, context)

    def everything(self) -> Mapping[str, Said]:
        """All things by their keys, with what the columns show."""
        return self.subject.of.read()

    def fits(self, sought: str, key: str, said: Said) -> bool:
        return sought in key.casefold() or any(
            sought in in_words(said.get(name, "")).casefold() for name in self.subject.columns
        )

    def row(self, key: str, said: Said) -> dict[str, Any]:
        cells = [(label, self.cell(said, name)) for name, label in self.subject.columns.items()]
        return {"key": key, "said": said, "cells": cells}

    def cell(self, said: Said, name: str) -> str:
        """One fact of a row; what is not set is left out."""
        value = said[name]
        return "" if value in ("", [], {}, None, False) else in_words(value)

    def more(self, everything: Mapping[str, Said]) -> dict[str, Any]:
        """What the page of a kind shows beside its rows."""
        return {}
