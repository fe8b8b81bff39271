"""The first steps: name the environment, choose a login, send and receive a message.

Each can be skipped; the current one is in the address.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from broker_app.base.refused import Refused
from broker_app.models import Change, Token
from broker_app.web import actions
from broker_app.web.actions import FILE, START
from broker_app.web.actor import actor_of
from broker_app.web.console.base.frame import AdministratorsPage
from broker_app.web.console.settings import EnvironmentForm, broker_spec, save_environment
from broker_app.web.console.versions import whole
from broker_app.web.policy_sync import ask, node_of

if TYPE_CHECKING:
    from broker_app.node.node import Node

STEPS = (1, 2, 3)
#: resources that the steps create, and that are removed at the end
QUEUE = "welcome"
TOKEN = "welcome"
_TOKEN_LIVES = timedelta(days=1)
_TIMEOUT_S, _AGAIN_S = 2.0, 0.1


def is_first_run() -> bool:
    """Return whether nothing is configured except for built-in resources and those of files."""
    return not Change.objects.exclude(via__in=(START, FILE)).exists()


class PasswordForm(forms.Form):
    password = forms.CharField(
        strip=False,
        max_length=1000,
        label=gettext_lazy("New password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "For the user that you are logged in as; the one-time link cannot be used again."
        ),
    )


class WelcomePage(AdministratorsPage):
    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request, whole(request.GET, "step", 1) or 1)

    @sensitive_variables("made")
    def post(self, request: HttpRequest) -> HttpResponse:
        match request.POST.get("operation"):
            case "name":
                form = EnvironmentForm(request.POST)
                if form.is_valid() and save_environment(request, form) is not None:
                    return _at(2)
                return self.show(request, 1, environment_form=form)
            case "password":
                return self.new_password(request)
            case "token":
                made = _new_token(request)
                return self.show(request, 3, secret=made.secret)
            case "clean":
                return self.clean(request)
            case _:
                return redirect("console:welcome")

    def new_password(self, request: HttpRequest) -> HttpResponse:
        form, user = PasswordForm(request.POST), _user(request)
        if not form.is_valid():
            return self.show(request, 2, password_form=form)
        try:
            actions.set_password(actor_of(request), user, form.cleaned_data["password"])
        except ValidationError as fault:
            form.add_error("password", fault.messages)
            return self.show(request, 2, password_form=form)
        update_session_auth_hash(request, user)
        messages.success(request, _("Use this password to log in as %(user)s from now on.") % {"user": user})
        return _at(3)

    def clean(self, request: HttpRequest) -> HttpResponse:
        """Remove the queue and the token of the first steps."""
        for token in Token.objects.filter(owner=_user(request), name=TOKEN):
            actions.revoke_token(actor_of(request), token)
        node = node_of(request)
        refusal = _without_queue(node) if node is not None else None
        if refusal is not None:
            messages.error(request, refusal.detail)
            return _at(3)
        messages.success(request, _("The queue and the token of the first steps were removed."))
        return redirect("console")

    def show(self, request: HttpRequest, step: int, **more: Any) -> HttpResponse:
        origin = request.build_absolute_uri(reverse("root")).rstrip("/")
        context = {
            "step": step if step in STEPS else STEPS[0],
            "environment_form": EnvironmentForm(initial=broker_spec()),
            "password_form": PasswordForm(),
            "oidc": settings.MOM.oidc_issuer,
            "oidc_name": settings.MOM.oidc_name,
            "queue": QUEUE,
            "url": f"{origin}/api/v1/queues/{QUEUE}",
            "secret": "",
            **more,
        }
        return render(request, "console/welcome.html", context)


def _without_queue(node: Node) -> Refused | None:
    """Remove the queue; return why it cannot be removed.

    Retried, since a closed subscription takes a moment to end.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            ask(node, node.operations.delete_queue(f"/queue/{QUEUE}", force=True))
        except Refused as refusal:
            if refusal.code == "not-found":
                return None
            if time.monotonic() > deadline:
                return refusal
            time.sleep(_AGAIN_S)
        else:
            return None


def _at(step: int) -> HttpResponse:
    return redirect(f"{reverse('console:welcome')}?step={step}")


@sensitive_variables("made")
def _new_token(request: HttpRequest) -> actions.NewToken:
    """Create a token for the first queue, valid for a day; the previous one is revoked."""
    user, actor = _user(request), actor_of(request)
    for token in Token.objects.filter(owner=user, name=TOKEN):
        actions.revoke_token(actor, token)
    grants = [{"rights": ["send", "receive", "browse"], "destinations": [f"/queue/{QUEUE}"]}]
    return actions.create_token(actor, user, TOKEN, timezone.now() + _TOKEN_LIVES, grants)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "the page requires a login"
    return request.user
