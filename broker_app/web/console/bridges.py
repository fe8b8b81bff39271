"""Pages of bridges."""

from __future__ import annotations

from django import forms

from broker_app.web.console.editing import AddPage, EditPage
from broker_app.web.console.listing import ListPage
from broker_app.web.console.removing import RemovePage
from broker_app.web.console.subject import Subject
from broker_app.web.console.thing_form import ThingForm
from broker_app.web.kinds.bridges import PROTOCOLS


class BridgeForm(ThingForm):
    kind = "bridges"
    hidden = frozenset({"password"})

    hostname = forms.CharField(label="Host", help_text="name or address of the remote broker")
    port = forms.IntegerField(help_text="on which it listens")
    protocol = forms.ChoiceField(choices=[(name, name) for name in PROTOCOLS])
    user = forms.CharField(required=False, help_text="by which the bridge logs in there")
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="of that user; empty leaves the one there is. It is never shown.",
    )
    retry_s = forms.FloatField(label="Retry", help_text="seconds between two tries to connect")
    idle_s = forms.FloatField(label="Idle", help_text="seconds without a message after which it disconnects")
    scan_s = forms.FloatField(label="Scan", help_text="seconds between two looks for new queues")
    park_after = forms.IntegerField(help_text="refusals of a message after which it is parked; 0 is never")
    paused = forms.BooleanField(required=False, help_text="forwards nothing until it is resumed")
    comment = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 2}))


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
        "paused": "paused",
        "comment": "comment",
    },
)


class Bridges(ListPage):
    subject = BRIDGES


class AddBridge(AddPage):
    subject = BRIDGES


class EditBridge(EditPage):
    subject = BRIDGES


class RemoveBridge(RemovePage):
    subject = BRIDGES
