"""Permissions of the control plane."""

from __future__ import annotations

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.models import Token

ADMINISTER = "administer"


def is_administrator(request: Request) -> bool:
    """True for an administrator; a token needs to grant this right."""
    return bool(getattr(request.user, "is_superuser", False)) and lends(request.auth, ADMINISTER)


def lends(token: object, right: str) -> bool:
    """True if a token grants a right of its owner for any destination. Clients without a token have all."""
    if not isinstance(token, Token) or token.grants is None:
        return True
    return any(right in grant["rights"] for grant in token.grants)


def require_administrator(request: Request) -> None:
    """Raises Refused unless `is_administrator`."""
    if is_administrator(request):
        return
    if getattr(request.user, "is_superuser", False):
        detail = "the grants of this token do not include the right administer"
    else:
        detail = "only administrators can do this"
    raise Refused("not-allowed", detail, right=ADMINISTER)


class MayAdminister(BasePermission):
    """Only for administrators."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            return False
        require_administrator(request)
        return True
