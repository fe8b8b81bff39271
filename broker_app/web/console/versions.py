"""Pages of configuration versions: changes of each, comparison of two, rollback."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from broker_app.models import Change
from broker_app.web import history
from broker_app.web.actions import Conflict, InvalidEdits, Stale
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import Difference, difference, in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.impact_preview import impact_of
from broker_app.web.console.base.labels import done as done_in_words
from broker_app.web.console.base.labels import name_of, one_of
from broker_app.web.resource_types import RESOURCE_TYPES

_A_PAGE = 50
#: resources that the list names for each version
_NAMED = 4
#: maximum number of differences in a comparison
_DRAWN = 200


class VersionsPage(AdministratorsPage):
    """All versions, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        before = whole(request.GET, "before")
        kind, author = request.GET.get("kind", ""), request.GET.get("author", "").strip()
        found = history.versions(before, _A_PAGE + 1, kind=kind, author=author)
        context = {
            "versions": [(change, *_named(change)) for change in found[:_A_PAGE]],
            "newest": history.newest(),
            "more": found[_A_PAGE - 1].number if len(found) > _A_PAGE else None,
            "older": before is not None,
            "filtered": bool(kind or author),
            "kind": kind,
            "author": author,
            "kinds": [(name, one_of(name)) for name in RESOURCE_TYPES],
        }
        return render(request, "console/versions.html", context)


class VersionPage(AdministratorsPage):
    """The changes of one version."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        change = Change.objects.filter(number=number).first()
        if change is None:
            raise Http404(f"There is no version {number}.")
        context = {
            "change": change,
            "newest": history.newest(),
            "before": number - 1,
            **_drawn([difference(changed) for changed in history.changes_of(change)]),
        }
        return render(request, "console/version.html", context)


class ComparisonPage(AdministratorsPage):
    """The differences of two versions."""

    def get(self, request: HttpRequest) -> HttpResponse:
        newest = history.newest()
        new = whole(request.GET, "new", newest)
        old = whole(request.GET, "old", max(history.oldest(), (new or 0) - 1))
        context: dict[str, object] = {"old": old, "new": new, "newest": newest, "oldest": history.oldest()}
        try:
            changes = history.difference(old or 0, new or 0)
        except history.NoSuchVersion as missing:
            context["fault"] = str(missing)
        else:
            context |= _drawn([difference(changed) for changed in changes])
        return render(request, "console/comparison.html", context)


class RollbackPage(AdministratorsPage):
    """Roll back to a version, after a preview. The rollback is a new version."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        to = self.target_version(request)
        try:
            done = history.go_back(
                actor_of(request, request.POST.get("reason", "")), to, whole(request.POST, "expected")
            )
        except Stale:
            return self.show(
                request,
                _(
                    "The configuration has changed in the meantime. Below is "
                    "what the rollback would change now."
                ),
            )
        except (Conflict, InvalidEdits, ValidationError) as refusal:
            return self.show(request, in_a_sentence(refusal))
        if done.outcome.version is None:
            messages.info(
                request,
                _("The configuration is already the same as in version %(to)d: no changes were made.")
                % {"to": to},
            )
        else:
            text = _("The configuration was rolled back to version %(to)d.") % {"to": to}
            messages.success(request, text, extra_tags=str(done.outcome.version))
        return redirect("console:versions")

    def target_version(self, request: HttpRequest) -> int:
        to = whole(request.GET, "to")
        if to is None or not history.oldest() <= to <= history.newest():
            raise Http404("There is no such version to go back to.")
        return to

    def show(self, request: HttpRequest, fault: str = "") -> HttpResponse:
        to = self.target_version(request)
        context: dict[str, object] = {"to": to, "newest": history.newest(), "fault": fault}
        try:
            preview = history.go_back(actor_of(request), to, dry_run=True)
        except (Conflict, InvalidEdits, ValidationError) as refusal:
            context["fault"] = fault or in_a_sentence(refusal)
        else:
            context |= {"possible": True, "kept": preview.kept, **impact_of(request, preview.outcome.changed)}
            context |= _drawn([difference(changed) for changed in preview.outcome.changed])
        return render(request, "console/rollback.html", context)


class RevertPage(AdministratorsPage):
    """Revert the newest version. If there are later ones, the rollback page is shown first."""

    def post(self, request: HttpRequest) -> HttpResponse:
        version = whole(request.POST, "version")
        if version is None or not history.oldest() < version <= history.newest():
            raise Http404("There is no such version.")
        try:
            done = history.go_back(actor_of(request), version - 1, version)
        except (Stale, Conflict, InvalidEdits, ValidationError) as refusal:
            why = _("later changes depend on it") if isinstance(refusal, Stale) else in_a_sentence(refusal)
            messages.error(
                request,
                _("Version %(version)d cannot be reverted on its own: %(why)s.")
                % {"version": version, "why": why},
            )
            return redirect(f"{reverse('console:rollback')}?to={version - 1}")
        left = "".join(f" {one.kind} {one.key}: {one.why}." for one in done.kept)
        messages.success(
            request,
            _("Version %(version)d was reverted.") % {"version": version} + left,
            extra_tags=str(done.outcome.version or ""),
        )
        return redirect("console:versions")


class _Named(NamedTuple):
    resources: list[tuple[str, str]]
    more: int


def _named(change: Change) -> _Named:
    """(name, action) of the first resources that a version changed, and the number of further ones."""
    changes = history.changes_of(change)
    return _Named(
        [(name_of(one.kind, one.key), done_in_words(one.action)) for one in changes[:_NAMED]],
        max(0, len(changes) - _NAMED),
    )


def _drawn(differences: list[Difference]) -> dict[str, object]:
    return {"differences": differences[:_DRAWN], "undrawn": max(0, len(differences) - _DRAWN)}


def whole(given: QueryDict, name: str, default: int | None = None) -> int | None:
    """An integer of the query, or `default`."""
    text = given.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default
