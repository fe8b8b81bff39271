"""Pages of tokens: the user's own, and for administrators those of all users."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from broker_app.models import Token
from broker_app.web import actions
from broker_app.web.actor import actor_of
from broker_app.web.console.base.fields import LinesField
from broker_app.web.console.base.frame import Page, is_administrator, sees_all
from broker_app.web.console.base.remove_page import RemovePage
from broker_app.web.console.base.resource_form import ResourceForm
from broker_app.web.console.base.resource_page import ResourcePages
from broker_app.web.console.versions import whole
from broker_app.web.resource_types.tokens import MAX_GRANTS, RIGHTS

_SHOWN = 1000
_LIVES = (
    ("7", gettext_lazy("in 7 days")),
    ("30", gettext_lazy("in 30 days")),
    ("90", gettext_lazy("in 90 days")),
    ("365", gettext_lazy("in a year")),
    ("", gettext_lazy("never")),
)


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("A name that shows what the token is for."),
    )
    expires = forms.ChoiceField(label=gettext_lazy("Expiry"), choices=_LIVES, initial="90", required=False)
    limited = forms.ChoiceField(
        label=gettext_lazy("Rights"),
        choices=(("", gettext_lazy("all my rights")), ("yes", gettext_lazy("only those below"))),
        widget=forms.RadioSelect,
        required=False,
        initial="",
    )
    reason = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Reason for the change, kept in the history and the audit log."),
    )

    def end(self) -> datetime | None:
        """The expiry of the token in a valid form."""
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None


class GrantForm(forms.Form):
    """A form for rights on destinations."""

    rights = forms.MultipleChoiceField(
        label=gettext_lazy("Rights"),
        choices=[(right, right) for right in RIGHTS],
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )
    destinations = LinesField(
        label=gettext_lazy("Destinations"),
        help_text=gettext_lazy("One per line: /queue/orders, or /queue/orders.> for all names below it."),
    )


class Grants:
    """The grants of a token: as many forms as were shown, plus one on request. Empty ones are ignored."""

    def __init__(self, data: QueryDict | None = None) -> None:
        shown = whole(data, "grants", 1) or 1 if data is not None else 1
        extra_context = data is not None and data.get("operation") == "more"
        self.forms = [
            GrantForm(data if place < shown else None, prefix=f"grant{place}", auto_id="id_%s")
            for place in range(min(shown + extra_context, MAX_GRANTS))
        ]

    def is_valid(self) -> bool:
        return not self.wrong

    @property
    def wrong(self) -> bool:
        return any(form.errors for form in self.forms)

    def spec(self) -> list[dict[str, object]]:
        """The grants of valid forms."""
        return [form.cleaned_data for form in self._filled()]

    def show_fault(self, pointer: str, messages: list[str]) -> bool:
        """Add the error of `grants/0/rights` to its field, if there is such a field."""
        _, _, where = pointer.partition("/")
        place, _, field = where.partition("/")
        filled = self._filled()
        if not place.isdecimal() or int(place) >= len(filled) or field not in GrantForm.base_fields:
            return False
        filled[int(place)].add_error(field, messages)
        return True

    def _filled(self) -> list[GrantForm]:
        return [form for form in self.forms if form.is_valid() and any(form.cleaned_data.values())]


TOKENS = ResourcePages(
    kind="tokens",
    title=gettext_lazy("Tokens"),
    about=gettext_lazy(
        "Secrets that programs use to log in instead of a password. A token grants "
        "all rights of its owner, or some of them."
    ),
    form=ResourceForm,
    columns={},
)


class TokensPage(Page):
    """The user's own tokens; administrators can list those of all users."""

    def get(self, request: HttpRequest) -> HttpResponse:
        of_all_users = sees_all(request) and request.GET.get("of") == "all"
        rows = rows_of(Token.objects.all()) if of_all_users else own_tokens(request)
        return render(
            request, "console/tokens.html", {"subject": TOKENS, "rows": rows, "of_all_users": of_all_users}
        )


def own_tokens(request: HttpRequest) -> list[dict[str, object]]:
    """The tokens of the current user, for templates."""
    return rows_of(Token.objects.filter(owner=_user(request)))


def rows_of(tokens: QuerySet[Token]) -> list[dict[str, object]]:
    """Tokens for templates, with whether they have expired."""
    now = timezone.now()
    return [
        {"token": token, "over": token.expires is not None and token.expires <= now}
        for token in tokens.select_related("owner")[:_SHOWN]
    ]


class AddToken(Page):
    """Create a token. Its secret is shown only on the page that answers."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.show(request, TokenForm(), Grants())

    @sensitive_variables("made")
    def post(self, request: HttpRequest) -> HttpResponse:
        form, grants = TokenForm(request.POST), Grants(request.POST)
        if request.POST.get("operation") == "more":
            return self.show(request, TokenForm(initial=request.POST.dict()), grants)
        if not (form.is_valid() and grants.is_valid()):
            return self.show(request, form, grants)
        given = form.cleaned_data
        try:
            made = actions.create_token(
                actor_of(request, given["reason"]),
                _user(request),
                given["name"],
                form.end(),
                grants.spec() if given["limited"] else None,
            )
        except actions.Conflict as conflict:
            form.add_error("name", str(conflict))
        except ValidationError as fault:
            _show_faults(form, grants, fault)
        else:
            return self.shown_once(request, made)
        return self.show(request, form, grants)

    def show(self, request: HttpRequest, form: TokenForm, grants: Grants) -> HttpResponse:
        return render(request, "console/token.html", {"subject": TOKENS, "form": form, "grants": grants})

    @sensitive_variables("made", "context")
    def shown_once(self, request: HttpRequest, made: actions.NewToken) -> HttpResponse:
        origin = request.build_absolute_uri(reverse("root")).rstrip("/")
        destination = _example(made.token.grants)
        context = {
            "subject": TOKENS,
            "token": made.token,
            "secret": made.secret,
            "origin": origin,
            "destination": destination,
            "messages_url": f"{origin}/api/v1{_path(destination)}/messages",
            "host": request.get_host().rpartition(":")[0] or request.get_host(),
            "virtual_host": settings.MOM.name,
        }
        return render(request, "console/token_made.html", context)


class RevokeToken(RemovePage):
    """Revoke an own token; administrators can revoke all."""

    subject = TOKENS
    template = "console/revoke.html"

    def admits(self, request: HttpRequest) -> bool:
        own = request.GET.get("name", "").startswith(f"{request.user.get_username()}/")
        return own or is_administrator(request)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "the page requires a login"
    return request.user


def _show_faults(form: TokenForm, grants: Grants, fault: ValidationError) -> None:
    if not hasattr(fault, "error_dict"):
        form.add_error(None, fault.messages)
        return
    for name, messages in fault.message_dict.items():
        if not grants.show_fault(name, messages):
            form.add_error(name if name in form.fields else None, messages)


def _example(grants: list[dict[str, Any]] | None) -> str:
    """A destination that the token grants access to."""
    granted = [name for grant in grants or () for name in grant["destinations"]]
    named = [
        name for name in granted if name.startswith(("/queue/", "/topic/")) and not set(name) & set("*>#")
    ]
    return named[0] if named else "/queue/hello"


def _path(destination: str) -> str:
    _, kind, name = destination.split("/", 2)
    return f"/{kind}s/{quote(name, safe='')}"
