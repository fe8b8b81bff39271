"""Tokens over HTTP: one's own, and those of all users for administrators. A secret is shown once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response

from broker_app.base.refused import Refused
from broker_app.models import Token
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.web import actions
from broker_app.web.api import request_params
from broker_app.web.api.idempotency import once
from broker_app.web.api.permissions import is_administrator, require_administrator
from broker_app.web.api.resource import Resource
from broker_app.web.api.resources import listing
from broker_app.web.api.rows import Row, rows_of
from broker_app.web.resource_types.users import missing_user

#: those of all users
_ALL = "*"


def _sees_itself_alone(request: Request) -> str | None:
    """The key of the token of the request, if it has limited rights: such a token does not see others,
    neither their names nor their rights. None if all tokens are shown."""
    token = request.auth
    lends_part = isinstance(token, Token) and token.grants is not None
    return str(token) if lends_part and not is_administrator(request) else None


class Tokens(Resource):
    """The key is "user/name"; the address may hold it, or the token's number."""

    kind = "tokens"
    http_method_names = ("get", "post", "patch", "delete", "head", "options")
    created = "TokenRequest"
    shown_once = "NewToken"
    scope_parameters = ("user",)
    listing: ClassVar[Listing[Row]] = listing(
        kind, sortable=("id", "user", "created"), sort="user,name", last="id"
    )

    def check_may(self, request: Request, name: str) -> None:
        # A restricted token could otherwise create one with more permissions.
        token = request.auth
        if request.method in ("GET", "HEAD") or is_administrator(request):
            return
        if isinstance(token, Token) and token.grants is not None:
            detail = "a token with a part of its owner's permissions cannot create or change tokens"
            raise Refused("not-allowed", detail, right="administer")

    def rows(self, request: Request, query: dict[str, str]) -> list[Row]:
        whose = query.get("user", request.user.get_username())
        if whose != request.user.get_username():
            require_administrator(request)
        itself = _sees_itself_alone(request)
        return [
            row
            for row in rows_of(self.kind)
            if whose in (_ALL, row["user"]) and itself in (None, f"{row['user']}/{row['name']}")
        ]

    def key(self, name: str) -> str:
        if name.isascii() and name.isdigit() and len(name) < 19:
            token = Token.objects.filter(pk=int(name)).select_related("owner").first()
            name = str(token) if token is not None else name
        # Tokens of other users exist only for administrators.
        if name.partition("/")[0] != self.request.user.get_username() and not is_administrator(self.request):
            raise Refused("not-found", f"you have no token {name}"[:300])
        if _sees_itself_alone(self.request) not in (None, name):
            raise Refused("not-found", f"you have no token {name}"[:300])
        return name

    def names(self) -> Iterable[str]:
        itself, own = _sees_itself_alone(self.request), f"{self.request.user.get_username()}/"
        return [name for name in super().names() if name.startswith(own) and itself in (None, name)]

    def name_of_key(self, key: str) -> str:
        return key.partition("/")[2]

    def post(self, request: Request, name: str = "") -> Response:
        if name:
            raise MethodNotAllowed("POST")
        reply = once(request, lambda: self._create(request), secret=True)
        reply["Cache-Control"] = "no-store"
        return reply

    def _create(self, request: Request) -> Response:
        query = request_params.query(request, ("dry_run",))
        body = dict(request_params.body(request))
        owner = self._owner(request, body.pop("user", None))
        called = body.pop("name", None)
        if not isinstance(called, str):
            raise invalid("/name", "is missing" if called is None else "must be a text", called)
        key = f"{owner}/{called}"
        spec, _ = self._parse(key, body)
        secret, hidden = actions.make_secret()
        edit = actions.Edit(self.kind, key, spec, 0, secrets=hidden)
        if actions.version_of(self.kind, key):
            raise actions.Conflict(f"There is a token named {called} already.")
        outcome = self.apply(request, edit, query)
        return self.written(key, outcome, query, created=True, more={"token": secret})

    def _owner(self, request: Request, given: Any) -> str:
        own: str = request.user.get_username()
        if given is None or given == own:
            return own
        require_administrator(request)
        if not isinstance(given, str):
            raise invalid("/user", "must be the name of a user", given)
        if missing := missing_user(given):
            raise Refused("not-found", missing)
        return given
