"""Callbacks over HTTP: those of all users for administrators, one's own for users who manage the source.

A secret that is made here is shown once, in the reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app import models
from broker_app.base.refused import Refused
from broker_app.base.shares import reserve
from broker_app.features.callbacks.webhooks.signature import new_secret
from broker_app.models import Token
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.net.rest.openapi.schemas import ref
from broker_app.rules.event import MANAGE
from broker_app.web import actions
from broker_app.web.actor import actor_of
from broker_app.web.api import request_params
from broker_app.web.api.idempotency import once
from broker_app.web.api.openapi_schema import KEY, REASON, problem_replies
from broker_app.web.api.permissions import is_administrator
from broker_app.web.api.resource import Resource
from broker_app.web.api.resources import has, listing
from broker_app.web.api.rows import Row, row_of, rows_of
from broker_app.web.auth.owner_rights import refusal
from broker_app.web.resource_types import RESOURCE_TYPES, Spec
from broker_app.web.resource_types.callbacks import MOST, address_of
from broker_app.web.resource_types.resource_type import completed, no_such

_KIND = "callbacks"
#: of one user who is no administrator
MOST_OF_USER = 100


class Callbacks(Resource):
    """`name` may be left out of a POST, and is made up then."""

    kind = _KIND
    created = "CallbackRequest"
    shown_once = "NewCallback"
    listing: ClassVar[Listing[Row]] = listing(
        kind,
        sortable=("owner", "queue", "topic", "url", "mode", "desired"),
        matches={
            "owner": has("owner"), "queue": has("queue"), "topic": has("topic"), "mode": has("mode"),
            "desired": has("desired"),
        },
    )  # fmt: skip

    def check_may(self, request: Request, name: str) -> None:
        check_token(request)

    def rows(self, request: Request, query: dict[str, str]) -> list[Row]:
        return [row for row in rows_of(self.kind) if _sees(request, row)]

    def names(self) -> Iterable[str]:
        specs = RESOURCE_TYPES[self.kind].read()
        return [name for name, spec in specs.items() if _sees(self.request, spec)]

    def key(self, name: str) -> str:
        # Callbacks of other users exist only for administrators.
        spec = RESOURCE_TYPES[self.kind].read([name]).get(name)
        if spec is not None and not _sees(self.request, spec):
            raise Refused("not-found", f"you have no callback {name}"[:300])
        return name

    def post(self, request: Request, name: str = "") -> Response:
        if name:
            raise MethodNotAllowed("POST")
        return _unstored(once(request, lambda: self._create(request), secret=True))

    def _create(self, request: Request) -> Response:
        query = request_params.query(request, ("dry_run",))
        body = request_params.body(request)
        # Within the transaction of the write, so that no other request takes the name meanwhile.
        key = body["name"] if "name" in body else _free_name()
        if not isinstance(key, str):
            raise invalid("/name", "must be a text", key)
        if actions.version_of(self.kind, key):
            raise actions.Conflict(f"There is a callback {key} already.")
        spec, secrets = self._parse(key, body)
        spec, secrets, shown = _completed(request, spec, secrets)
        outcome = self.apply(request, actions.Edit(self.kind, key, spec, 0, secrets=secrets), query)
        return self.written(key, outcome, query, created=True, more=shown)

    def _write(
        self,
        request: Request,
        query: dict[str, str],
        key: str,
        spec: dict[str, object],
        secrets: dict[str, object],
        more: dict[str, object] | None = None,
    ) -> Response:
        if not actions.version_of(self.kind, key):
            spec, secrets, more = _completed(request, spec, secrets)
        return _unstored(super()._write(request, query, key, spec, secrets, more))

    def apply(self, request: Request, edit: actions.Edit, query: dict[str, str]) -> actions.ChangeResult:
        if not is_administrator(request):
            _check_own(request, edit)
        return super().apply(request, edit, query)


class RotateSecret(APIView):
    """A new secret of a callback."""

    @extend_schema(
        operation_id="rotate_callback_secret",
        parameters=[KEY, REASON],
        request=None,
        responses={
            201: ref("NewCallback"), **problem_replies(400, 401, 403, 404, 405, 406, 409, 413, 422, 503),
        },
    )  # fmt: skip
    def post(self, request: Request, name: str) -> Response:
        """Replace the secret of a callback by a new one; the former one signs too for a day"""
        check_token(request)
        return _unstored(once(request, lambda: self._rotate(request, name), secret=True))

    def _rotate(self, request: Request, name: str) -> Response:
        request_params.query(request, ())
        specs = RESOURCE_TYPES[_KIND].read()
        spec = specs.get(name)
        if spec is None or not _sees(request, spec):
            known = [key for key, one in specs.items() if _sees(request, one)]
            raise Refused("not-found", no_such("callback", name[:200], known)[:500])
        secret = new_secret()
        actions.apply(actor_of(request), [actions.Edit(_KIND, name, spec, secrets={"secret": secret})])
        row = row_of(_KIND, name)
        assert row is not None, "it was changed in this transaction"
        headers = {"Location": f"/api/v1/{_KIND}/{name}"}
        return Response({**row, "secret": secret}, 201, headers=headers)


def check_token(request: Request) -> None:
    """Raises Refused for a token with a part of its owner's rights, which a callback would act with."""
    token = request.auth
    if isinstance(token, Token) and token.grants is not None and not is_administrator(request):
        detail = "a token with a part of its owner's permissions cannot see or change callbacks"
        raise Refused("not-allowed", detail, right="administer")


def _check_own(request: Request, edit: actions.Edit) -> None:
    """Raises Refused unless a user may make, change or remove the callback."""
    user = request.user.get_username()
    if edit.spec is None:
        return
    kind = RESOURCE_TYPES[_KIND]
    spec: Spec = completed(kind, edit.key, edit.spec, None)
    if spec.get("owner") != user:
        raise Refused("not-allowed", "only administrators make callbacks of other users", right="administer")
    kind.check(edit.key, spec)
    address = address_of(spec)
    if reason := refusal(user, address, MANAGE):
        raise Refused(
            "not-allowed", f"a callback takes messages from others, so it needs this right: {reason}",
            right=MANAGE, destination=address,
        )  # fmt: skip
    own = models.Callback.objects.filter(values__owner=user).exclude(name=edit.key).count()
    if own >= MOST_OF_USER:
        raise actions.Conflict(f"You have {MOST_OF_USER} callbacks; remove one first.")
    of_all, reserved = models.Callback.objects.exclude(name=edit.key).count(), reserve(MOST)
    if of_all >= MOST - reserved:
        raise actions.Conflict(
            f"There are {of_all} callbacks of all users; of {MOST} the last {reserved} are reserved for "
            "administrators. Ask one, or remove a callback."
        )


def _completed(
    request: Request, spec: Spec, secrets: dict[str, Any]
) -> tuple[Spec, dict[str, Any], dict[str, Any]]:
    """Spec and secrets of a new callback, and the secret that was made for it, if none is given."""
    shown = {} if "secret" in secrets else {"secret": new_secret()}
    return {"owner": request.user.get_username(), **spec}, {**secrets, **shown}, shown


def _sees(request: Request, spec: Spec) -> bool:
    return is_administrator(request) or spec["owner"] == request.user.get_username()


def _free_name() -> str:
    """The first of callback-1, callback-2, … behind those that there are."""
    taken = models.Callback.objects.filter(name__startswith="callback-").values_list("name", flat=True)
    numbers = [int(number) for name in taken if (number := name[9:]).isascii() and number.isdigit()]
    return f"callback-{max(numbers, default=0) + 1}"


def _unstored(reply: Response) -> Response:
    """A reply with a secret, which no cache keeps."""
    reply["Cache-Control"] = "no-store"
    return reply
