"""The resources of one type over HTTP. One view answers for the list and for each resource.

Writes name the version that they replace, can be tried before (`?dry_run=true`), and are answered when this
node applies them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid, unknown
from broker_app.net.http.requests import boolean
from broker_app.web import actions
from broker_app.web.actor import actor_of
from broker_app.web.api import dry_run, request_params
from broker_app.web.api.conditions import etag, expected, is_known
from broker_app.web.api.openapi_schema import ResourceSchema
from broker_app.web.api.permissions import require_administrator
from broker_app.web.api.rows import Row, built_in, row_of, rows_of
from broker_app.web.api.schemas import ANSWERED, ENTRY, FACTS, SECRETS, SPEC_FIELDS, name_of
from broker_app.web.policy_sync import node_of
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.resource_type import Spec, no_such

MAX_PAGE = 500
_OF_WRITES = ("dry_run",)


def page_reply(request: Request, listing: Listing[Row], rows: list[Row], query: dict[str, str]) -> Response:
    """One page of a list, with the address of the next one. Raises Refused."""
    page = listing.page(rows, query)
    headers = {}
    if page.next is not None:
        more = urlencode({**query, "after": page.next})
        headers["Link"] = f'<{quote(request.path)}?{more}>; rel="next"'
    return Response(page._asdict(), headers=headers)


class Resource(APIView):
    """The resources of one type. `name` is empty at the address of the list, which takes `?name=`."""

    schema = ResourceSchema()
    kind: ClassVar[str]
    #: behind /api/v1/, if it is not the name of the type
    path: ClassVar[str] = ""
    listing: ClassVar[Listing[Row]]
    #: query parameters that choose the rows of a list before it is filtered
    scope_parameters: ClassVar[tuple[str, ...]] = ()

    @property
    def created(self) -> str:
        """The schema of the body of a POST."""
        return name_of(self.kind, "Put")

    @property
    def shown_once(self) -> str:
        """The schema of the reply to a POST."""
        return name_of(self.kind)

    @property
    def allowed_methods(self) -> list[str]:
        """The methods of this address."""
        found: list[str] = super().allowed_methods
        return (
            [name for name in found if name != "POST"] if getattr(self, "kwargs", {}).get("name") else found
        )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.check_may(request, kwargs.get("name", ""))

    def check_may(self, request: Request, name: str) -> None:
        """Raises Refused for users without the permission."""
        require_administrator(request)

    # ------------------------------------------------------------------ reading

    def get(self, request: Request, name: str = "") -> Response:
        if not name and "name" not in request.query_params:
            return self._list(request)
        query = request_params.query(request, ("name",))
        row = self._row(self._key(name, query))
        tag = self._etag(row)
        if is_known(request, tag):
            return Response(status=304, headers={"ETag": tag})
        return Response(row, headers={"ETag": tag})

    def _list(self, request: Request) -> Response:
        query = request_params.query(request, (*self.listing.parameters, *self.scope_parameters))
        return page_reply(request, self.listing, self.rows(request, query), query)

    def rows(self, request: Request, query: dict[str, str]) -> list[Row]:
        """The rows of a list."""
        rows = rows_of(self.kind)
        configured = {row["name"] for row in rows}
        return rows + [
            built_in(key, spec) for key, spec in self.built_in_specs().items() if key not in configured
        ]

    def built_in_specs(self) -> Mapping[str, Spec]:
        """The built-in resources, until they are replaced."""
        return {}

    # ------------------------------------------------------------------ writing

    def put(self, request: Request, name: str = "") -> Response:
        query = request_params.query(request, ("name", *_OF_WRITES))
        key = self._key(name, query)
        spec, secrets = self._parse(key, request_params.body(request))
        return self._write(request, query, key, spec, secrets)

    def patch(self, request: Request, name: str = "") -> Response:
        query = request_params.query(request, ("name", *_OF_WRITES))
        key = self._key(name, query)
        change, secrets = self._parse(key, request_params.body(request))
        row = self._row(key)
        before = {name: row[name] for name in SPEC_FIELDS[self.kind]}
        return self._write(request, query, key, request_params.merged(before, change), secrets)

    def delete(self, request: Request, name: str = "") -> Response:
        query = request_params.query(request, ("name", *_OF_WRITES))
        key = self._key(name, query)
        row = self._row(key)
        if not row["version"]:
            detail = f"{RESOURCE_TYPES[self.kind].one} {key} is built in; it can be changed, not deleted"
            raise Refused("conflict", detail)
        edit = actions.Edit(self.kind, key, None, expected(request, row["version"]))
        outcome = self.apply(request, edit, query)
        return (
            Response(dry_run.reply(outcome, node_of(self.request)))
            if boolean(query, "dry_run")
            else Response(status=204)
        )

    def _write(
        self,
        request: Request,
        query: dict[str, str],
        key: str,
        spec: dict[str, object],
        secrets: dict[str, object],
        more: dict[str, object] | None = None,
    ) -> Response:
        """The reply to a PUT or PATCH; `more` is shown only this once."""
        before = actions.version_of(self.kind, key)
        new = RESOURCE_TYPES[self.kind].changed_secrets(key, secrets)
        edit = actions.Edit(
            self.kind,
            key,
            spec,
            expected(request, before, built_in=key in self.built_in_specs()),
            secrets=new,
        )
        outcome = self.apply(request, edit, query)
        return self.written(key, outcome, query, created=before == 0, more=more)

    def apply(self, request: Request, edit: actions.Edit, query: dict[str, str]) -> actions.ChangeResult:
        """Carries out an edit, or tries it."""
        return actions.apply(actor_of(request), [edit], dry_run=boolean(query, "dry_run"))

    def written(
        self,
        key: str,
        outcome: actions.ChangeResult,
        query: dict[str, str],
        *,
        created: bool,
        more: dict[str, object] | None = None,
    ) -> Response:
        """The reply to a write; `more` is shown only this once."""
        if boolean(query, "dry_run"):
            return Response(dry_run.reply(outcome, node_of(self.request)))
        row = self._row(key)
        warnings = outcome.warnings()
        content = {**row, **(more or {}), **({"warnings": warnings} if warnings else {})}
        reply = Response(content, 201 if created else 200, headers={"ETag": self._etag(row)})
        if created:
            reply["Location"] = f"/api/v1/{self.path or self.kind}/{quote(key)}"
        return reply

    # ------------------------------------------------------------------ name and spec of a request

    def key(self, name: str) -> str:
        """The key of the resource with this name in the URL."""
        return name

    def name_of_key(self, key: str) -> str:
        """The name of the resource with this key."""
        return key

    def _key(self, name: str, query: dict[str, str]) -> str:
        if bool(name) == ("name" in query):
            detail = (
                "the address holds a name already" if name else "is missing, and the address holds no name"
            )
            raise invalid("query/name", detail)
        return self.key(name or query["name"])

    def _row(self, key: str) -> Row:
        row = row_of(self.kind, key)
        if row is None and key in (specs := self.built_in_specs()):
            row = built_in(key, specs[key])
        if row is None:
            raise Refused("not-found", no_such(RESOURCE_TYPES[self.kind].one, key[:200], self.names())[:500])
        return row

    def names(self) -> Iterable[str]:
        """The names to suggest from for a mistyped one."""
        return [*RESOURCE_TYPES[self.kind].read(), *self.built_in_specs()]

    def _etag(self, row: Row) -> str:
        living = [row[fact] for fact in FACTS.get(self.kind, {})]
        if not living:
            return etag(row["version"])
        return etag(row["version"], hashlib.blake2s(json.dumps(living).encode(), digest_size=4).hexdigest())

    def _parse(self, key: str, body: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """The spec and the secrets. A body that was read can be sent back: status members are ignored."""
        spec, secrets, of_secrets = {}, {}, SECRETS.get(self.kind, {})
        known = [*SPEC_FIELDS[self.kind], *of_secrets]
        for name, value in body.items():
            if name in of_secrets:
                secrets[name] = value
            elif name == "name":
                self._check_same(key, value)
            elif name in SPEC_FIELDS[self.kind]:
                spec[name] = value
            elif name not in {**ENTRY, **FACTS.get(self.kind, {}), **ANSWERED.get(self.kind, {})}:
                raise unknown(f"/{name[:100]}", name, known, "field")
        return spec, secrets

    def _check_same(self, key: str, name: object) -> None:
        if name != self.name_of_key(key):
            raise invalid("/name", "is not the name in the URL; a resource cannot be renamed")
