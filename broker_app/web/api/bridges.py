"""Bridges beyond what all kinds have: one made like another, and settings tested before they are saved."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.audit_actions import BRIDGE_TESTED
from broker_app.base.refused import Refused
from broker_app.features.bridge.connection_test import LONGEST_S
from broker_app.features.bridge.remote import Remote
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.rest.openapi.schemas import TEXT, object_of, or_null, ref
from broker_app.web import actions
from broker_app.web.actions import audit
from broker_app.web.actor import actor_of
from broker_app.web.api import dry_run, request_params
from broker_app.web.api.conditions import etag
from broker_app.web.api.idempotency import once
from broker_app.web.api.openapi_schema import DRY_RUN, KEY, REASON, problem_replies
from broker_app.web.api.permissions import MayAdminister
from broker_app.web.api.rows import row_of
from broker_app.web.api.schemas import NEEDED, SECRETS, SPEC_FIELDS
from broker_app.web.policy_sync import ask, node_of
from broker_app.web.refusals import PROBLEM_REPLIES
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.bridges import whole as whole_bridge
from broker_app.web.resource_types.resource_type import check_storable, completed, no_such

_KIND = "bridges"
_NAME = {**TEXT, "minLength": 1, "maxLength": 300}
_CLONE = object_of(
    {
        "name": {**_NAME, "description": "of the new one"},
        **{field: or_null(schema) for field, schema in SPEC_FIELDS[_KIND].items()},
        **SECRETS[_KIND],
    },
    required=("name",),
)
_TRY = object_of(
    {
        "name": {**_NAME, "description": "of the bridge; the stored password of an existing one is used"},
        "queue": {"type": ["string", "null"], "description": "a remote queue whose rights are asked for"},
        **SPEC_FIELDS[_KIND],
        **SECRETS[_KIND],
    },
    required=("name", *NEEDED[_KIND]),
)


class CloneBridge(APIView):
    """A copy of a bridge."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="clone_bridge",
        parameters=[KEY, DRY_RUN, REASON],
        request={"application/json": _CLONE},
        responses={
            200: ref("DryRun"), 201: ref("Bridge"),
            **problem_replies(400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 503),
        },
    )  # fmt: skip
    def post(self, request: Request, name: str) -> Response:
        """Create a copy of a bridge with the given changes; its password is copied unseen"""
        return once(request, lambda: self._clone(request, name))

    def _clone(self, request: Request, name: str) -> Response:
        query = request_params.query(request, ("dry_run",))
        new, differing, other_secrets = _split(request_params.body(request))
        check_storable(new, differing)
        copied = whole_bridge(name)
        if copied is None:
            raise Refused("not-found", no_such("bridge", name[:100], RESOURCE_TYPES[_KIND].read()))
        if actions.version_of(_KIND, new):
            raise actions.Conflict(f"There is a bridge {new} already.")
        tried = query.get("dry_run") == "true"
        spec, secrets = copied
        whole = {field: value for field, value in (spec | differing).items() if value is not None}
        edit = actions.Edit(_KIND, new, whole, 0, secrets=secrets | other_secrets)
        outcome = actions.apply(actor_of(request), [edit], dry_run=tried)
        if tried:
            return Response(dry_run.reply(outcome, node_of(request)))
        row = row_of(_KIND, new)
        assert row is not None, "it was made in this transaction"
        headers = {"ETag": etag(row["version"]), "Location": f"/api/v1/{_KIND}/{new}"}
        return Response(row, 201, headers=headers)


class TryBridge(APIView):
    """A connection test with settings that need not be saved."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="try_bridge",
        request={"application/json": _TRY},
        responses={200: ref("BridgeTrial"), **PROBLEM_REPLIES},
    )
    def post(self, request: Request) -> Response:
        """Test a connection with these settings, step by step; nothing is saved and nothing left behind"""
        request_params.query(request, ())
        remote, queue = _remote(request_params.body(request))
        node = node_of(request)
        if node is None:
            raise Refused("not-active", "no broker runs in this process; ask one that does")
        found = ask(node, node.operations.test_remote(remote, queue), within_s=LONGEST_S + 5)
        tested = audit.Action.of(
            BRIDGE_TESTED, remote.name, address=remote.address, queue=queue, ok=found["ok"]
        )
        audit.record(actor_of(request), tested)
        return Response(found)


def _split(body: dict[str, object], *more: str) -> tuple[str, Spec, Spec]:
    """The name, the spec and the secrets of a bridge. `more` are other fields that are allowed."""
    spec: Spec = {field: value for field, value in body.items() if field not in ("name", *more)}
    name = body.get("name")
    if not isinstance(name, str):
        raise invalid("/name", "is missing" if name is None else "must be a text", name)
    secrets = {field: spec.pop(field) for field in SECRETS[_KIND] if field in spec}
    for field in spec:
        if field not in SPEC_FIELDS[_KIND]:
            raise unknown(
                f"/{field[:100]}", field, ("name", *more, *SPEC_FIELDS[_KIND], *SECRETS[_KIND]), "field"
            )
    return name, spec, secrets


def _remote(body: dict[str, object]) -> tuple[Remote, str | None]:
    """The connection to test. Raises Refused and ValidationError."""
    name, spec, secrets = _split(body, "queue")
    queue = body.get("queue")
    if queue is not None and not isinstance(queue, str):
        raise invalid("/queue", "must be a text", queue)
    kind = RESOURCE_TYPES[_KIND]
    check_storable(name, spec)
    whole = completed(kind, name, spec, None)
    kind.check(name, whole)
    kind.check_secrets(name, whole, secrets)
    return Remote.of(name, whole, secrets.get("password", _kept_password(name, whole))), queue


def _kept_password(name: str, spec: Spec) -> str:
    """The stored password, if it would be sent to the same host, port and user; else empty."""
    found = whole_bridge(name)
    if found is None or any(found[0][part] != spec[part] for part in ("hostname", "port", "user")):
        return ""
    return found[1].get("password", "")
