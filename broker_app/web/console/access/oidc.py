"""The page of the OpenID Connect provider: what it is asked for, what its claims mean here, and its test."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from broker_app import config
from broker_app.web.actions import Conflict, Edit, InvalidEdits, Stale, apply
from broker_app.web.actor import actor_of
from broker_app.web.auth.discovery import examine
from broker_app.web.console.base.differences import in_a_sentence
from broker_app.web.console.base.frame import AdministratorsPage, shown_to
from broker_app.web.console.base.resource_page import report
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.snapshot import running_config

#: the settings that apply at the next login; the others are read when the broker starts
HOT: Final = {
    "oidc_name": gettext_lazy("Name on the login page"),
    "oidc_username_claim": gettext_lazy("Claim with the name of the user"),
    "oidc_groups_claim": gettext_lazy("Claim with the groups"),
    "oidc_admin_group": gettext_lazy("Group of administrators"),
    "oidc_monitor_group": gettext_lazy("Group of monitors"),
}
_ABOUT: Final = {
    "oidc_groups_claim": gettext_lazy(
        "At each login the user gets those of its groups that exist here. Empty: groups are set here."
    ),
    "oidc_admin_group": gettext_lazy("Its members are administrators, and no other users of the provider."),
    "oidc_monitor_group": gettext_lazy("Its members see everything and change nothing."),
}
_SECRET: Final = "oidc_client_secret"
#: where paths of redirects begin
_CALLBACK: Final = "login/oidc/callback/"


class ClaimsForm(forms.Form):
    """The settings that apply while the broker runs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, label in HOT.items():
            self.fields[name] = forms.CharField(
                required=False, max_length=200, label=label, help_text=_ABOUT.get(name, "")
            )

    def changed(self, started: config.Config) -> dict[str, str]:
        """The values that are to replace those with which the broker was started."""
        given = self.cleaned_data
        return {name: given[name] for name in HOT if given[name] not in ("", getattr(started, name))}


class ProviderForm(forms.Form):
    """The provider that is tested: that of the broker, or one that it could be started with."""

    issuer = forms.RegexField(
        r"^https?://[^\s?#]+$",
        max_length=500,
        label=gettext_lazy("Issuer"),
        help_text=gettext_lazy("As the provider names itself: https://login.example.org/realms/staff"),
    )
    client_id = forms.CharField(
        required=False,
        max_length=200,
        label=gettext_lazy("Client id"),
        help_text=gettext_lazy("That the provider has issued for this console."),
    )
    secret_file = forms.CharField(
        required=False,
        max_length=500,
        label=gettext_lazy("File with the client secret"),
        help_text=gettext_lazy(
            "On the machine of the broker. The secret itself is never entered or shown here."
        ),
    )


class OidcPage(AdministratorsPage):
    """Show, test and change how users log in by an OpenID Connect provider."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        if request.POST.get("operation") == "test":
            provider = ProviderForm(request.POST)
            if not provider.is_valid():
                return self.show(request, provider=provider)
            given = provider.cleaned_data
            return self.show(request, provider=provider, trial=examine(given["issuer"]), lines=_lines(given))
        form = ClaimsForm(request.POST)
        if form.is_valid() and self.save(request, form):
            return redirect("console:oidc-settings")
        return self.show(request, form=form)

    def save(self, request: HttpRequest, form: ClaimsForm) -> bool:
        """Save the claims in the resource of this broker, and return whether that was possible."""
        name = settings.MOM.name
        spec = RESOURCE_TYPES["brokers"].read([name]).get(name, {})
        kept = {key: value for key, value in spec.get("settings", {}).items() if key not in HOT}
        edit = Edit("brokers", name, {**spec, "settings": {**kept, **form.changed(settings.MOM)}})
        try:
            outcome = apply(actor_of(request), [edit])
        except (Conflict, InvalidEdits, Stale, ValidationError) as refusal:
            messages.error(request, _("No changes were made: %s") % in_a_sentence(refusal))
            return False
        report(request, outcome, _("Login by OpenID Connect"))
        return True

    def show(self, request: HttpRequest, **more: Any) -> HttpResponse:
        now = running_config()
        provider = {"issuer": now.oidc_issuer, "client_id": now.oidc_client_id}
        context = {
            "form": shown_to(request, ClaimsForm(initial={name: getattr(now, name) or "" for name in HOT})),
            "provider": shown_to(request, ProviderForm(initial=provider)),
            "issuer": now.oidc_issuer,
            "client_id": now.oidc_client_id,
            "has_secret": getattr(now, _SECRET) is not None,
            "links": now.oidc_link,
            "callback": request.build_absolute_uri(reverse("root") + _CALLBACK),
            **more,
        }
        context["works"] = bool(more.get("trial")) and all(step.ok for step in more["trial"])
        return render(request, "console/oidc.html", context)


def _lines(given: dict[str, str]) -> str:
    """The environment with which a broker is started for a provider."""
    values = {
        "MOM_OIDC_ISSUER": given["issuer"],
        "MOM_OIDC_CLIENT_ID": given["client_id"] or "mom",
        "MOM_OIDC_CLIENT_SECRET_FILE": given["secret_file"] or "/run/secrets/mom-oidc",
    }
    return "\n".join(f"{name}={value}" for name, value in values.items())
