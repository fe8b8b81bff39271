"""The audit log over HTTP: pages, an export without end, and a look at whether it is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from broker_app.models import AuditEntry
from broker_app.net.http.refusals import invalid
from broker_app.net.http.requests import whole_number
from broker_app.net.rest.openapi.schemas import PAGING, TEXT, TIME, array_of, object_of
from broker_app.web.actions import audit
from broker_app.web.api import request_params
from broker_app.web.api.openapi_schema import problem_replies, query
from broker_app.web.api.paging import AFTER, LIMIT, linked
from broker_app.web.api.permissions import MayAdminister

NDJSON = "application/x-ndjson"
_RUN = 500
#: parameter → the column that it is about
_EQUAL = {
    "author": "author",
    "action": "action",
    "kind": "kind",
    "name": "key",
    "via": "via",
    "token": "token",
}
_TIMES = {"from": "time__gte", "to": "time__lt"}
_FILTERS = (*_EQUAL, *_TIMES)

_ENTRY = object_of(
    {
        "number": {"type": "integer", "minimum": 1},
        "time": TIME,
        "author": {**TEXT, "description": "empty for who failed to log in"},
        "via": {**TEXT, "description": "console, api, cli, file, start, stomp"},
        "address": TEXT,
        "token": TEXT,
        "action": TEXT,
        "kind": TEXT,
        "name": TEXT,
        "before": {"description": "the former spec; null: none"},
        "after": {"description": "the new spec, or facts of the action"},
        "secrets": {**array_of(TEXT), "description": "names of the secrets that were replaced"},
        "reason": TEXT,
        "trace_id": TEXT,
        "version": {"type": ["integer", "null"], "description": "that it led to"},
        "digest": {**TEXT, "description": "SHA-256 of the digest before it and of this entry"},
    }
)


class Lines(JSONRenderer):
    """Replies of one JSON object per line, on request; errors are plain JSON."""

    media_type = NDJSON
    format = "ndjson"


class AuditLog(APIView):
    """The audit log."""

    permission_classes = (MayAdminister,)
    renderer_classes = (JSONRenderer, Lines)

    @extend_schema(
        operation_id="list_audit_entries",
        parameters=[
            LIMIT,
            AFTER,
            *(query(name, TEXT, f"only entries of this {column}") for name, column in _EQUAL.items()),
            query("from", TIME, "not before this time"),
            query("to", TIME, "before this time"),
        ],
        responses={
            (200, "application/json"): object_of({"items": array_of(_ENTRY), **PAGING}),
            (200, NDJSON): {"type": "string", "description": "a line of JSON for each entry, oldest first"},
            **problem_replies(400, 401, 403, 405, 406),
        },
    )
    def get(self, request: Request) -> Response | StreamingHttpResponse:
        """Entries of the audit log, the newest first; as NDJSON all of them, the oldest first"""
        asks = request_params.query(request, ("limit", "after", *_FILTERS))
        found = _filtered(asks)
        limit = whole_number(asks, "limit", 100, 1, 500)
        after = whole_number(asks, "after", 0, 0, 10**15)
        if request.accepted_renderer.format == Lines.format:
            return StreamingHttpResponse(lines(found), content_type=NDJSON)
        rows = found.filter(number__lt=after) if after else found
        page = list(rows.order_by("-number")[: limit + 1])
        following = str(page[limit - 1].number) if len(page) > limit else None
        items = [_shown(entry) for entry in page[:limit]]
        return linked(request, asks, {"items": items, "next": following, "approx_total": found.count()})


class Verification(APIView):
    """The integrity of the log."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="verify_audit_log",
        responses={
            200: object_of(
                {
                    "valid": {"type": "boolean"},
                    "entries": {"type": "integer", "description": "that fit one another"},
                    "first": {"type": "integer", "description": "number of the first that is kept"},
                    "last": {"type": "integer", "description": "number of the newest"},
                    "broken_at": {
                        "type": ["integer", "null"],
                        "description": "number of the first that is missing, or was changed",
                    },
                }
            ),
            **problem_replies(400, 401, 403, 405, 406),
        },
    )
    def get(self, request: Request) -> Response:
        """Verify the hash chain of the audit log"""
        request_params.query(request, ())
        verdict = audit.verify()
        return Response({"valid": verdict.broken_at is None, **verdict._asdict()})


def _filtered(asks: dict[str, str]) -> QuerySet[AuditEntry]:
    """Those that a query asks for. Raises Refused."""
    wanted: dict[str, object] = {column: asks[name] for name, column in _EQUAL.items() if name in asks}
    for name, column in _TIMES.items():
        if name in asks:
            wanted[column] = _time(name, asks[name])
    return AuditEntry.objects.filter(**wanted)


def _time(name: str, text: str) -> Any:
    try:
        found = parse_datetime(text)
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or none in UTC
        pass
    raise invalid(f"query/{name}", "must be a time with its zone, such as 2027-01-31T12:00:00Z", text)


async def lines(found: QuerySet[AuditEntry]) -> AsyncIterator[bytes]:
    """A line of JSON for each entry, the oldest first. In runs: memory does not grow with the log."""
    last, encoder = 0, JSONEncoder(ensure_ascii=False)
    while True:
        run = await sync_to_async(_run)(found, last)
        if not run:
            return
        yield "".join(f"{encoder.encode(_shown(entry))}\n" for entry in run).encode()
        last = run[-1].number


def _run(found: QuerySet[AuditEntry], behind: int) -> list[AuditEntry]:
    return list(found.filter(number__gt=behind).order_by("number")[:_RUN])


def _shown(entry: AuditEntry) -> dict[str, object]:
    return {
        "number": entry.number,
        "time": entry.time,
        "author": entry.author,
        "via": entry.via,
        "address": entry.address,
        "token": entry.token,
        "action": entry.action,
        "kind": entry.kind,
        "name": entry.key,
        "before": entry.before,
        "after": entry.after,
        "secrets": entry.secrets,
        "reason": entry.reason,
        "trace_id": entry.trace_id,
        "version": entry.change,
        "digest": entry.digest,
    }
