"""Pages of callbacks: the list with their status, and the form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from broker_app.base.settings.roles import CALLBACK
from broker_app.features.callbacks.webhooks.callback import MEMBERS
from broker_app.features.callbacks.webhooks.signature import new_secret
from broker_app.web.actions import Edit
from broker_app.web.console.base.edit_page import AddPage, EditPage
from broker_app.web.console.base.fields import LinesField, member_field
from broker_app.web.console.base.list_page import ListPage
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.console.forwarding.callback_status import all_callbacks, shown_callback
from broker_app.web.resource_types import Spec
from broker_app.web.resource_types.callbacks import address_of


class HeadersField(LinesField):
    """Headers, one per line as `Name: value`."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name}: {text}" for name, text in value.items())
        return super().prepare_value(value)

    def clean(self, value: Any) -> dict[str, str]:
        found = {}
        for line in super().clean(value):
            name, colon, text = line.partition(":")
            if not colon:
                raise forms.ValidationError(_("“%(line)s” is not Name: value"), params={"line": line[:100]})
            found[name.strip()] = text.strip()
        return found


#: fields of the form before and after the others
_FIRST = ("name", "url", "queue", "topic", "selector", "mode", "owner", "secret", "authorization", "headers")
_LAST = ("comment", "version", "reason")


class CallbackForm(ResourceForm):
    kind = "callbacks"
    hidden = frozenset({"secret", "authorization"})

    url = forms.CharField(
        label=_("URL"),
        help_text=_("address to which messages are POSTed; it has to agree before the first one"),
    )
    queue = forms.CharField(
        label=_("Queue"), required=False, help_text=_("queue whose messages are pushed; or a topic, below")
    )
    topic = forms.CharField(
        label=_("Topic"),
        required=False,
        help_text=_("topic, or a pattern such as prices.>; messages are kept for the callback"),
    )
    selector = forms.CharField(
        label=_("Selector"), required=False, help_text=_("condition on headers, such as color = 'red'")
    )
    owner = forms.CharField(label=_("Owner"), help_text=_("user with whose rights it receives messages"))
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("whsec_… that signs requests; empty: a new callback gets one, another one keeps its own"),
    )
    authorization = forms.CharField(
        label=_("Authorization"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("header of that name, such as Bearer …; empty keeps the current one. It is never shown."),
    )
    headers = HeadersField(label=_("Headers"), help_text=_("further headers, one per line as Name: value"))
    comment = forms.CharField(label=_("Comment"), required=False, widget=forms.Textarea(attrs={"rows": 2}))

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for name, (member, default) in MEMBERS.items():
            self.fields[name] = member_field(member, default)
        self.order_fields([*_FIRST, *(name for name in self.fields if name not in _LAST), *_LAST])


class NewCallbackForm(CallbackForm):
    """The form of a new callback; one without a secret gets a new one, `made`."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.made = ""

    def edits(self) -> list[Edit]:
        if not self.cleaned_data["secret"]:
            self.made = self.cleaned_data["secret"] = new_secret()
        return super().edits()


CALLBACKS = ResourcePages(
    kind="callbacks",
    title=_("Callbacks"),
    about=_(
        "URLs that are called when messages arrive. Requests are CloudEvents, signed as Standard Webhooks."
    ),
    adds=_("New callback"),
    none=_(
        "There are no callbacks yet. A callback POSTs the messages of a queue or topic to a URL, and keeps "
        "them here until the receiver has accepted them."
    ),
    command="mom callback create billing queue=orders.paid url=https://billing.example.org/hook",
    form=CallbackForm,
    columns={
        "url": "url",
        "queue": "queue",
        "topic": "topic",
        "owner": "owner",
        "mode": "mode",
        "desired": "desired",
        "comment": "comment",
    },
    list_template="console/callbacks.html",
)


class CallbacksPage(ListPage):
    """The list of callbacks with their current status."""

    subject = CALLBACKS

    def get(self, request: HttpRequest) -> HttpResponse:
        found, self.unknown = all_callbacks(request)
        self.known = {row["name"]: row for row in found or ()}
        return super().get(request)

    def row(self, key: str, spec: Spec) -> dict[str, object]:
        status = self.known.get(key)
        shown = shown_callback(status) if status else None
        return {"key": key, "spec": spec, "source": address_of(spec), "callback": shown}

    def extra_context(self, specs: Any) -> dict[str, object]:
        return {"unknown": self.unknown, "is_callback_broker": settings.MOM.role == CALLBACK}


class AddCallback(AddPage):
    """Add a callback. A secret that was made for it is shown only on the page that answers."""

    subject = CALLBACKS

    def blank(self, request: HttpRequest) -> ResourceForm:
        form = super().blank(request)
        form.initial.setdefault("owner", "")
        form.initial["owner"] = form.initial["owner"] or request.user.get_username()
        return form

    def sent(self, request: HttpRequest) -> ResourceForm:
        return NewCallbackForm(request.POST)

    @sensitive_variables("form")
    def saved(self, form: ResourceForm) -> HttpResponse:
        key = form.resource_key()
        if isinstance(form, NewCallbackForm) and form.made:
            return shown_once(self.request, key, form.made)
        return redirect(page_of(key))


class EditCallback(EditPage):
    subject = CALLBACKS

    def saved(self, form: ResourceForm) -> HttpResponse:
        return redirect(page_of(form.resource_key()))


class RemoveCallback(RemovePage):
    """Remove a callback; with one to a topic, the messages that wait for it are deleted."""

    subject = CALLBACKS


@sensitive_variables("secret")
def shown_once(request: HttpRequest, key: str, secret: str) -> HttpResponse:
    """The page that shows a new secret."""
    context = {"subject": CALLBACKS, "key": key, "secret": secret, "page": page_of(key)}
    return render(request, "console/callback_secret.html", context)


def page_of(key: str) -> str:
    """The page of one callback."""
    return f"{reverse('console:callback')}?{urlencode({'name': key})}"
