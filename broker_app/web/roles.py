"""The role monitor of users of Django, and its refusal of changes by the control plane and by pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from broker_app.net.policy.roles import SAFE_METHODS, monitor_refusal

if TYPE_CHECKING:
    # Its module takes `MayUse` from here while it is imported, by the settings.
    from rest_framework.views import APIView

#: views that take other methods than the safe ones and change nothing but the browser's own
_OF_READERS: Final = frozenset({"login", "logout", "console:settings", "console:reflex-test"})
#: below it, views refuse by themselves (`web.api.permissions`)
_API: Final = "/api/"


def is_monitor(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return True for a user with the role monitor. Django stores it as staff: who may look into its pages of
    models, which change nothing."""
    return bool(getattr(user, "is_staff", False)) and not getattr(user, "is_superuser", False)


def changes_nothing(request: Request) -> bool:
    """True if a request only reads: by its method, or as its view declares for the others."""
    view = (request.parser_context or {}).get("view")
    return request.method in SAFE_METHODS or getattr(view, "changes_nothing", False)


class MayUse(BasePermission):
    """For all authenticated users; for monitors only where nothing changes."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            return False
        if is_monitor(request.user) and not changes_nothing(request):
            raise monitor_refusal(request.user.get_username())
        return True


class MonitorsChangeNothing:
    """Answers what a monitor sends to a page that changes something with the reason, and status 403."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: object, arguments: object, named: dict[str, Any]
    ) -> HttpResponse | None:
        """The refusal; None for what goes on to the view."""
        if request.method in SAFE_METHODS or request.path_info.startswith(_API):
            return None
        match = request.resolver_match
        if match is not None and match.view_name in _OF_READERS:
            return None
        if not is_monitor(request.user):
            return None
        return render(request, "console/refused.html", status=403)
