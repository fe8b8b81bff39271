"""Pages of bridges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from broker_app.base.durations import since
from broker_app.features.bridge.remote import MEMBERS
from broker_app.net.rest.features.bridge_status import (
    ForwardingStatus,
)
from broker_app.web.actions import ChangeResult
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField, member_field
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.console.configuration import watch_of
from broker_app.web.console.forwarding.bridge_status import all_bridges, shown_bridge
from broker_app.web.files import shown_error
from broker_app.web.resource_types import Spec
from broker_app.web.resource_types.bridges import DEFAULTS, PORTS
from broker_app.zero.writer import connection

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

_PORTS = ", ".join(f"{port} with {name}" for name, port in PORTS.items())

#: fields of the form after the others
_LAST = ("paused_queues", "comment", "version", "reason")


class BridgeForm(ResourceForm):
    kind = "bridges"
    hidden = frozenset({"password"})

    hostname = forms.CharField(label=_("Host"), help_text=_("name or address of the remote broker"))
    port = forms.IntegerField(
        label=_("Port"),
        required=False,
        help_text=format_lazy(_("port on which it listens; empty: {ports}"), ports=_PORTS),
    )
    protocol = forms.ChoiceField(label=_("Protocol"), choices=[(name, name) for name in PORTS])
    path = forms.CharField(
        label=_("Path"), initial="/ws", help_text=_("path of the WebSocket, for ws and wss")
    )
    host = forms.CharField(
        label=_("Virtual host"), initial="/", help_text=_("virtual host of the remote broker, usually /")
    )
    user = forms.CharField(label=_("User"), required=False, help_text=_("user that the bridge logs in as"))
    password = forms.CharField(
        label=_("Password"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("password of that user; empty keeps the current one. It is never shown."),
    )
    ca_file = forms.CharField(
        label=_("CA file"),
        required=False,
        help_text=_(
            "certificate authorities that are trusted for its certificate; "
            "empty: those of the operating system"
        ),
    )
    paused_queues = LinesField(
        label=_("Paused queues"), help_text=_("remote queues that are paused on their own, one per line")
    )
    comment = forms.CharField(label=_("Comment"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for name, (member, default) in MEMBERS.items():
            self.fields[name] = member_field(member, default)
        self.order_fields([*(name for name in self.fields if name not in _LAST), *_LAST])
        if self.key is None:
            self.initial.pop("port", None)  # the default follows from the protocol

    def spec(self) -> Spec:
        spec = super().spec()
        if spec["port"] is None:
            del spec["port"]
        return spec


BRIDGES = ResourcePages(
    kind="bridges",
    title=_("Bridges"),
    about=_("Connections to remote brokers. Queues named storeAndForward:… are forwarded over them."),
    adds=_("New bridge"),
    none=_(
        "There are no bridges yet. A bridge forwards messages to another broker, in order and exactly once, "
        "and keeps them here while that broker is unavailable."
    ),
    command="mom bridge create dc-west hostname=west.example.org protocol=stomps user=east",
    form=BridgeForm,
    columns={
        "protocol": "protocol",
        "hostname": "host",
        "port": "port",
        "user": "user",
        "desired": "desired",
        "comment": "comment",
    },
    list_template="console/bridges.html",
)


class BridgesPage(ListPage):
    """The list of bridges with their current status."""

    subject = BRIDGES

    def get(self, request: HttpRequest) -> HttpResponse:
        self.found, self.unknown = all_bridges(request)
        self.known = {row["name"]: row for row in self.found["bridges"]} if self.found else {}
        return super().get(request)

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        standing = self.known.get(key)
        return {"key": key, "spec": spec, "bridge": shown_bridge(standing) if standing else None}

    def extra_context(self, specs: Mapping[str, Spec]) -> dict[str, object]:
        found: ForwardingStatus = self.found or {"bridges": [], "orphans": [], "incoming": []}
        watch = watch_of(self.request)
        incoming = [{**mark, "ago": since(mark["at"])} for mark in found["incoming"]]
        return {
            "orphans": [
                {**orphan, "queue_here": orphan["source"].removeprefix("/queue/")}
                for orphan in found["orphans"]
            ],
            "incoming": incoming,
            "unknown": self.unknown,
            "file_errors": [shown_error(error) for error in watch.errors] if watch is not None else [],
        }


class FormStep(NamedTuple):
    """A step of the form for a new bridge with its fields; `more` are fields whose defaults are usually
    right."""

    name: str
    title: StrPromise
    about: StrPromise
    fields: Sequence[str] = ()
    more: Sequence[str] = ()


STEPS = (
    FormStep(
        "name", _("Name"), _("Messages sent to /bridge/NAME/QUEUE are forwarded "
                             "over the bridge of that name."),
        ("name", "comment"),
    ),
    FormStep(
        "where", _("Address"), _("The remote broker: MOM, or any broker that supports STOMP 1.2."),
        ("protocol", "hostname", "port"), ("host", "path", "ca_file"),
    ),
    FormStep(
        "login", _("Log in"), _("A user of the remote broker. The password is stored here and never shown."),
        ("user", "password"),
    ),
    FormStep(
        "test", _("Test"),
        _("Tests host name, connection, login and permissions, step by step. Nothing is sent or saved."),
    ),
    FormStep(
        "save", _("Preview"), _("The effect of saving, and the same bridge as text "
                                "for a configuration file."), (),
        (*MEMBERS, "paused_queues"),
    ),
)  # fmt: skip


class AddBridge(AddPage):
    """Add a bridge step by step: name, address, login, test, preview. Only the last step saves."""

    subject = replace(BRIDGES, edit_template="console/bridge_new.html")

    def show(self, request: HttpRequest, form: ResourceForm, **extra_context: Any) -> HttpResponse:
        steps = [
            {
                **step._asdict(),
                "fields": [form[name] for name in step.fields],
                "more": [form[name] for name in step.more],
            }
            for step in STEPS
        ]
        return super().show(request, form, steps=steps, **extra_context)

    def preview_context(self, request: HttpRequest, outcome: ChangeResult) -> dict[str, object]:
        made = outcome.changed[0]
        spec = made.after or {}
        # The port follows from the protocol, which itself is only left out where it is the usual one.
        usual = BRIDGES.of.complete(made.key, {"protocol": spec.get("protocol")}, None)
        text = connection(made.key, spec, {**usual, "protocol": DEFAULTS["protocol"]})
        return {**super().preview_context(request, outcome), "file_text": text}

    def saved(self, form: ResourceForm) -> HttpResponse:
        return redirect(address_of(form.resource_key()))


class EditBridge(EditPage):
    subject = BRIDGES

    def saved(self, form: ResourceForm) -> HttpResponse:
        return redirect(address_of(form.resource_key()))


class RemoveBridge(RemovePage):
    subject = BRIDGES


def address_of(key: str) -> str:
    """The page of one bridge."""
    return f"{reverse('console:bridge')}?{urlencode({'name': key})}"
