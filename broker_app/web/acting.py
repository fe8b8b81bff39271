"""Who acts by a request: for the history and the audit log."""

from __future__ import annotations

import re
from urllib.parse import unquote

from django.http import HttpRequest
from rest_framework.request import Request

from broker_app.models import Token
from broker_app.web.actions import API, CONSOLE, By

#: a header that says why; percent-encoded where it is not ASCII
REASON = "Mom-Reason"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def by(request: Request | HttpRequest, reason: str = "") -> By:
    """The author of whatever this request asks for. A browser's session is the console, all else the API."""
    token = getattr(request, "auth", None)
    trace = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    return By(
        user=request.user.get_username(),
        way=API if request.headers.get("Authorization") else CONSOLE,
        address=request.META.get("REMOTE_ADDR", ""),
        token=token.name if isinstance(token, Token) else "",
        reason=(reason or unquote(request.headers.get(REASON, "")))[:1000],
        trace_id=trace[1] if trace else "",
    )
