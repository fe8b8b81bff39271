"""Permissions of the control plane."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.models import Token
from broker_app.web.roles import MayUse, changes_nothing, is_monitor

ADMINISTER = "administer"


def is_administrator(request: Request) -> bool:
    """True for an administrator, or a monitor who only looks; a token needs to grant this right."""
    user = request.user
    has_role = user.is_superuser or (is_monitor(user) and changes_nothing(request))
    return has_role and lends(request.auth, ADMINISTER)


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


class MayAdminister(MayUse):
    """Only for administrators, and for monitors where nothing changes."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not super().has_permission(request, view):
            return False
        require_administrator(request)
        return True
