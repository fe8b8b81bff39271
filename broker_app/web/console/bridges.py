"""Pages of bridges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse

from broker_app.remote import DESIRED
from broker_app.spans import since
from broker_app.web.console.configuration import watch_of
from broker_app.web.console.editing import AddPage, EditPage
from broker_app.web.console.fields import Lines
from broker_app.web.console.listing import ListPage
from broker_app.web.console.removing import RemovePage
from broker_app.web.console.standing import all_bridges, shown_bridge
from broker_app.web.console.subject import Subject
from broker_app.web.console.thing_form import ThingForm
from broker_app.web.files import shown_error
from broker_app.web.kinds import Said
from broker_app.web.kinds.bridges import PORTS

_PORTS = ", ".join(f"{port} with {name}" for name, port in PORTS.items())


class BridgeForm(ThingForm):
    kind = "bridges"
    hidden = frozenset({"password"})

    hostname = forms.CharField(label="Host", help_text="name or address of the remote broker")
    port = forms.IntegerField(required=False, help_text=f"on which it listens; empty: {_PORTS}")
    protocol = forms.ChoiceField(choices=[(name, name) for name in PORTS])
    path = forms.CharField(initial="/ws", help_text="of the WebSocket, for ws and wss")
    host = forms.CharField(label="Virtual host", initial="/", help_text="there; / is the usual one")
    user = forms.CharField(required=False, help_text="by which the bridge logs in there")
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="of that user; empty leaves the one there is. It is never shown.",
    )
    ca_file = forms.CharField(
        label="CA file",
        required=False,
        help_text="of authorities that may have signed its certificate; empty: whom this machine trusts",
    )
    desired = forms.ChoiceField(
        choices=[(name, name) for name in DESIRED],
        help_text="draining takes no new messages, forwards what is there, and is paused then",
    )
    paused_queues = Lines(help_text="remote queues that are paused alone, one a line")
    retry_s = forms.FloatField(label="Retry", help_text="seconds between two tries to connect")
    idle_s = forms.FloatField(label="Idle", help_text="seconds without a message after which it disconnects")
    scan_s = forms.FloatField(label="Scan", help_text="seconds between two looks for what was missed")
    stalled_s = forms.FloatField(
        label="Stalled", help_text="seconds without an answer while messages wait; then it connects anew"
    )
    window = forms.IntegerField(help_text="messages that may be on their way unanswered, of one queue")
    park_after = forms.IntegerField(help_text="refusals of a message after which it is parked; 0 is never")
    comment = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.key is None:
            self.initial.pop("port", None)  # it follows from the protocol

    def said(self) -> Said:
        said = super().said()
        if said["port"] is None:
            del said["port"]
        return said


BRIDGES = Subject(
    kind="bridges",
    title="Bridges",
    about="Connections to remote brokers, over which queues named storeAndForward:… are emptied.",
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


class Bridges(ListPage):
    """The list, with how each stands at this moment."""

    subject = BRIDGES

    def get(self, request: HttpRequest) -> HttpResponse:
        self.found, self.unknown = all_bridges(request)
        self.known = {row["name"]: row for row in self.found["bridges"]} if self.found else {}
        return super().get(request)

    def row(self, key: str, said: Said) -> dict[str, Any]:
        standing = self.known.get(key)
        return {"key": key, "said": said, "bridge": shown_bridge(standing) if standing else None}

    def more(self, everything: Mapping[str, Said]) -> dict[str, Any]:
        found = self.found or {"orphans": [], "incoming": []}
        watch = watch_of(self.request)
        incoming = [{**mark, "ago": since(mark["at"])} for mark in found["incoming"]]
        return {
            "orphans": found["orphans"],
            "incoming": incoming,
            "unknown": self.unknown,
            "file_errors": [shown_error(error) for error in watch.errors] if watch is not None else [],
        }


class AddBridge(AddPage):
    subject = BRIDGES


class EditBridge(EditPage):
    subject = BRIDGES


class RemoveBridge(RemovePage):
    subject = BRIDGES
