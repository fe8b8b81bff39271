"""The parameters of a request: its query and its body; unknown ones are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework.request import Request

from broker_app.net.rest.refusals import invalid, unknown


def query(request: Request, known: Collection[str]) -> dict[str, str]:
    """The query parameters. Raises Refusal for unknown and repeated ones."""
    found = {}
    for name, values in request.query_params.lists():
        if name not in known:
            raise unknown(f"query/{name[:100]}", name, known, "query parameter")
        if len(values) > 1:
            raise invalid(f"query/{name}", "is given twice")
        found[name] = str(values[0])
    return found


def body(request: Request) -> dict[str, Any]:
    """The body, a JSON object. Raises Refusal."""
    if not isinstance(request.data, dict):
        raise invalid("", "a JSON object is needed as body")
    return request.data


def merged(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`before` with a JSON merge patch (RFC 7396): null takes a member away."""
    found = dict(before)
    for name, value in change.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            was = before.get(name)
            found[name] = merged(was if isinstance(was, dict) else {}, value)
        else:
            found[name] = value
    return found
