"""Versions of the configuration over HTTP: what each changed, how two differ, and the via back."""

from __future__ import annotations

from typing import Any, NamedTuple

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.models import Change
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.requests import whole_number
from broker_app.net.rest.openapi.schemas import BOOLEAN, PAGING, TEXT, TIME, Json, array_of, object_of
from broker_app.web import history
from broker_app.web.actor import actor_of
from broker_app.web.api import dry_run, request_params
from broker_app.web.api.conditions import etag, require
from broker_app.web.api.openapi_schema import ETAG, IF_MATCH, REASON, problem_replies, query
from broker_app.web.api.paging import AFTER, LIMIT, linked
from broker_app.web.api.permissions import MayAdminister
from broker_app.web.api.schemas import CHANGE, IMPACT, WARNINGS
from broker_app.web.policy_sync import node_of
from broker_app.web.resource_types import RESOURCE_TYPES

_ABOUT: Json = {
    "version": {"type": "integer", "minimum": 1},
    "time": TIME,
    "author": TEXT,
    "via": {**TEXT, "description": "console, api, cli, file, start"},
    "address": TEXT,
    "reason": TEXT,
}
_NAMED = object_of({name: CHANGE["properties"][name] for name in ("kind", "name", "action")})
_NUMBER = {"type": "integer", "minimum": 0}
_KEPT = object_of({"kind": TEXT, "name": TEXT, "reason": TEXT})
_ALWAYS = (400, 401, 403, 405, 406)
_WISH = {
    "to": {**_NUMBER, "description": "the version that is to be again"},
    "kind": {"enum": list(RESOURCE_TYPES), "description": "with `name`: one resource only"},
    "name": TEXT,
    "reason": {**TEXT, "maxLength": 1000},
    "dry_run": {**BOOLEAN, "default": False},
}


class Versions(APIView):
    """All of them."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="list_versions",
        parameters=[
            LIMIT,
            AFTER,
            query(
                "kind", {"enum": list(RESOURCE_TYPES)}, "only versions that changed something of this kind"
            ),
            query("name", TEXT, "only versions that changed something of this name"),
            query("author", TEXT, "only versions by this user"),
            ETAG,
        ],
        responses={
            200: object_of({"items": array_of(object_of({**_ABOUT, "changes": array_of(_NAMED)})), **PAGING}),
            **problem_replies(*_ALWAYS),
        },
    )
    def get(self, request: Request) -> Response:
        """Versions of the configuration, the newest first, and what each changed"""
        asks = request_params.query(request, ("limit", "after", "kind", "name", "author"))
        if "kind" in asks and asks["kind"] not in RESOURCE_TYPES:
            raise unknown("query/kind", asks["kind"], RESOURCE_TYPES, "kind")
        limit = whole_number(asks, "limit", 100, 1, 500)
        before = whole_number(asks, "after", 0, 0, 10**15) or None
        named = {"kind": asks.get("kind", ""), "key": asks.get("name", ""), "author": asks.get("author", "")}
        found = history.versions(before, limit + 1, **named)
        following = str(found[limit - 1].number) if len(found) > limit else None
        rows = [
            {**_about(change), "changes": [_named(row) for row in change.objects_changed.all()]}
            for change in found[:limit]
        ]
        page = {"items": rows, "next": following, "approx_total": Change.objects.count()}
        return linked(request, asks, page, {"ETag": etag(history.newest())})


class OneVersion(APIView):
    """One of them."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="get_version",
        responses={
            200: object_of({**_ABOUT, "changes": array_of(CHANGE)}),
            **problem_replies(*_ALWAYS, 404),
        },
    )
    def get(self, request: Request, number: str) -> Response:
        """Get a version: author, reason, and the resources before and after"""
        request_params.query(request, ())
        try:
            change = history.version(_number(number))
        except history.NoSuchVersion as missing:
            raise Refused("not-found", str(missing)) from missing
        changes = [dry_run.change(changed) for changed in history.changes_of(change)]
        return Response({**_about(change), "changes": changes})


class Difference(APIView):
    """The difference of two versions."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="compare_versions",
        responses={
            200: object_of(
                {
                    "from": _NUMBER,
                    "to": _NUMBER,
                    "changes": array_of(CHANGE),
                    "text": {**TEXT, "description": "the same as a unified diff"},
                }
            ),
            **problem_replies(*_ALWAYS, 404),
        },
    )
    def get(self, request: Request, number: str, other: str) -> Response:
        """Compare two versions"""
        request_params.query(request, ())
        old, new = _number(number), _number(other)
        try:
            found = history.difference(old, new)
        except history.NoSuchVersion as missing:
            raise Refused("not-found", str(missing)) from missing
        text = history.text_diff(old, new, found)
        changes = [dry_run.change(changed) for changed in found]
        return Response({"from": old, "to": new, "changes": changes, "text": text})


class Rollback(APIView):
    """The via back."""

    permission_classes = (MayAdminister,)

    @extend_schema(
        operation_id="roll_back",
        parameters=[IF_MATCH, REASON, ETAG],
        request={"application/json": object_of(_WISH, required=("to",))},
        responses={
            200: object_of(
                {
                    "dry_run": BOOLEAN,
                    "version": {**_NUMBER, "type": ["integer", "null"], "description": "null: nothing to do"},
                    "changes": array_of(CHANGE),
                    "kept": {**array_of(_KEPT), "description": "what stays as it is, and why"},
                    "warnings": WARNINGS,
                    "impact": IMPACT,
                },
                required=("dry_run", "version", "changes", "kept"),
            ),
            **problem_replies(*_ALWAYS, 404, 409, 412, 413, 415, 428, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Roll back to a version, by a new version; or preview the changes"""
        request_params.query(request, ())
        wish = _wish(request_params.body(request))
        newest = history.newest()
        if not wish.dry_run or "If-Match" in request.headers:
            require(request, etag(newest))
        try:
            back = history.go_back(
                actor_of(request, wish.reason),
                wish.to,
                newest,
                only=wish.only,
                dry_run=wish.dry_run,
            )
        except history.NoSuchVersion as missing:
            raise Refused("not-found", str(missing)) from missing
        body = {
            **dry_run.reply(back.outcome, node_of(request) if wish.dry_run else None),
            "dry_run": wish.dry_run,
            "kept": [{"kind": one.kind, "name": one.key, "reason": one.why} for one in back.kept],
        }
        return Response(body, headers={"ETag": etag(history.newest())})


def _number(text: str) -> int:
    """The number of a version in an address. Raises Refused."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Refused("not-found", f"{text[:40]} is the number of no version")
    return int(text)


class _Wish(NamedTuple):
    """The version to roll back to; `only` is the kind and name of the resource if it is one."""

    to: int
    dry_run: bool
    reason: str
    only: tuple[str, str] | None


def _wish(body: Facts) -> _Wish:
    """The version to roll back to. Raises Refused."""
    for name in body:
        if name not in _WISH:
            raise unknown(f"/{name[:100]}", name, _WISH, "field")
    to, dry = body.get("to"), body.get("dry_run", False)
    if not isinstance(to, int) or isinstance(to, bool) or to < 0:
        raise invalid("/to", "must be the number of a version")
    if not isinstance(dry, bool):
        raise invalid("/dry_run", "must be true or false")
    reason = body.get("reason", "")
    if not isinstance(reason, str) or len(reason) > 1000:
        raise invalid("/reason", "must be a text of at most 1,000 characters")
    if ("kind" in body) != ("name" in body):
        raise invalid("/name", "kind and name belong together")
    if "kind" not in body:
        return _Wish(to, dry, reason, None)
    if body["kind"] not in list(RESOURCE_TYPES) or not isinstance(body["name"], str):
        raise invalid("/kind", f"must be one of {', '.join(RESOURCE_TYPES)}, and name a text")
    return _Wish(to, dry, reason, (body["kind"], body["name"]))


def _about(change: Change) -> dict[str, object]:
    return {
        "version": change.number,
        "time": change.time,
        "author": change.author,
        "via": change.via,
        "address": change.address,
        "reason": change.reason,
    }


def _named(row: Any) -> dict[str, str]:
    action = "created" if row.before is None else "removed" if row.after is None else "changed"
    return {"kind": row.kind, "name": row.key, "action": action}
