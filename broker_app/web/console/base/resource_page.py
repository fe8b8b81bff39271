"""`ResourcePages`, which describes the pages of one resource type, and what these pages share."""

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
from broker_app.web.actions import ChangeResult
from broker_app.web.console.base.frame import AdministratorsPage, icon_of
from broker_app.web.console.base.labels import one_of, was_done
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.resource_types import RESOURCE_TYPES, ResourceType, Spec


@dataclass(frozen=True, slots=True)
class ResourcePages:
    """The pages of one resource type.

    `columns` of the list are fields with headings; `about` is the introduction, `adds` the button that
    adds one. An empty list shows `none`, and `command`, which adds one from a shell.
    """

    kind: str
    title: str | Promise
    about: str | Promise
    form: type[ResourceForm]
    columns: Mapping[str, str | Promise]
    adds: str | Promise = ""
    none: str | Promise = ""
    command: str = ""
    list_template: str = "console/resources.html"
    edit_template: str = "console/resource.html"

    @property
    def of(self) -> ResourceType:
        return RESOURCE_TYPES[self.kind]

    @property
    def one(self) -> str:
        return one_of(self.kind)

    @property
    def icon(self) -> str:
        """The symbol of its entry in the navigation."""
        return icon_of(f"console:{self.kind}")

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


class ResourceView(AdministratorsPage):
    """A page of one resource type."""

    subject: ClassVar[ResourcePages]

    def resource(self, request: HttpRequest) -> tuple[str, Spec]:
        """Key and spec of the resource named by `name` in the address. Raises Http404."""
        key = request.GET.get("name", "")
        spec = self.subject.of.read([key]).get(key)
        if spec is None:
            raise Http404(f"There is no {self.subject.one} {key[:100]}.")
        return key, spec


def report(request: HttpRequest, outcome: ChangeResult, what: str) -> None:
    """Report a change on the next page, with its version."""
    if outcome.version is None:
        messages.info(request, _("%(what)s already has these values: no changes were made.") % {"what": what})
    else:
        messages.success(request, was_done(what, outcome.changed[0].action), extra_tags=str(outcome.version))
        for warning in outcome.warnings():
            messages.warning(request, warning)


def changes_of(kind: str, key: str, most: int = 5) -> list[Change]:
    """The newest changes of one resource."""
    found = ChangedObject.objects.filter(kind=kind, key=key).select_related("change").order_by("-pk")
    return [row.change for row in found[:most]]
