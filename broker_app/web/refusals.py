"""Refusals: errors of the control plane as problems (RFC 9457). The one exception handler of DRF."""

import logging
from typing import Any, NotRequired, TypedDict

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import OperationalError
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import exceptions, status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler, set_rollback

from broker_app.base.refused import Refused
from broker_app.net.http.refusals import body_of, headers_of, status_of
from broker_app.net.problems import MEDIA_TYPE, problem_body
from broker_app.web.actions import Conflict, InvalidEdits, RefusedByCluster, Stale
from broker_app.web.actor import trace_id

log = logging.getLogger(__name__)

_NAMES = {
    status.HTTP_400_BAD_REQUEST: "invalid",
    status.HTTP_401_UNAUTHORIZED: "not-authenticated",
    status.HTTP_403_FORBIDDEN: "not-allowed",
    status.HTTP_404_NOT_FOUND: "not-found",
    status.HTTP_405_METHOD_NOT_ALLOWED: "method-not-allowed",
    status.HTTP_406_NOT_ACCEPTABLE: "not-acceptable",
    status.HTTP_409_CONFLICT: "conflict",
    status.HTTP_415_UNSUPPORTED_MEDIA_TYPE: "unsupported-type",
    status.HTTP_429_TOO_MANY_REQUESTS: "rate-limited",
}


#: what every operation of the control plane may answer, for its description
PROBLEM_REPLIES: dict[tuple[int, str], Any] = {
    (code, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.OBJECT, about)
    for code, about in (
        (400, "a name, a query parameter or a field is wrong"),
        (401, "not logged in"),
        (403, "not an administrator"),
        (404, "not there"),
        (405, "not possible here"),
        (406, "JSON is all there is"),
        (409, "the present state does not allow it"),
        (412, "the version differs from If-Match"),
        (413, "too large"),
        (415, "not JSON"),
        (422, "the Idempotency-Key was used with another request"),
        (428, "If-Match is missing"),
        (429, "too many wrong passwords"),
        (503, "the node does not answer now"),
    )
}


#: members of requests whose values are never returned
_SECRET = ("password", "token")


class FieldError(TypedDict):
    """The error of a member of a request."""

    pointer: str
    detail: str
    got: NotRequired[object]


class _Conflict(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT


def problem_response(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's answer to an exception, its body a problem. What is an error of ours is logged."""
    trace = {"trace_id": found} if (found := trace_id(context["request"])) else {}
    refusal = _refusal(error)
    if refusal is not None:
        set_rollback()
        headers = {name.decode(): value.decode() for name, value in headers_of(refusal)}
        body = _in_utf8(body_of(refusal, **trace))
        return Response(body, status_of(refusal), headers=headers, content_type=MEDIA_TYPE)
    error = _as_of_drf(error)
    response = exception_handler(error, context)
    if response is None:
        set_rollback()
        log.error("%s %s failed", context["request"].method, context["request"].path, exc_info=error)
        body = problem_body("internal", "the node failed; its log has the details", **trace)
        return Response(body, status.HTTP_500_INTERNAL_SERVER_ERROR, content_type=MEDIA_TYPE)
    name = _NAMES.get(response.status_code, "internal")
    extra: dict[str, list[FieldError]] = {}
    detail = _sentence(error)
    if isinstance(error, exceptions.ValidationError):
        extra["errors"] = errors = [_with_value(wrong, context["request"]) for wrong in _errors(error.detail)]
        detail = "; ".join(f"{wrong['pointer'] or 'the request'}: {wrong['detail']}" for wrong in errors[:3])
    elif isinstance(error, exceptions.ParseError):
        extra["errors"] = [{"pointer": "", "detail": detail}]
    response.data = _in_utf8(problem_body(name, detail, **extra, **trace))
    response.content_type = MEDIA_TYPE
    return response


def _refusal(error: Exception) -> Refused | None:
    """Exceptions with a problem of their own."""
    if isinstance(error, Stale):
        return Refused("precondition-failed", str(error), current=f'"{error.version}"')
    if isinstance(error, RefusedByCluster):
        return error.refusal
    if isinstance(error, RecursionError):
        return Refused("invalid", "this JSON is nested too deeply")
    if isinstance(error, OperationalError):
        log.warning("cannot use the configuration database: %s", error)
        return Refused("store-unavailable", "the configuration database cannot be used now")
    return error if isinstance(error, Refused) else None


def _as_of_drf(error: Exception) -> Exception:
    """Refusals of actions, as DRF has them."""
    if isinstance(error, InvalidEdits):
        return exceptions.ValidationError(_of_edits(error))
    if isinstance(error, ValidationError):
        by_field = hasattr(error, "error_dict")
        return exceptions.ValidationError(error.message_dict if by_field else error.messages)
    return _Conflict(str(error)) if isinstance(error, Conflict) else error


def _in_utf8(value: Any) -> Any:
    """A JSON value without halves of surrogates, which cannot be returned as they were sent."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_in_utf8(name): _in_utf8(inner) for name, inner in value.items()}
    return [_in_utf8(inner) for inner in value] if isinstance(value, list) else value


def _sentence(error: Exception) -> str:
    if isinstance(error, Http404):
        return "There is nothing of this name."
    if isinstance(error, PermissionDenied):
        return "You may not do this."
    return str(error.detail) if isinstance(error, exceptions.APIException) else str(error)


def _of_edits(error: InvalidEdits) -> dict[str, dict[str, Any]]:
    """The errors of each edit, by kind and key."""
    found: dict[str, dict[str, Any]] = {}
    for edit, fault in error.faults:
        wrong = fault.message_dict if hasattr(fault, "error_dict") else fault.messages
        found.setdefault(edit.kind, {})[edit.key] = wrong
    return found


def _with_value(wrong: FieldError, request: Request) -> FieldError:
    """An error with the value that was sent, where that is short and no secret."""
    try:
        found: Any = request.data
        for name in wrong["pointer"].split("/")[1:]:
            found = found[int(name)] if isinstance(found, list) else found[name]
    except (APIException, LookupError, TypeError, ValueError, RecursionError):
        return wrong
    if any(part in _SECRET for part in wrong["pointer"].split("/")) or found is None:
        return wrong
    if isinstance(found, bool | int | float):
        return {**wrong, "got": found}
    return (
        {**wrong, "got": found[:100].encode(errors="replace").decode()} if isinstance(found, str) else wrong
    )


def _errors(detail: Any, pointer: str = "") -> Any:
    """Each sentence of DRF's nested details, with the JSON pointer of the field it is about."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            whole = name == api_settings.NON_FIELD_ERRORS_KEY or name == "__all__"
            yield from _errors(inner, pointer if whole else f"{pointer}/{name}")
    elif isinstance(detail, list):
        for inner in detail:
            yield from _errors(inner, pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}
