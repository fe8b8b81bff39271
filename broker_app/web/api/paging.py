"""Pages of what is kept by number, the newest first; `after` is the number of the last one seen."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from rest_framework.request import Request
from rest_framework.response import Response

from broker_app.net.rest.openapi.schemas import TEXT, whole
from broker_app.web.api.openapi_schema import query

LIMIT = query("limit", whole(1, 500, 100), "most of a page")
AFTER = query("after", TEXT, "`next` of the page before")


def linked(
    request: Request, asks: dict[str, str], page: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """The reply with a page, and where the next one is."""
    found = dict(headers or {})
    if page["next"] is not None:
        more = urlencode({**asks, "after": page["next"]})
        found["Link"] = f'<{quote(request.path)}?{more}>; rel="next"'
    return Response(page, headers=found)
