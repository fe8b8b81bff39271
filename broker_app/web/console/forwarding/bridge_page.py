"""The page of one bridge: its status, its events and its actions."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from broker_app.base.audit_actions import BRIDGE_RETRIED, BRIDGE_TESTED, QUEUE_REMOVED
from broker_app.features.bridge.connection_test import LONGEST_S
from broker_app.features.bridge.pipe_reports import (
    Orphan,
)
from broker_app.features.bridge.remote import DRAINING, PAUSED, RUNNING, Remote
from broker_app.models import Entry
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Stale, apply, audit
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage, in_production
from broker_app.web.console.base.resource_page import ResourceView, report
from broker_app.web.console.forwarding.bridge_status import (
    NO_NODE,
    all_bridges,
    one_bridge,
    shown_bridge,
    shown_events,
)
from broker_app.web.console.forwarding.bridges import BRIDGES, address_of
from broker_app.web.policy_sync import answer_of
from broker_app.web.resource_types import Spec
from broker_app.web.resource_types.bridges import whole

#: operations that change the desired state of a whole bridge
_DESIRED = {"pause": PAUSED, "resume": RUNNING, "drain": DRAINING}


class BridgePage(ResourceView):
    """The status of one bridge."""

    subject = BRIDGES

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def show(self, request: HttpRequest, **more: Any) -> HttpResponse:
        key, spec = self.resource(request)
        found, unknown = one_bridge(request, key)
        context = {
            "subject": self.subject,
            "key": key,
            "spec": spec,
            "entry": Entry.objects.filter(kind=self.subject.kind, key=key).first(),
            "bridge": shown_bridge(found[0]) if found else None,
            "events": shown_events(found[1]) if found else [],
            "unknown": unknown,
            **more,
        }
        return render(request, "console/bridge.html", context)


class TestPage(BridgePage):
    """Test the connection, and show the result of each step."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return redirect(address_of(self.resource(request)[0]))

    def post(self, request: HttpRequest) -> HttpResponse:
        key, spec = self.resource(request)
        queue = request.POST.get("queue", "").strip()
        found = whole(key)
        remote = Remote.of(key, spec, found[1].get("password", "") if found else "")
        trial, fault = answer_of(
            request, lambda node: node.operations.test_remote(remote, queue or None), NO_NODE, LONGEST_S + 5
        )
        if trial is None:
            return self.show(request, fault=fault)
        tested = audit.Action.of(
            BRIDGE_TESTED, key, address=remote.address, queue=queue or None, ok=trial["ok"]
        )
        audit.record(actor_of(request), tested)
        return self.show(request, trial=trial, tested_queue=queue)


class ControlPage(ResourceView):
    """Pause, resume, drain or retry a bridge, or one of its flows."""

    subject = BRIDGES

    def post(self, request: HttpRequest) -> HttpResponse:
        key, spec = self.resource(request)
        operation, queue = request.POST.get("operation", ""), request.POST.get("queue", "")
        if operation == "retry":
            self.retry(request, key, queue)
        elif (changed_spec := _spec_after(spec, operation, queue)) is not None:
            try:
                edit = Edit(self.subject.kind, key, changed_spec)
                report(
                    request,
                    apply(actor_of(request, request.POST.get("reason", "")), [edit]),
                    _("Bridge %s") % key,
                )
            except (Conflict, InvalidEdits, Stale, ValidationError) as fault:
                messages.error(request, _("No changes were made: %s") % in_a_sentence(fault))
        return redirect(address_of(key))

    def retry(self, request: HttpRequest, key: str, queue: str) -> None:
        _done, fault = answer_of(
            request, lambda node: node.operations.retry_bridge(key, queue or None), NO_NODE
        )
        if fault:
            messages.error(request, fault)
            return
        audit.record(actor_of(request), audit.Action.of(BRIDGE_RETRIED, key, queue=queue or None))
        messages.success(request, _("The bridge is retrying now."))


class ClonePage(ResourceView):
    """Create a copy of a bridge with its credentials. It is paused until it was edited."""

    subject = BRIDGES

    def post(self, request: HttpRequest) -> HttpResponse:
        key, _spec = self.resource(request)
        found, new = whole(key), request.POST.get("new", "").strip()
        assert found is not None, "it is there"
        spec, secrets = found
        try:
            # The copy forwards nothing until it was edited and resumed.
            edit = Edit(self.subject.kind, new, {**spec, "desired": PAUSED}, 0, secrets)
            report(request, apply(actor_of(request), [edit]), _("Bridge %s") % new)
        except (Conflict, InvalidEdits, ValidationError) as fault:
            messages.error(request, _("The bridge was not created: %s") % in_a_sentence(fault))
            return redirect(address_of(key))
        except Stale:
            messages.error(request, _("The bridge was not created: a bridge named %s already exists.") % new)
            return redirect(address_of(key))
        return redirect(f"{self.subject.edit_address}?{urlencode({'name': new})}")


class RemoveOrphanPage(AdministratorsPage):
    """Remove a store-and-forward queue without a bridge, with its messages."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        orphan = self.orphan(request)
        if in_production() and request.POST.get("typed", "").strip() != orphan["queue"]:
            return self.show(
                request, _("This is a production environment: type the name of the queue to remove it.")
            )
        _done, fault = answer_of(
            request, lambda node: node.operations.delete_queue(orphan["source"], force=True), NO_NODE
        )
        if fault:
            return self.show(request, str(fault))
        reason = request.POST.get("reason", "")
        audit.record(actor_of(request, reason), audit.Action.of(QUEUE_REMOVED, orphan["source"]))
        messages.success(request, _("The queue %s was removed.") % orphan["source"])
        return redirect(BRIDGES.address)

    def orphan(self, request: HttpRequest) -> Orphan:
        """The queue named by `source` in the address. Raises Http404."""
        found = all_bridges(request)[0]
        source = request.GET.get("source", "")
        for orphan in found["orphans"] if found else ():
            if orphan["source"] == source:
                return orphan
        raise Http404(f"No queue {source[:120]} is without a bridge.")

    def show(self, request: HttpRequest, fault: str = "") -> HttpResponse:
        orphan = self.orphan(request)
        context = {"orphan": orphan, "fault": fault, "type_name": in_production(), "subject": BRIDGES}
        return render(request, "console/orphan_remove.html", context)


def _spec_after(spec: Spec, operation: str, queue: str) -> Spec | None:
    """The spec of a bridge after an operation; None for an unknown operation."""
    if not queue:
        return {**spec, "desired": _DESIRED[operation]} if operation in _DESIRED else None
    paused = [name for name in spec["paused_queues"] if name != queue]
    if operation == "pause":
        return {**spec, "paused_queues": [*paused, queue]}
    return {**spec, "paused_queues": paused} if operation == "resume" else None
