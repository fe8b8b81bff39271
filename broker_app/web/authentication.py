"""Authentication of the control plane: tokens and passwords, as on the data plane.

The database is asked, not the node: these pages may run in a process without one.
"""

import hashlib
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from broker_app.models import Token


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer mom_…`"""

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        kind, _, secret = get_authorization_header(request).partition(b" ")
        if kind.lower() != b"bearer":
            return None
        token = (
            Token.objects.filter(digest=hashlib.sha256(secret.strip()).digest())
            .select_related("owner")
            .first()
        )
        if token is None or not token.owner.is_active or (token.expires and token.expires <= timezone.now()):
            raise AuthenticationFailed("The token is unknown, revoked or expired.")
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mom"'


class PasswordAuthentication(BasicAuthentication):
    """`Authorization: Basic …`, for the first steps with curl."""

    www_authenticate_realm = "mom"


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the API document describes tokens."""

    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mom_…"}


class PasswordScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the API document describes passwords."""

    target_class = PasswordAuthentication
    name = "password"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "basic"}
