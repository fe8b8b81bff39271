"""Pages of reflexes: the list with their status, and the form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from broker_app.reflex.declaration import ACCEPT, REFUSE
from broker_app.reflex.libraries import library_loader
from broker_app.reflex.shipped import table
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import CodeField
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.console.forwarding.reflex_status import KINDS, all_reflexes, shown_options, shown_reflex
from broker_app.web.console.forwarding.reflex_trial import destination_for, stored_trial
from broker_app.web.resource_types import Spec


class OptionsField(CodeField):
    """Options, as a JSON object; empty for none."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        return super().prepare_value(value)

    def clean(self, value: Any) -> dict[str, object]:
        text = super().clean(value).strip()
        try:
            found = json.loads(text) if text else {}
        except ValueError as error:
            shown = {"error": error}
            raise forms.ValidationError(_("This is not valid JSON: %(error)s"), params=shown) from error
        if not isinstance(found, dict):
            raise forms.ValidationError(_('Enter a JSON object such as {"rate": 100}.'))
        return found


def _kind_field() -> forms.ChoiceField:
    return forms.ChoiceField(
        label=_("Kind"),
        choices=list(KINDS.items()),
        help_text=_(
            "arrival: before a message is stored; delivery: before it is sent to a consumer; local service: "
            "the function consumes a queue; message channels: it answers the requests to this site"
        ),
    )


class ReflexForm(ResourceForm):
    kind = "reflexes"

    service = forms.CharField(
        label=_("Service"),
        help_text=_(
            "queues, or addresses such as /topic/prices.>; of a registration, names of services; "
            "* is everything"
        ),
    )
    event = forms.CharField(
        label=_("Event"), help_text=_("pattern of the header type, such as order.*; * is everything")
    )
    library = forms.CharField(
        label=_("Library"),
        widget=forms.TextInput(attrs={"list": "libraries", "autocomplete": "off"}),
        help_text=_("mom, mom-schema, RE_LocalService, RE_LogService, or a plug-in"),
    )
    function = forms.CharField(
        label=_("Function"),
        widget=forms.TextInput(attrs={"list": "functions", "autocomplete": "off"}),
        help_text=_("name of the function in the library"),
    )
    options = OptionsField(
        required=False, label=_("Options"), help_text=_("JSON object that the function receives")
    )
    time_limit_s = forms.FloatField(
        label=_("Time limit"),
        help_text=_("seconds after which the process of the library is killed, and the function has failed"),
    )
    on_failure = forms.ChoiceField(
        label=_("On failure"),
        choices=[(REFUSE, _("refuse")), (ACCEPT, _("accept"))],
        help_text=_("what happens when the function fails, or does not answer in time"),
    )
    enabled = forms.BooleanField(label=_("Enabled"), required=False)
    position = forms.IntegerField(
        label=_("Position"),
        help_text=_("The first reflex that refuses decides; lower positions are asked first."),
    )
    comment = forms.CharField(label=_("Comment"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # Not an attribute of the class, where `kind` is that of the resource.
        self.fields["kind"] = _kind_field()
        self.order_fields(["name", "kind"])


REFLEXES = ResourcePages(
    kind="reflexes",
    title=_("Reflexes"),
    about=_(
        "Functions that decide about messages and services, in the order in which they are asked. The first "
        "that refuses ends the chain."
    ),
    adds=_("Add a reflex"),
    none=_("There are no reflexes yet."),
    command="mom reflex create slow-down service=orders library=mom function=limit_rate "
    "options='{\"rate\": 100}'",
    form=ReflexForm,
    columns={
        "kind": _("kind"),
        "service": _("service"),
        "event": _("event"),
        "library": _("library"),
        "function": _("function"),
        "comment": _("comment"),
    },
    list_template="console/reflexes.html",
    edit_template="console/reflex_edit.html",
)


def choices() -> dict[str, object]:
    """The libraries and functions that a form offers, for a template."""
    directory = str(settings.MOM.reflex_path or "")
    shipped = [
        (function, f"{library}: {one.about}")
        for library, functions in table.IN_BROKER.items()
        for function, one in functions.items()
    ]
    libraries = sorted({*table.IN_BROKER, *library_loader.known(directory)})
    own = [
        (function, library)
        for library in libraries
        for function in library_loader.functions_of(library, directory)
    ]
    return {"libraries": libraries, "functions": [*shipped, *own]}


class ReflexesPage(ListPage):
    """All reflexes in their order, those of the file of the broker first, with their current status."""

    subject = REFLEXES
    #: they are shown in the order in which they are asked
    sortable = ()

    def get(self, request: HttpRequest) -> HttpResponse:
        found, self.unknown = all_reflexes(request)
        self.known = {row["name"]: row for row in found["items"]} if found else {}
        return super().get(request)

    def specs(self) -> Mapping[str, Spec]:
        own = super().specs()
        of_files = {name: {"comment": "", **row} for name, row in self.known.items() if row["origin"]}
        specs = {**of_files, **own}
        return {key: {**spec, "number": number} for number, (key, spec) in enumerate(specs.items(), 1)}

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        status = self.known.get(key)
        return {
            "key": key,
            "spec": spec,
            "kind": KINDS[spec["kind"]],
            "options": shown_options(spec["options"]),
            "reflex": shown_reflex(status) if status else None,
        }

    def extra_context(self, specs: Any) -> dict[str, object]:
        return {"unknown": self.unknown}


class _Tried(EditPage):
    """An editor that tries the reflex in it with the stored messages of a destination."""

    subject = REFLEXES

    def post(self, request: HttpRequest) -> HttpResponse:
        if request.POST.get("operation") != "test":
            return super().post(request)
        form = self.sent(request)
        if not form.is_valid():
            return self.show(request, form)
        return self.show(request, form, **stored_trial(request, draft=form.spec()))

    def show(self, request: HttpRequest, form: ResourceForm, **more: Any) -> HttpResponse:
        suggested = destination_for(form["service"].value() or "")
        return super().show(request, form, **{"stored_destination": suggested, **more})

    def page_context(self, request: HttpRequest) -> dict[str, object]:
        return {**super().page_context(request), **choices()}

    def saved(self, form: ResourceForm) -> HttpResponse:
        return redirect(page_of(form.resource_key()))


class AddReflex(_Tried, AddPage):
    """Add a reflex."""


class EditReflex(_Tried):
    """Edit a reflex."""


class RemoveReflex(RemovePage):
    subject = REFLEXES


def page_of(key: str) -> str:
    """The page of one reflex."""
    return f"{reverse('console:reflex')}?{urlencode({'name': key})}"
