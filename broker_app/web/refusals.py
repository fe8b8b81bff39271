"""Refusals: errors of the control plane as problems (RFC 9457). The one exception handler of DRF."""

from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import exceptions, status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler, set_rollback

from broker_app.net.problems import MEDIA_TYPE, problem_body
from broker_app.net.rest.refusals import Refusal
from broker_app.web.acting import trace_id
from broker_app.web.actions import Conflict, InvalidEdits, Stale

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
        (409, "the state of things forbids it now"),
        (412, "of another version than If-Match says"),
        (413, "too large"),
        (415, "not JSON"),
        (422, "the Idempotency-Key was used with another request"),
        (428, "If-Match is missing"),
        (429, "too many wrong passwords"),
        (503, "the node does not answer now"),
    )
}


#: members of requests whose values are never told back
_SECRET = ("password", "token")


class _Conflict(exceptions.APIException):
    status_code = status.HTTP_409_CONFLICT


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's answer to an exception, its body a problem; None lets an error of ours become a plain 500."""
    trace = {"trace_id": found} if (found := trace_id(context["request"])) else {}
    if isinstance(error, Stale):
        error = Refusal("precondition-failed", str(error), current=f'"{error.version}"')
    elif isinstance(error, RecursionError):
        error = Refusal("invalid", "this JSON is nested too deeply")
    if isinstance(error, Refusal):
        set_rollback()
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body(**trace), error.status, headers=headers, content_type=MEDIA_TYPE)
    if isinstance(error, InvalidEdits):
        error = exceptions.ValidationError(_of_edits(error))
    elif isinstance(error, ValidationError):
        by_field = hasattr(error, "error_dict")
        error = exceptions.ValidationError(error.message_dict if by_field else error.messages)
    elif isinstance(error, Conflict):
        error = _Conflict(str(error))
    response = exception_handler(error, context)
    if response is None:
        return None
    name = _NAMES.get(response.status_code, "internal")
    extra: dict[str, Any] = {}
    detail = _sentence(error)
    if isinstance(error, exceptions.ValidationError):
        extra["errors"] = errors = [_with_value(wrong, context["request"]) for wrong in _errors(error.detail)]
        detail = "; ".join(f"{wrong['pointer'] or 'the request'}: {wrong['detail']}" for wrong in errors[:3])
    response.data = problem_body(name, detail, **extra, **trace)
    response.content_type = MEDIA_TYPE
    return response


def _sentence(error: Exception) -> str:
    if isinstance(error, Http404):
        return "There is nothing of this name."
    if isinstance(error, PermissionDenied):
        return "You may not do this."
    return str(error.detail) if isinstance(error, exceptions.APIException) else str(error)


def _of_edits(error: InvalidEdits) -> dict[str, Any]:
    """What is wrong with each edit, by kind and key."""
    found: dict[str, Any] = {}
    for edit, fault in error.faults:
        wrong = fault.message_dict if hasattr(fault, "error_dict") else fault.messages
        found.setdefault(edit.kind, {})[edit.key] = wrong
    return found


def _with_value(wrong: dict[str, Any], request: Request) -> dict[str, Any]:
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
        # A name that is no text in UTF-8 cannot be told back as it came.
        yield {"pointer": pointer.encode(errors="replace").decode(), "detail": str(detail)}
