"""Definitions over HTTP: all that is configured as one document, as JSON or YAML; planned, then applied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.net.http.requests import boolean
from broker_app.net.rest.openapi.schemas import BOOLEAN, TEXT, Json, array_of, object_of
from broker_app.web import definitions, history
from broker_app.web.actor import actor_of
from broker_app.web.api import dry_run, request_params
from broker_app.web.api.conditions import etag, require
from broker_app.web.api.openapi_schema import ETAG, IF_MATCH, REASON, problem_replies, query
from broker_app.web.api.permissions import MayAdminister
from broker_app.web.api.schemas import CHANGE, IMPACT
from broker_app.web.impact import of_changes
from broker_app.web.policy_sync import node_of

JSON, YAML = "application/json", "application/yaml"
_MAX_FAULTS = 100
_COUNT = {"type": "integer", "minimum": 0}
_THING = {"kind": TEXT, "name": TEXT}
_IN_FILE = object_of({**_THING, "origin": TEXT})
_PRUNE = query("prune", BOOLEAN, "whether what the document's kinds have and the document has not, goes")
_DOCUMENT: Json = {
    "type": "object",
    "properties": {"mom_definitions": {"const": 1}},
    "required": ["mom_definitions"],
    "description": "for each kind an object of names and specs",
}
_PLAN = object_of(
    {
        "version": {
            **_COUNT,
            "description": "of the configuration: that was compared, or is now",
        },
        "applied": BOOLEAN,
        "prune": BOOLEAN,
        "created": _COUNT,
        "changed": _COUNT,
        "removed": _COUNT,
        "unchanged": _COUNT,
        "changes": array_of(CHANGE),
        "conflicts": {**array_of(_IN_FILE), "description": "what files say otherwise; must be fixed first"},
        "kept": {**array_of(_IN_FILE), "description": "what is not in the document and stays"},
        "without_secret": {
            **array_of(object_of(_THING)),
            "description": "what is made without a password, and needs one",
        },
        "impact": IMPACT,
    },
    required=(
        "version", "applied", "prune", "created", "changed", "removed", "unchanged", "changes", "conflicts",
        "kept", "without_secret",
    ),
)  # fmt: skip
_TAKES: Json = {
    "parameters": [_PRUNE, REASON, ETAG],
    "request": {JSON: _DOCUMENT, YAML: _DOCUMENT},
}


class _Unread(BaseParser):
    """Leave the document to `web.definitions`, which reports lines and duplicate names."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return stream.read()


class JsonDocument(_Unread):
    media_type = JSON


class YamlDocument(_Unread):
    media_type = YAML


class WrittenJson(JSONRenderer):
    """Indented: definitions are kept under version control."""

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        if renderer_context is None or renderer_context["response"].exception:
            return super().render(data, accepted_media_type, renderer_context)
        return definitions.to_json(data).encode()


class WrittenYaml(BaseRenderer):
    media_type = YAML
    format = "yaml"
    charset = None
    render_style = "binary"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        if renderer_context is None or renderer_context["response"].exception:
            return JSONRenderer().render(data)
        return definitions.to_yaml(data).encode()


class Definitions(APIView):
    """The document, out and in."""

    permission_classes = (MayAdminister,)
    parser_classes = (JsonDocument, YamlDocument)

    def get_renderers(self) -> list[Any]:
        return [WrittenJson(), WrittenYaml()] if self.request.method == "GET" else [JSONRenderer()]

    @extend_schema(
        operation_id="export_definitions",
        parameters=[ETAG],
        responses={
            (200, JSON): _DOCUMENT,
            (200, YAML): _DOCUMENT,
            **problem_replies(400, 401, 403, 405, 406),
        },
    )
    def get(self, request: Request) -> Response:
        """All that is configured, as one document without secrets and tokens"""
        request_params.query(request, ())
        document = definitions.export()
        return Response(document, headers={"ETag": etag(document["version"])})

    @extend_schema(
        operation_id="apply_definitions",
        **{**_TAKES, "parameters": [_PRUNE, IF_MATCH, REASON, ETAG]},
        responses={200: _PLAN, **problem_replies(400, 401, 403, 405, 406, 409, 412, 413, 415, 428, 503)},
    )
    def post(self, request: Request) -> Response:
        """Apply a document, whole or not at all. If-Match: the ETag of the plan"""
        prune = boolean(request_params.query(request, ("prune",)), "prune")
        document, now = _document(request), history.newest()
        require(request, etag(now, definitions.digest_of(document, prune=prune)), etag(now))
        try:
            done = definitions.apply(actor_of(request), document, prune=prune, expected=now)
        except definitions.InvalidDocument as wrong:
            raise _refusal(wrong) from wrong
        return _reply(done, prune=prune, applied=True)


class DefinitionsPlan(APIView):
    """The plan of a document."""

    changes_nothing: ClassVar = True
    permission_classes = (MayAdminister,)
    parser_classes = (JsonDocument, YamlDocument)

    @extend_schema(
        operation_id="plan_definitions",
        **_TAKES,
        responses={200: _PLAN, **problem_replies(400, 401, 403, 405, 406, 409, 413, 415)},
    )
    def post(self, request: Request) -> Response:
        """Plan a document. Applying it needs the ETag of the plan"""
        prune = boolean(request_params.query(request, ("prune",)), "prune")
        document = _document(request)
        try:
            planned = definitions.plan(actor_of(request), document, prune=prune)
        except definitions.InvalidDocument as wrong:
            raise _refusal(wrong) from wrong
        impact = of_changes(node_of(request), planned.changes)
        return _reply(planned, prune=prune, applied=False, more={} if impact is None else {"impact": impact})


def _document(request: Request) -> definitions.Document:
    """The document that a request brings. Raises Refused."""
    content: Any = request.data
    yaml = re.fullmatch(rf"{YAML}\s*(;.*)?", request.content_type or "", re.IGNORECASE) is not None
    if not isinstance(content, bytes):
        content = b""
    try:
        return definitions.from_yaml(content) if yaml else definitions.from_json(content)
    except definitions.InvalidDocument as wrong:
        raise _refusal(wrong) from wrong


def _refusal(wrong: definitions.InvalidDocument) -> Refused:
    errors = [
        {"pointer": fault.pointer.encode(errors="replace").decode(), "detail": fault.detail}
        for fault in wrong.faults[:_MAX_FAULTS]
    ]
    more = len(wrong.faults) - _MAX_FAULTS
    detail = str(wrong).encode(errors="replace").decode()
    return Refused("invalid", detail + (f"; and {more} more faults" if more > 0 else ""), errors=errors)


def _reply(
    plan: definitions.ImportPlan, *, prune: bool, applied: bool, more: Facts | None = None
) -> Response:
    actions = [changed.action for changed in plan.changes]
    version = history.newest() if applied else plan.version
    body = {
        "version": version,
        "applied": applied,
        "prune": prune,
        **{action: actions.count(action) for action in ("created", "changed", "removed")},
        "unchanged": plan.unchanged,
        "changes": [dry_run.change(changed) for changed in plan.changes],
        "conflicts": [_in_file(one) for one in plan.conflicts],
        "kept": [_in_file(one) for one in plan.kept],
        "without_secret": [{"kind": kind, "name": key} for kind, key in plan.bare],
        **(more or {}),
    }
    return Response(body, headers={"ETag": etag(version, "" if applied else plan.digest)})


def _in_file(one: Any) -> dict[str, str]:
    return {"kind": one.kind, "name": one.key, "origin": one.origin}
