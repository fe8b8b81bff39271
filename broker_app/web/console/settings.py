"""The page "Settings": appearance, own tokens and views, password, and the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app.models import Token
from broker_app.web.actions import ChangeResult, Conflict, Edit, InvalidEdits, Stale, apply, views_of
from broker_app.web.actor import actor_of
from broker_app.web.console.access.tokens import TOKENS, own_tokens
from broker_app.web.console.base.differences import in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage, Page, sees_all, shown_to
from broker_app.web.console.base.resource_page import report
from broker_app.web.console.forwarding.brokers import NAMES_OF_COLOURS
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.snapshot import running_config

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise

_YEAR_S = 365 * 86_400
_SHOWN = 20


class Choice(NamedTuple):
    """A field of the profile and its cookie; an empty value has no cookie."""

    cookie: str
    label: str | StrPromise
    choices: list[tuple[str, str | StrPromise]]
    about: str | StrPromise = ""


def profile_choices() -> dict[str, Choice]:
    """The choices of a user for this browser.

    `mom_zone` is UTC or another name of the IANA database; `mom_theme` light or dark; `mom_density`
    compact; `mom_keys` off. Without a cookie the default applies. The console's script writes the same
    cookies (`frontend/src/cookies.ts`).
    """
    zones = [(name, name) for name in sorted(available_timezones() - {"UTC", "localtime"})]
    return {
        "language": Choice(
            settings.LANGUAGE_COOKIE_NAME,
            gettext_lazy("Language"),
            [("", gettext_lazy("language of the browser")), *settings.LANGUAGES],
        ),
        "zone": Choice(
            "mom_zone",
            gettext_lazy("Time zone"),
            [("", gettext_lazy("time zone of this browser")), ("UTC", "UTC"), *zones],
            gettext_lazy("Shown next to every time."),
        ),
        "theme": Choice(
            "mom_theme",
            gettext_lazy("Theme"),
            [
                ("", gettext_lazy("same as the system")),
                ("light", gettext_lazy("light")),
                ("dark", gettext_lazy("dark")),
            ],
        ),
        "density": Choice(
            "mom_density",
            gettext_lazy("Density"),
            [("", gettext_lazy("comfortable")), ("compact", gettext_lazy("compact"))],
        ),
        "keys": Choice(
            "mom_keys",
            gettext_lazy("Single-letter keyboard shortcuts"),
            [("", gettext_lazy("on")), ("off", gettext_lazy("off"))],
            gettext_lazy("Such as g q, t and /. Press ? for the full list."),
        ),
    }


class ProfileForm(forms.Form):
    """A form with a field for each choice."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, choice in profile_choices().items():
            self.fields[name] = forms.ChoiceField(
                required=False, label=choice.label, choices=choice.choices, help_text=choice.about
            )


class EnvironmentForm(forms.Form):
    environment = forms.CharField(
        required=False,
        max_length=40,
        label=gettext_lazy("Name of the environment"),
        help_text=gettext_lazy(
            "Such as test or production. In production, the name has to be typed to remove something."
        ),
    )
    colour = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Colour"),
        choices=NAMES_OF_COLOURS.items(),
        widget=forms.RadioSelect,
        help_text=gettext_lazy("The colour of the broker's name at the top of every page."),
    )


class SettingsPage(Page):
    """The settings of the current user. The profile is stored in cookies."""

    def get(self, request: HttpRequest) -> HttpResponse:
        cookies = {
            name: unquote(request.COOKIES.get(choice.cookie, ""))
            for name, choice in profile_choices().items()
        }
        return self.show(request, ProfileForm(initial=cookies))

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ProfileForm(request.POST)
        if not form.is_valid():
            return self.show(request, form)
        reply, path = redirect("console:settings"), reverse("root")
        for name, choice in profile_choices().items():
            value = quote(form.cleaned_data[name], safe="")
            age = _YEAR_S if value else 0
            reply.set_cookie(choice.cookie, value, max_age=age, path=path, samesite="Lax")
        messages.success(request, _("Your settings were saved in this browser."))
        return reply

    def show(self, request: HttpRequest, form: ProfileForm) -> HttpResponse:
        tokens = own_tokens(request)
        context = {
            "form": form,
            "subject": TOKENS,
            "rows": tokens[:_SHOWN],
            "all_tokens": len(tokens),
            "views": views_of(request.user.get_username()),
            "environment_form": shown_to(request, EnvironmentForm(initial=broker_spec())),
            "others_tokens": Token.objects.count() - len(tokens) if sees_all(request) else 0,
            "oidc": settings.MOM.oidc_issuer,
            "oidc_name": running_config().oidc_name,
            "oidc_client_id": settings.MOM.oidc_client_id,
        }
        return render(request, "console/settings.html", context)


class EnvironmentPage(AdministratorsPage):
    """Save the environment."""

    def post(self, request: HttpRequest) -> HttpResponse:
        form = EnvironmentForm(request.POST)
        if form.is_valid():
            save_environment(request, form)
        else:
            messages.error(request, " ".join(str(text) for texts in form.errors.values() for text in texts))
        return redirect("console:settings")


def broker_spec() -> dict[str, object]:
    """The spec of this broker; empty if there is none."""
    return RESOURCE_TYPES["brokers"].read([settings.MOM.name]).get(settings.MOM.name, {})


def save_environment(request: HttpRequest, form: EnvironmentForm) -> ChangeResult | None:
    """Save the environment from a valid form and report it; None if that failed."""
    edit = Edit("brokers", settings.MOM.name, {**broker_spec(), **form.cleaned_data})
    try:
        outcome = apply(actor_of(request), [edit])
    except (Conflict, InvalidEdits, Stale, ValidationError) as refusal:
        messages.error(request, in_a_sentence(refusal))
        return None
    report(request, outcome, _("Environment"))
    return outcome
