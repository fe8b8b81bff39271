"""Pages that add or change one resource, with a preview of the effect."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker_app.models import ChangedObject, Entry
from broker_app.web.actions import ChangeResult, Conflict, Edit, InvalidEdits, Stale, apply, version_of
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import between, difference
from broker_app.web.console.base.labels import title_of
from broker_app.web.console.base.resource_form import ResourceForm, defaults_of
from broker_app.web.console.base.resource_page import ResourceView, changes_of, report
from broker_app.web.resource_types import Spec


class EditPage(ResourceView):
    """Edit an existing resource, named in the address."""

    adds = False

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request, self.blank(request))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.sent(request)
        if not form.is_valid():
            return self.show(request, form)
        edits = form.edits()
        preview = request.POST.get("operation") != "save"
        try:
            outcome = apply(actor_of(request, form.cleaned_data["reason"]), edits, dry_run=preview)
        except ValidationError as fault:
            form.show_faults(fault)
        except (Conflict, InvalidEdits) as refusal:
            form.add_error(None, str(refusal))
        except Stale as stale:
            return self.conflict(request, form, edits[0], stale.version)
        else:
            if preview:
                return self.show(request, form, **self.preview_context(request, outcome))
            report(request, outcome, title_of(self.subject.kind, form.resource_key()))
            return self.saved(form)
        return self.show(request, form)

    def saved(self, form: ResourceForm) -> HttpResponse:
        """The redirect after saving."""
        return redirect(self.subject.address)

    def blank(self, request: HttpRequest) -> ResourceForm:
        """The form for a GET."""
        key, spec = self.resource(request)
        return self.subject.form(key=key, spec=spec, version=version_of(self.subject.kind, key))

    def sent(self, request: HttpRequest) -> ResourceForm:
        return self.subject.form(request.POST, key=self.resource(request)[0])

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        """The context of the preview for the outcome of a dry run."""
        return {
            "previewed": True,
            "differences": [difference(changed) for changed in outcome.changed],
            "warnings": outcome.warnings(),
        }

    def conflict(self, request: HttpRequest, form: ResourceForm, edit: Edit, version: int) -> HttpResponse:
        """Show a conflict: the author of the other change, and the current values next to the submitted
        ones."""
        kind, key = self.subject.of, edit.key
        spec: Spec = kind.read([key]).get(key, {})
        last = ChangedObject.objects.filter(kind=kind.name, key=key).select_related("change").last()
        form.replace(version)
        return self.show(
            request,
            form,
            conflict=last.change if last is not None else None,
            comparison=between(self.subject.kind, spec, {**spec, **(edit.spec or {})}),
        )

    def show(self, request: HttpRequest, form: ResourceForm, **more: Any) -> HttpResponse:
        context = {"subject": self.subject, "form": form, **self.page_context(request), **more}
        return render(request, self.subject.edit_template, context)

    def page_context(self, request: HttpRequest) -> dict[str, object]:
        """The context of the page apart from the form."""
        key, _spec = self.resource(request)
        return {
            "key": key,
            "entry": Entry.objects.filter(kind=self.subject.kind, key=key).first(),
            "changes": changes_of(self.subject.kind, key),
        }


class AddPage(EditPage):
    """Add a new resource."""

    def blank(self, request: HttpRequest) -> ResourceForm:
        """The form for a GET; the query may fill in fields: `?conditions=…&users=john`."""
        given = self.subject.form(request.GET)
        given.is_valid()
        chosen = {name: given.cleaned_data[name] for name in request.GET if name in given.cleaned_data}
        return self.subject.form(spec={**defaults_of(self.subject.kind), **chosen})

    def sent(self, request: HttpRequest) -> ResourceForm:
        return self.subject.form(request.POST)

    def conflict(self, request: HttpRequest, form: ResourceForm, edit: Edit, version: int) -> HttpResponse:
        form.add_error(
            "name",
            _("This name is taken: a %(one)s named %(name)s already exists.")
            % {"one": self.subject.one, "name": edit.key},
        )
        return self.show(request, form)

    def page_context(self, request: HttpRequest) -> dict[str, object]:
        return {"adds": True}
