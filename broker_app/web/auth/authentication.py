"""Authentication of the control plane: tokens and passwords, as on the data plane.

The database is asked, not the node: these pages may run in a process without one.
"""

import hashlib
import hmac
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, Throttled
from rest_framework.request import Request

from broker_app.models import Token
from broker_app.net.http.origin_check import Origins
from broker_app.web.actions import ADMIN
from broker_app.web.auth.backends import slowed


class LocalAccess:
    """The `auth` of a request of `mom` that has proved to read the data directory of the broker."""


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer mom_…`"""

    def authenticate(self, request: Request) -> tuple[User, Token | LocalAccess] | None:
        kind, _, secret = get_authorization_header(request).partition(b" ")
        if kind.lower() != b"bearer":
            return None
        node = getattr(request._request, "scope", {}).get("mom.node")
        local = node.logins.local_secret if node is not None else b""
        if local and hmac.compare_digest(secret.strip(), local):
            admin = User.objects.filter(username=ADMIN, is_active=True).first()
            if admin is not None:
                return admin, LocalAccess()
        digest = hashlib.sha256(secret.strip()).digest()
        token = Token.objects.filter(digest=digest).select_related("owner").first()
        if token is None or not token.owner.is_active or (token.expires and token.expires <= timezone.now()):
            raise AuthenticationFailed("The token is unknown, revoked or expired.")
        if node is not None:
            node.logins.used(digest)
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mom"'


class PasswordAuthentication(BasicAuthentication):
    """`Authorization: Basic …`, for the first steps with curl.

    A right password is remembered by the node, if there is one: to look at one takes a tenth of a second.
    """

    www_authenticate_realm = "mom"

    def authenticate_credentials(
        self, userid: str, password: str, request: Request | None = None
    ) -> tuple[Any, None]:
        node = getattr(getattr(request, "_request", request), "scope", {}).get("mom.node")
        if node is not None and node.logins.knows_password(userid, password):
            user = User.objects.filter(username=userid, is_active=True).first()
            if user is not None:
                return user, None
        try:
            found = super().authenticate_credentials(userid, password, request)
            if node is not None:
                node.loop.call_soon_threadsafe(node.logins.cache_password, userid, password)
            return found
        except AuthenticationFailed:
            refusal = slowed(request)
            if refusal is not None:
                raise Throttled(refusal.wait_s, refusal.detail) from None
            raise


class CertificateAuthentication(BaseAuthentication):
    """A client certificate that the TLS listener has accepted, if the request has no other credentials.

    Browsers send theirs with requests of any page; it does not count for requests of foreign pages.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        scope = getattr(request._request, "scope", {})
        certified = scope.get("mom.certified", ())
        user = User.objects.filter(username__in=certified, is_active=True).first() if certified else None
        if user is None or request.headers.get("Authorization"):
            return None
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        origins = Origins(settings.MOM.known_hosts, settings.MOM.allowed_origins)
        if site != "same-origin" or not origins.accepts(scope["headers"]):
            raise PermissionDenied(
                "A request with nothing but a certificate must come from a page of this node."
            )
        return user, None


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The OpenAPI description of tokens."""

    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mom_…"}


class PasswordScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The OpenAPI description of passwords."""

    target_class = PasswordAuthentication
    name = "password"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "basic"}


class CertificateScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The OpenAPI description of client certificates."""

    target_class = CertificateAuthentication
    name = "certificate"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "mutualTLS"}
