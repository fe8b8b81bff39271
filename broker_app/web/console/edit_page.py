"""The pages on which one thing is added or changed. Previewing shows what saving would do."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker_app.models import ChangedObject, Entry
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Outcome, Stale, apply, version_of
from broker_app.web.actor import by
from broker_app.web.console.differences import between, difference
from broker_app.web.console.labels import thing
from broker_app.web.console.resource_form import ThingForm, defaults_of
from broker_app.web.console.resource_page import SubjectPage, changes_of, tell
from broker_app.web.resource_types import Said


class EditPage(SubjectPage):
    """A thing that is there, named in the address."""

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
            outcome = apply(by(request, form.cleaned_data["reason"]), edits, dry_run=preview)
        except ValidationError as fault:
            form.show_faults(fault)
        except (Conflict, InvalidEdits) as refusal:
            form.add_error(None, str(refusal))
        except Stale as stale:
            return self.overtaken(request, form, edits[0], stale.version)
        else:
            if preview:
                return self.show(request, form, **self.foreseen(request, outcome))
            tell(request, outcome, thing(self.subject.kind, form.thing()))
            return self.saved(form)
        return self.show(request, form)

    def saved(self, form: ThingForm) -> HttpResponse:
        """Where one goes on when it is saved."""
        return redirect(self.subject.address)

    def blank(self, request: HttpRequest) -> ThingForm:
        """The form before anything is typed in."""
        key, said = self.thing(request)
        return self.subject.form(key=key, said=said, version=version_of(self.subject.kind, key))

    def sent(self, request: HttpRequest) -> ThingForm:
        return self.subject.form(request.POST, key=self.thing(request)[0])

    def foreseen(self, request: HttpRequest, outcome: Outcome) -> dict[str, Any]:
        """What the preview shows of an outcome that is not yet."""
        return {
            "previewed": True,
            "differences": [difference(changed) for changed in outcome.changed],
            "warnings": outcome.warnings(),
        }

    def overtaken(self, request: HttpRequest, form: ThingForm, edit: Edit, version: int) -> HttpResponse:
        """It was changed meanwhile: by whom, and what it says now beside what was typed in."""
        kind, key = self.subject.of, edit.key
        said: Said = kind.read([key]).get(key, {})
        last = ChangedObject.objects.filter(kind=kind.name, key=key).select_related("change").last()
        form.replace(version)
        return self.show(
            request,
            form,
            overtaken=last.change if last is not None else None,
            beside=between(said, {**said, **(edit.said or {})}),
        )

    def show(self, request: HttpRequest, form: ThingForm, **more: Any) -> HttpResponse:
        context = {"subject": self.subject, "form": form, **self.around(request), **more}
        return render(request, self.subject.edit_template, context)

    def around(self, request: HttpRequest) -> dict[str, Any]:
        """What the page tells beside the form."""
        key, _said = self.thing(request)
        return {
            "key": key,
            "entry": Entry.objects.filter(kind=self.subject.kind, key=key).first(),
            "changes": changes_of(self.subject.kind, key),
        }


class AddPage(EditPage):
    """A thing that is to be."""

    def blank(self, request: HttpRequest) -> ThingForm:
        """Fields can be filled in by the address: `?conditions=…&users=john`."""
        given = self.subject.form(request.GET)
        given.is_valid()
        chosen = {name: given.cleaned_data[name] for name in request.GET if name in given.cleaned_data}
        return self.subject.form(said={**defaults_of(self.subject.kind), **chosen})

    def sent(self, request: HttpRequest) -> ThingForm:
        return self.subject.form(request.POST)

    def overtaken(self, request: HttpRequest, form: ThingForm, edit: Edit, version: int) -> HttpResponse:
        form.add_error(
            "name",
            _("This name is taken: a %(one)s named %(name)s already exists.")
            % {"one": self.subject.one, "name": edit.key},
        )
        return self.show(request, form)

    def around(self, request: HttpRequest) -> dict[str, Any]:
        return {"adds": True}
