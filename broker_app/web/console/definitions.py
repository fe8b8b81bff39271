"""Pages of definitions: download the whole configuration as one file, plan an upload, apply it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from broker_app.web import definitions
from broker_app.web.actions import Conflict, Stale
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import difference, in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.base.impact_preview import impact_of
from broker_app.web.console.base.labels import done as done_in_words
from broker_app.web.console.versions import whole

#: maximum size of a form in bytes
MAX_BYTES = 900 * 1024
_DRAWN = 200


class DefinitionsPage(AdministratorsPage):
    """A POST with a file shows its plan; a POST with the content of a plan applies it."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            content = _content(request)
            document = _document(content)
            prune = "prune" in request.POST
            if request.POST.get("operation") == "apply":
                return self.carried_out(request, document, prune)
            plan = definitions.plan(actor_of(request), document, prune=prune)
        except definitions.InvalidDocument as invalid:
            return self.show(request, faults=invalid.faults[:50])
        except Stale:
            plan = definitions.plan(actor_of(request), document, prune=prune)
            context = {
                "fault": _(
                    "The configuration has changed in the meantime. Below is what applying would change now."
                )
            }
            return self.planned(request, content, plan, prune, **context)
        except (Conflict, ValidationError) as refusal:
            return self.show(request, fault=in_a_sentence(refusal))
        return self.planned(request, content, plan, prune)

    def carried_out(self, request: HttpRequest, document: definitions.Document, prune: bool) -> HttpResponse:
        actor = actor_of(request, request.POST.get("reason", ""))
        done = definitions.apply(actor, document, prune=prune, expected=whole(request.POST, "expected"))
        if not done.changes:
            messages.info(request, _("The configuration already matches: no changes were made."))
            return redirect("console:definitions")
        version = done.version + 1
        count = len(done.changes)
        text = ngettext(
            "The definitions were applied: %(count)d change.",
            "The definitions were applied: %(count)d changes.",
            count,
        )
        messages.success(request, text % {"count": count}, extra_tags=str(version))
        return redirect("console:versions")

    def planned(
        self, request: HttpRequest, content: bytes, plan: definitions.ImportPlan, prune: bool, **more: Any
    ) -> HttpResponse:
        counts = [
            (done_in_words(action), sum(one.action == action for one in plan.changes))
            for action in ("created", "changed", "removed")
        ]
        return self.show(
            request,
            plan=plan,
            counts=counts,
            prune=prune,
            document=content.decode(),
            **impact_of(request, plan.changes),
            differences=[difference(one) for one in plan.changes[:_DRAWN]],
            undrawn=max(0, len(plan.changes) - _DRAWN),
            **more,
        )

    def show(self, request: HttpRequest, **context: Any) -> HttpResponse:
        return render(request, "console/definitions.html", context)


class DownloadPage(AdministratorsPage):
    """The whole configuration as a file."""

    def get(self, request: HttpRequest, form: str) -> HttpResponse:
        write = definitions.to_yaml if form == "yaml" else definitions.to_json
        reply = HttpResponse(write(definitions.export()), content_type=f"application/{form}")
        name = f"definitions-{timezone.now():%Y%m%d-%H%M%S}.{form}"
        reply["Content-Disposition"] = f'attachment; filename="{name}"'
        return reply


def _content(request: HttpRequest) -> bytes:
    """The uploaded content, or the content sent back with the plan. Raises InvalidDocument."""
    file = request.FILES.get("file")
    content = file.read(MAX_BYTES + 1) if file is not None else request.POST.get("document", "").encode()
    if not content.strip():
        raise definitions.InvalidDocument(
            definitions.Fault("", _("no file was chosen, or the file is empty"))
        )
    if len(content) > MAX_BYTES:
        detail = _("the file is larger than %(most)d KiB; use `mom definitions import` for it")
        detail %= {"most": MAX_BYTES // 1024}
        raise definitions.InvalidDocument(definitions.Fault("", detail))
    return content


def _document(content: bytes) -> definitions.Document:
    """Parse the content: JSON if it begins with a brace, else YAML. Raises InvalidDocument."""
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return definitions.from_json(content)
    return definitions.from_yaml(content)
