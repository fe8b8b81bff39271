"""Pages of brokers."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy

from broker_app import config
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.resource_types import Spec

_SETTING = "setting_"

NAMES_OF_COLOURS = {
    "": gettext_lazy("plain"),
    "green": gettext_lazy("green"),
    "blue": gettext_lazy("blue"),
    "violet": gettext_lazy("violet"),
    "amber": gettext_lazy("amber"),
    "red": gettext_lazy("red"),
}


class BrokerForm(ResourceForm):
    """A form with one field per setting that can be overridden at run time; empty: not overridden."""

    kind = "brokers"

    environment = forms.CharField(
        required=False,
        max_length=40,
        label=gettext_lazy("Environment"),
        help_text=gettext_lazy('Such as "production"; shown at the top of every page.'),
    )
    colour = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Colour"),
        choices=NAMES_OF_COLOURS.items(),
        help_text=gettext_lazy("The colour of the broker's name at the top of every page."),
    )
    endpoints = LinesField(
        label=gettext_lazy("Endpoints"),
        help_text=gettext_lazy("Addresses for clients, one per line: stomp://host:61613"),
    )
    comment = forms.CharField(
        required=False, label=gettext_lazy("Comment"), widget=forms.Textarea(attrs={"rows": 2})
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        spec = self.initial.get("settings", {})
        for setting in config.settings():
            if setting.rule.reloadable:
                name = _SETTING + setting.name
                self.fields[name] = _field(setting)
                self.initial[name] = spec.get(setting.name)

    def spec(self) -> Spec:
        spec = super().spec()
        chosen = {
            name.removeprefix(_SETTING): spec.pop(name) for name in list(spec) if name.startswith(_SETTING)
        }
        return {**spec, "settings": {name: value for name, value in chosen.items() if value is not None}}

    def field_of(self, pointer: str) -> str:
        return pointer.replace("settings/", _SETTING)


def _field(setting: config.Setting) -> forms.Field:
    unit = f" [{setting.rule.unit}]" if setting.rule.unit else ""
    started = getattr(settings.MOM, setting.name)
    what: dict[str, Any] = {
        "required": False,
        "label": setting.name.replace("_", " ").capitalize() + unit,
        "help_text": f"{setting.rule.about}; this broker was started with {started}",
    }
    if setting.rule.choices:
        choices = [("", "(as it was started)"), *((choice, choice) for choice in setting.rule.choices)]
        return forms.TypedChoiceField(choices=choices, empty_value=None, **what)
    if setting.type == "str":
        return forms.CharField(empty_value=None, **what)
    return forms.IntegerField(**what) if setting.type == "int" else forms.FloatField(**what)


BROKERS = ResourcePages(
    kind="brokers",
    title=gettext_lazy("Brokers"),
    about=gettext_lazy(
        "The brokers of this installation: their addresses for clients, and "
        "settings that can be changed while they run."
    ),
    adds=gettext_lazy("Add a broker"),
    none=gettext_lazy("There are no brokers yet."),
    command="mom broker create west comment='the data centre in the west'",
    form=BrokerForm,
    columns={
        "environment": gettext_lazy("environment"),
        "endpoints": gettext_lazy("endpoints"),
        "settings": gettext_lazy("settings"),
        "comment": gettext_lazy("comment"),
    },
)


class BrokersPage(ListPage):
    subject = BROKERS


class AddBroker(AddPage):
    subject = BROKERS


class EditBroker(EditPage):
    subject = BROKERS


class RemoveBroker(RemovePage):
    subject = BROKERS
