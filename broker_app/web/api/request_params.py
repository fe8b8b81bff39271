"""The parameters of a request: its query and its body; unknown ones are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from broker_app.net.http.refusals import invalid, unknown


def query(request: Request, known: Collection[str]) -> dict[str, str]:
    """The query parameters. Raises Refused for unknown and repeated ones."""
    found = {}
    for name, values in request.query_params.lists():
        if name not in known:
            raise unknown(f"query/{name[:100]}", name, known, "query parameter")
        if len(values) > 1:
            raise invalid(f"query/{name}", "is given twice")
        found[name] = str(values[0])
    return found


def body(request: Request) -> dict[str, Any]:
    """The body, a JSON object. Raises Refused."""
    if not isinstance(request.data, dict):
        raise invalid("", "a JSON object is needed as body")
    return request.data


def valid(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """The body of a request without query parameters. Raises Refused, also for unknown members."""
    query(request, ())
    content = body(request)
    unknown = sorted(set(content) - set(kind().fields))
    if unknown:
        raise invalid(f"/{unknown[0]}", f"is not known; known are {', '.join(kind().fields)}")
    found = kind(data=content)
    if not found.is_valid():
        pointer, detail = _first_error(found.errors)
        raise invalid(pointer, detail)
    return dict(found.validated_data)


def _first_error(errors: Any, pointer: str = "") -> tuple[str, str]:
    """The place and the sentence of the first of nested errors."""
    if isinstance(errors, dict) and errors:
        name, inner = next(iter(errors.items()))
        return _first_error(inner, pointer if name == "non_field_errors" else f"{pointer}/{name}")
    if isinstance(errors, list):
        for number, inner in enumerate(errors):
            if isinstance(inner, dict | list) and inner:
                return _first_error(inner, f"{pointer}/{number}")
        if errors:
            return pointer, str(errors[0])
    return pointer, str(errors)


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
