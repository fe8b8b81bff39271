"""The settings of a destination as a form and as JSON: effective values, sources, preview of changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext as translated
from django.utils.translation import gettext_lazy

from broker_app.core.destination import DEAD_SUFFIX
from broker_app.core.policy import (
    ALL,
    BROKER,
    CLUSTER,
    CONSUMERS,
    FLOW_CONTROL,
    NONE,
    PRODUCERS,
    REJECT_NEWEST,
    REMOVE_LOW_PRIORITY,
    REMOVE_OLDEST,
)
from broker_app.models import ChangedObject, Entry
from broker_app.net.policy.destination_settings import (
    DEFAULT,
    EVERYTHING,
    NODE,
    OWN,
    SETTINGS,
    Setting,
    is_pattern,
)
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Stale, apply, version_of
from broker_app.web.actor import actor_of
from broker_app.web.console.base.differences import between, difference
from broker_app.web.console.base.field_words import FieldWords
from broker_app.web.console.base.fields import CodeField
from broker_app.web.console.base.frame import is_administrator, sees_all
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import changes_of, report
from broker_app.web.console.queues.destination_patterns import settings_for

KIND = "destinations"
_UNSAID = "—"


class Group(NamedTuple):
    """Related settings, each with its label. `of` is the kind of destination that has them, "" for both."""

    title: str | Promise
    labels: Mapping[str, str | Promise]
    of: str = ""


GROUPS = (
    Group(
        gettext_lazy("Limits"),
        {
            "max_messages": gettext_lazy("Most messages"),
            "max_bytes": gettext_lazy("Most bytes"),
            "max_message_bytes": gettext_lazy("Bytes of a message"),
            "max_producers": gettext_lazy("Most producers"),
            "max_consumers": gettext_lazy("Most consumers"),
            "limit_behavior": gettext_lazy("At the limit"),
            "scope": gettext_lazy("Limits are of"),
        },
    ),
    Group(
        gettext_lazy("Delivery"),
        {
            "max_attempts": gettext_lazy("Attempts"),
            "retry_delay_s": gettext_lazy("Delay of a retry"),
            "retry_factor": gettext_lazy("Factor of further delays"),
            "max_retry_delay_s": gettext_lazy("Longest delay"),
            "slow_consumer_s": gettext_lazy("Time for slow consumers"),
            "paused": gettext_lazy("Paused"),
        },
    ),
    Group(
        gettext_lazy("Dead letters"),
        {
            "use_dead_letters": gettext_lazy("Keep dead letters"),
            "dead_letters": gettext_lazy("Queue of dead letters"),
            "dead_letter_expired": gettext_lazy("Expired messages too"),
        },
        "queue",
    ),
    Group(
        gettext_lazy("Message history"),
        {
            "retention_s": gettext_lazy("Time of the history"),
            "retention_bytes": gettext_lazy("Bytes of the history"),
        },
        "topic",
    ),
    Group(
        gettext_lazy("Duplicates and names"),
        {
            "dedup_window_s": gettext_lazy("Time of dedup-ids"),
            "auto_create": gettext_lazy("Create on first use"),
        },
    ),
    Group(
        gettext_lazy("Cluster"),
        {
            "prefer_local": gettext_lazy("Own consumers first"),
            "local_only": gettext_lazy("Own consumers only"),
        },
        "queue",
    ),
    Group(gettext_lazy("Cluster"), {"local_only": gettext_lazy("Own consumers only")}, "topic"),
)
LABELS = {name: label for group in GROUPS for name, label in group.labels.items()}
#: the words of settings that are one of some
CHOICES: Mapping[str, Mapping[str, str | Promise]] = {
    "limit_behavior": {
        FLOW_CONTROL: gettext_lazy("producers wait"),
        REJECT_NEWEST: gettext_lazy("the new message is refused"),
        REMOVE_OLDEST: gettext_lazy("the oldest message is removed"),
        REMOVE_LOW_PRIORITY: gettext_lazy("the message of the lowest priority is removed"),
    },
    "scope": {BROKER: gettext_lazy("each broker"), CLUSTER: gettext_lazy("all brokers together")},
    "paused": {
        NONE: gettext_lazy("nothing is paused"),
        PRODUCERS: gettext_lazy("producers"),
        CONSUMERS: gettext_lazy("consumers"),
        ALL: gettext_lazy("producers and consumers"),
    },
}
#: limits with a usage meter → the member of `usage` with the current value
METERS: Mapping[str, str] = {
    "max_messages": "messages",
    "max_bytes": "bytes",
    "max_producers": "producers",
    "max_consumers": "consumers",
}


class SettingsForm(ResourceForm):
    """A form with a field for each setting of a kind of `destination`, or of both. For empty ones a pattern,
    the node or the default applies."""

    kind: ClassVar[str] = KIND

    def __init__(self, data: Any = None, *, destination: str = "", **options: Any) -> None:
        super().__init__(data, **options)
        for setting in settings_of(destination):
            self.fields[setting.name] = _field(setting)
        self.order_fields([*(name for name in self.fields if name != "reason"), "reason"])

    def words_of(self, name: str, value: Any) -> str:
        """The words of a value, such as "no limit" for 0; empty if it has none."""
        if value == 0 and not isinstance(value, bool) and name in SETTINGS and SETTINGS[name].zero:
            return translated(SETTINGS[name].zero)
        return super().words_of(name, value)

    def spec(self) -> dict[str, object]:
        given = {name: self.cleaned_data[name] for name in SETTINGS if name in self.cleaned_data}
        return {name: value for name, value in given.items() if value not in (None, "")}


class JsonForm(ResourceForm):
    """The same settings as JSON text."""

    kind: ClassVar[str] = KIND
    text = CodeField(rows=14, label="JSON")

    def clean_text(self) -> dict[str, object]:
        try:
            spec = json.loads(self.cleaned_data["text"] or "{}")
        except ValueError as error:
            raise ValidationError(_("This is not valid JSON: %(error)s") % {"error": error}) from None
        if not isinstance(spec, dict):
            raise ValidationError(_('Enter a JSON object such as {"max_messages": 1000}.'))
        return spec

    def spec(self) -> dict[str, object]:
        found: dict[str, object] = self.cleaned_data["text"]
        return found

    def field_of(self, pointer: str) -> str:
        return "text"

    def show_faults(self, fault: ValidationError) -> None:
        if not hasattr(fault, "error_dict"):
            return self.add_error("text", fault.messages)
        for name, messages in fault.message_dict.items():
            self.add_error("text", [f"{name}: {text}" for text in messages])
        return None


class SettingRow(NamedTuple):
    """A setting as the page shows it: field, effective value, source; `place` is the address of the
    source."""

    setting: Setting
    field: Any
    value: str
    source: str
    place: str
    meter: str


class SettingsView:
    """The tab `settings` of one destination or pattern."""

    def __init__(self, request: HttpRequest, kind: str, name: str) -> None:
        self.request = request
        self.kind, self.name = kind, name
        self.address = f"/{kind}/{name}"
        self.as_json = request.GET.get("as") == "json"

    def shown(self) -> dict[str, object]:
        """The context of the page for a GET."""
        return self._drawn(self._blank())

    def sent(self) -> dict[str, object] | HttpResponse:
        """The context of the page for a submitted form, or a redirect when it was saved."""
        form = self._form(self.request.POST)
        if not form.is_valid():
            return self._drawn(form)
        edit = Edit(KIND, self.address, form.spec() or None, form.cleaned_data["version"] or 0)
        if edit.spec is None and not version_of(KIND, self.address):
            return self._drawn(form, previewed=True, differences=[])
        preview = self.request.POST.get("operation") != "save"
        try:
            outcome = apply(actor_of(self.request, form.cleaned_data["reason"]), [edit], dry_run=preview)
        except ValidationError as fault:
            form.show_faults(fault)
        except (Conflict, InvalidEdits) as refusal:
            form.add_error(None, str(refusal))
        except Stale as stale:
            return self._conflict(form, edit.spec or {}, stale.version)
        else:
            if preview:
                shown = [difference(changed) for changed in outcome.changed]
                return self._drawn(form, previewed=True, differences=shown)
            report(self.request, outcome, _("Configuration of %(name)s") % {"name": self.name})
            return redirect(f"{self.request.path}?{self.request.GET.urlencode()}")
        return self._drawn(form)

    def _conflict(self, form: ResourceForm, submitted: Mapping[str, Any], version: int) -> dict[str, object]:
        """Show a conflict: the author of the other change, and the current values next to the submitted
        ones."""
        last = ChangedObject.objects.filter(kind=KIND, key=self.address).select_related("change").last()
        form.replace(version)
        own = settings_for(self.kind, self.name).rows.get(self.address)
        return self._drawn(
            form,
            conflict=last.change if last is not None else None,
            comparison=between(KIND, dict(own.values) if own else {}, dict(submitted)),
        )

    # ------------------------------------------------------------------ forms

    def _form(self, data: Any = None, **options: Any) -> ResourceForm:
        if self.as_json:
            return JsonForm(data, key=self.address, **options)
        return SettingsForm(data, key=self.address, destination=self.kind, **options)

    def _blank(self) -> ResourceForm:
        own = settings_for(self.kind, self.name).rows.get(self.address)
        spec = dict(own.values) if own is not None else {}
        version = version_of(KIND, self.address)
        if self.as_json:
            text = json.dumps(spec, indent=2, ensure_ascii=False)
            return self._form(spec={"text": text}, version=version)
        return self._form(spec=spec, version=version)

    def _drawn(self, form: ResourceForm, **more: Any) -> dict[str, object]:
        origin = Entry.objects.filter(kind=KIND, key=self.address).values_list("origin", flat=True).first()
        base = {"name": self.name, "tab": "settings"}
        return {
            "form": form,
            "as_json": self.as_json,
            "groups": [] if self.as_json else self._groups(form),
            "form_address": f"{self.request.path}?{urlencode(base)}",
            "json_address": f"{self.request.path}?{urlencode({**base, 'as': 'json'})}",
            "origin": origin,
            "may_change": is_administrator(self.request) and not origin,
            "changes": changes_of(KIND, self.address) if sees_all(self.request) else [],
            **more,
        }

    def _groups(self, form: ResourceForm) -> list[tuple[str | Promise, list[SettingRow]]]:
        effective = settings_for(self.kind, self.name).effective(self.address)
        words = FieldWords(KIND)
        found = []
        for group in GROUPS:
            if group.of in ("", self.kind):
                names = [name for name in group.labels if name in form.fields]
                rows = [self._row(words, form[name], *effective[name]) for name in names]
                found.append((group.title, rows))
        return found

    def _row(self, words: FieldWords, field: Any, value: Any, source: str) -> SettingRow:
        setting = SETTINGS[field.name]
        no_name = setting.name == "dead_letters" and value == ""
        shown = f"{self.name}{DEAD_SUFFIX}" if no_name else words.value(setting.name, value)
        meter = METERS.get(setting.name, "") if self.kind == "queue" and not is_pattern(self.address) else ""
        return SettingRow(setting, field, shown, _words_of(source), self._place(source), meter)

    def _place(self, source: str) -> str:
        """The address of a pattern's page; empty if it is not a pattern."""
        if source in (OWN, NODE, DEFAULT, EVERYTHING) or not is_pattern(source):
            return ""
        kind, _sep, name = source.removeprefix("/").partition("/")
        return f"{reverse(f'console:{kind}')}?{urlencode({'name': name, 'tab': 'settings'})}"


def settings_of(kind: str) -> list[Setting]:
    """The settings that apply to queues or to topics; without a kind, all."""
    of_kind = [group.labels for group in GROUPS if not kind or group.of in ("", kind)]
    return [SETTINGS[name] for labels in of_kind for name in labels]


def _words_of(source: str) -> str:
    match source:
        case "own":
            return _("set here")
        case "node":
            return _("node setting")
        case "default":
            return _("default")
        case ">":
            return _("set for all destinations")
    return _("pattern %(pattern)s") % {"pattern": source}


def _field(setting: Setting) -> forms.Field:
    label, summary = LABELS[setting.name], translated(setting.summary)
    zero = _("%(about)s; 0 is %(zero)s") % {"about": summary, "zero": translated(setting.zero)}
    about: dict[str, Any] = {
        "required": False,
        "label": label,
        "help_text": zero if setting.zero else summary,
    }
    if setting.kind is int:
        return forms.IntegerField(min_value=int(setting.least), max_value=int(setting.most), **about)
    if setting.kind is float:
        return forms.FloatField(min_value=setting.least, max_value=setting.most, **about)
    if setting.kind is bool:
        choices = [("", _UNSAID), ("true", _("yes")), ("false", _("no"))]
        return forms.TypedChoiceField(
            choices=choices, coerce=lambda text: text == "true", empty_value=None, **about
        )
    if setting.choices:
        return forms.ChoiceField(choices=[("", _UNSAID), *CHOICES[setting.name].items()], **about)
    return forms.CharField(max_length=300, **about)
