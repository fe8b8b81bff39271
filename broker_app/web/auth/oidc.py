"""Logging in to the console by an OpenID Connect provider.

allauth speaks the protocol: state, PKCE, and the provider's signed word. Who that is here is decided by
`actions.vouched_user`, so that users who come this way are versioned and audited like all others.
"""

from __future__ import annotations

import logging
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth import login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET
from requests import RequestException, Session

from broker_app.web.actions import CONSOLE, Actor, Claims, Conflict, InvalidEdits, external_user
from broker_app.web.auth.backends import PASSWORD
from broker_app.web.auth.outgoing_session import bound
from broker_app.web.snapshot import running_config

#: what allauth calls it
PROVIDER = "oidc"

log = logging.getLogger(__name__)


class _Provider(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The provider of the settings."""

    def get_access_token_data(self, *arguments: Any, **named: Any) -> Any:
        data = super().get_access_token_data(*arguments, **named)
        # allauth trusts an unsigned word that TLS has brought; we look at the signature always.
        self.did_fetch_access_token = False
        return data


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Continues after allauth once the provider has authenticated a user."""

    def get_requests_session(self) -> Session:
        """The session for requests to the provider."""
        return bound(super().get_requests_session())

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        raise ImmediateHttpResponse(_let_in(request, sociallogin))

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, **_: Any
    ) -> None:
        log.warning("a login by %s failed: %s", settings.MOM.oidc_issuer, exception or error)
        raise ImmediateHttpResponse(_refused(request, f"{_name()} did not say who you are."))


@never_cache
@require_GET
def enter(request: HttpRequest) -> HttpResponse:
    """Leads to the provider."""
    return _asked(OAuth2LoginView, request)


@never_cache
@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The redirect address for the provider."""
    return _asked(OAuth2CallbackView, request)


def _asked(view: Any, request: HttpRequest) -> HttpResponse:
    try:
        answer: HttpResponse = view.adapter_view(_Provider(request, PROVIDER))(request)
    except (RequestException, KeyError, ValueError) as error:
        log.warning("the provider %s cannot be used: %s", settings.MOM.oidc_issuer, error)
        return _refused(request, f"{_name()} cannot be reached, or answers strangely.", 502)
    return answer


@sensitive_variables("claims", "sociallogin")
def _let_in(request: HttpRequest, sociallogin: Any) -> HttpResponse:
    try:
        claims = _claims(sociallogin.account.extra_data)
    except ValueError as error:
        return _refused(request, f"{_name()} {error}.")
    address = request.META.get("REMOTE_ADDR", "")
    actor = Actor(claims.username, CONSOLE, address, reason=f"login by {_name()}")
    try:
        user = external_user(actor, claims, link=settings.MOM.oidc_link)
    except (Conflict, InvalidEdits) as error:
        return _refused(request, str(error))
    except ValidationError as error:
        return _refused(
            request, f"{claims.username[:150]!r} cannot be a user here: {' '.join(error.messages)}"
        )
    if not user.is_active:
        return _refused(request, f"The user {user.get_username()} is deactivated.")
    login(request, user, PASSWORD)
    wanted = str(sociallogin.state.get("next") or "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return redirect(wanted if safe else resolve_url(settings.LOGIN_REDIRECT_URL))


def _claims(response: dict[str, Any]) -> Claims:
    """The checked claims of a user. Raises ValueError with the missing or invalid claim."""
    mom = running_config()
    signed, more = response.get("id_token") or {}, response.get("userinfo") or {}
    if not signed.get("sub"):
        raise ValueError("sent no ID token")
    if more and more.get("sub") != signed["sub"]:
        raise ValueError("has two subjects")
    claims = {**more, **signed}
    username = claims.get(mom.oidc_username_claim)
    if not isinstance(username, str) or not username:
        raise ValueError(f"does not contain your user name (the claim {mom.oidc_username_claim})")
    groups = None
    if mom.oidc_groups_claim is not None:
        said = claims.get(mom.oidc_groups_claim) or []
        groups = [str(group) for group in ([said] if isinstance(said, str) else said)]
    administrator, monitor = (
        None if group is None or groups is None else group in groups
        for group in (mom.oidc_admin_group, mom.oidc_monitor_group)
    )
    email = claims.get("email")
    issuer, subject = str(mom.oidc_issuer), str(signed["sub"])
    return Claims(issuer, subject, username, str(email or ""), groups, administrator, monitor)


def _name() -> str:
    return running_config().oidc_name


def _refused(request: HttpRequest, why: str, status: int = 403) -> HttpResponse:
    return render(request, "login_refused.html", {"why": why}, status=status)
