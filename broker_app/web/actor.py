"""The actor of a request: for the history and the audit log."""

from __future__ import annotations

from urllib.parse import unquote

from django.http import HttpRequest
from rest_framework.request import Request

from broker_app.models import Token
from broker_app.net.http.tracing import trace_of
from broker_app.web.actions import API, CLI, CONSOLE, Actor
from broker_app.web.auth.authentication import LocalAccess

#: a header with the reason; percent-encoded where it is not ASCII
REASON = "Mom-Reason"


def trace_id(request: Request | HttpRequest) -> str:
    """The id of the trace that a request belongs to; empty if it has none."""
    header = request.headers.get("traceparent", "").encode("ascii", "replace")
    trace = trace_of([(b"traceparent", header)])
    return trace[1] if trace else ""


def actor_of(request: Request | HttpRequest, reason: str = "") -> Actor:
    """The actor of this request. A browser's session is the console, everything else the API."""
    token = getattr(request, "auth", None)
    program = CLI if isinstance(token, LocalAccess) else API
    return Actor(
        user=request.user.get_username(),
        via=program if request.headers.get("Authorization") else CONSOLE,
        address=request.META.get("REMOTE_ADDR", ""),
        token=token.name if isinstance(token, Token) else "",
        reason=(reason or unquote(request.headers.get(REASON, "")))[:1000],
        trace_id=trace_id(request),
    )
