"""Subject: one kind of configured things as the console shows it, and what its pages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from django.contrib import messages
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from broker_app.models import Change, ChangedObject
from broker_app.web.actions import Outcome
from broker_app.web.console.frame import AdministratorsPage
from broker_app.web.console.labels import one_of, was_done
from broker_app.web.console.resource_form import ThingForm
from broker_app.web.resource_types import KINDS, Kind, Said


@dataclass(frozen=True, slots=True)
class Subject:
    """`columns` of the list are fields with their headings; `about` says what such a thing is, `adds` and
    `none` are the sentences of the button that adds one and of the empty list."""

    kind: str
    title: str | Promise
    about: str | Promise
    form: type[ThingForm]
    columns: Mapping[str, str | Promise]
    adds: str | Promise = ""
    none: str | Promise = ""
    list_template: str = "console/things.html"
    edit_template: str = "console/thing.html"

    @property
    def of(self) -> Kind:
        return KINDS[self.kind]

    @property
    def one(self) -> str:
        return one_of(self.kind)

    @property
    def address(self) -> str:
        return reverse(f"console:{self.kind}")

    @property
    def add_address(self) -> str:
        return reverse(f"console:{self.kind}-add")

    @property
    def edit_address(self) -> str:
        return reverse(f"console:{self.kind}-edit")

    @property
    def remove_address(self) -> str:
        return reverse(f"console:{self.kind}-remove")


class SubjectPage(AdministratorsPage):
    """A page about things of one kind."""

    subject: ClassVar[Subject]

    def thing(self, request: HttpRequest) -> tuple[str, Said]:
        """The thing that `name` in the address names. Raises Http404."""
        key = request.GET.get("name", "")
        said = self.subject.of.read([key]).get(key)
        if said is None:
            raise Http404(f"There is no {self.subject.one} {key[:100]}.")
        return key, said


def tell(request: HttpRequest, outcome: Outcome, what: str) -> None:
    """Says on the next page what was done, with the version that it led to."""
    if outcome.version is None:
        messages.info(request, _("%(what)s already has these values: no changes were made.") % {"what": what})
    else:
        messages.success(request, was_done(what, outcome.changed[0].act), extra_tags=str(outcome.version))
        for warning in outcome.warnings():
            messages.warning(request, warning)


def changes_of(kind: str, key: str, most: int = 5) -> list[Change]:
    """The newest changes of one thing."""
    found = ChangedObject.objects.filter(kind=kind, key=key).select_related("change").order_by("-pk")
    return [row.change for row in found[:most]]
