"""Settings of destinations over HTTP: of a queue, a topic or a pattern, for administrators.

What is known of a queue or topic is read at the same addresses from the data plane (`net.rest.destinations`).
Every write names the version that it replaces (If-Match), and is answered when the node here obeys it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.audit_actions import QUEUE_REMOVED
from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.models import DestinationSettings
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.net.http.requests import boolean
from broker_app.net.policy.destination_settings import EVERYTHING, SETTINGS, check_address, is_pattern
from broker_app.net.rest.openapi import row_schema, said_schema
from broker_app.net.rest.openapi.schemas import BOOLEAN, Json, array_of, object_of, ref
from broker_app.net.rest.openapi.schemas import PAGING as PAGES
from broker_app.web import actions
from broker_app.web.actions import audit
from broker_app.web.actor import actor_of
from broker_app.web.api import dry_run, request_params
from broker_app.web.api.conditions import etag, expected, is_known
from broker_app.web.api.openapi_schema import (
    DRY_RUN,
    ETAG,
    IF_MATCH,
    IF_NONE_MATCH,
    KNOWN,
    PAGING,
    REASON,
    problem_replies,
    query,
)
from broker_app.web.api.permissions import require_administrator
from broker_app.web.api.resource import MAX_PAGE, page_reply
from broker_app.web.policy_sync import ask, node_of
from broker_app.web.refusals import PROBLEM_REPLIES
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.roles import MayUse

if TYPE_CHECKING:
    from broker_app.node.node import Node

KIND = "destinations"
_OF_WRITES = ("dry_run",)


class MayConfigure(MayUse):
    """All authenticated users may read; administrators may write."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        permitted = super().has_permission(request, view)
        if permitted and request.method not in SAFE_METHODS:
            require_administrator(request)
        return permitted


_WRITTEN = {"anyOf": [row_schema(), ref("DryRun")]}
_PUT: Json = {
    "request": {"application/json": said_schema()},
    "responses": {200: _WRITTEN, 201: row_schema(), **PROBLEM_REPLIES},
    "parameters": [IF_MATCH, IF_NONE_MATCH, DRY_RUN, REASON, ETAG],
}
_PATCH: Json = {
    "request": {"application/json": said_schema(change=True)},
    "responses": {200: _WRITTEN, **PROBLEM_REPLIES},
    "parameters": [IF_MATCH, DRY_RUN, REASON, ETAG],
}
_DELETE: Json = {
    "request": None,
    "responses": {204: None, 200: ref("DryRun"), **PROBLEM_REPLIES},
    "parameters": [IF_MATCH, DRY_RUN, REASON],
}
_FORCE = query("force", BOOLEAN, "also when messages wait or are unsettled, which go")
_LISTING: Listing[dict[str, Any]] = Listing(
    {name: itemgetter(name) for name in row_schema()["properties"]},
    {},
    MAX_PAGE,
    sortable=("address", "version", "origin"),
    sort="address",
    last="address",
)


class SettingsView(APIView):
    """The settings of one address or pattern."""

    permission_classes = (MayConfigure,)
    #: the query parameter that may hold the name instead of the path
    parameter: ClassVar[str] = ""
    prefix: ClassVar[str] = ""
    #: more query parameters of DELETE
    options_of_removal: ClassVar[tuple[str, ...]] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if node_of(request) is None and not hasattr(self, str(request.method).lower()):
            # The data plane answers these methods, in a process that has one.
            raise Refused("not-active", "This process serves pages; a broker is elsewhere.")
        super().initial(request, *args, **kwargs)

    # ------------------------------------------------------------------ the address

    def address(self, name: str) -> str:
        return self.prefix + name

    def _chosen(self, request: Request, name: str, options: tuple[str, ...] = ()) -> str:
        """The address that a request is about. Raises Refused."""
        found = request_params.query(request, (*options, *([self.parameter] if self.parameter else [])))
        given = found.get(self.parameter, "")
        if bool(name) == bool(given):
            detail = (
                "the address holds a name already" if name else "is missing, and the address holds no name"
            )
            raise invalid(f"query/{self.parameter}", detail)
        address = self.address(name or given)
        check_address(address)
        if self.prefix and is_pattern(address):
            detail = f"{address} is a pattern; its settings are at destinations/settings{address}"
            raise Refused("bad-destination", detail)
        return address

    # ------------------------------------------------------------------ writing

    def _put(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name, _OF_WRITES)
        return self._write(request, address, request_params.body(request))

    def _patch(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name, _OF_WRITES)
        change = request_params.body(request)
        if wrong := {name: value for name, value in change.items() if name not in SETTINGS}:
            RESOURCE_TYPES[KIND].check(address, wrong)
        spec = actions.destination_spec(address)
        return self._write(request, address, request_params.merged(spec.values if spec else {}, change))

    def _write(self, request: Request, address: str, values: Facts) -> Response:
        before = actions.version_of(KIND, address)
        edit = actions.Edit(KIND, address, values, expected(request, before, built_in=True))
        tried = boolean(request.query_params.dict(), "dry_run")
        outcome = actions.apply(actor_of(request), [edit], dry_run=tried)
        if tried:
            return Response(dry_run.reply(outcome, node_of(request)))
        row = actions.destination_spec(address)
        assert row is not None, "it was written just now"
        created = before == 0 and request.method == "PUT"
        reply = _reply(row, 201 if created else 200)
        if created:
            reply["Location"] = quote(request.path)
        return reply

    def _delete(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name, (*_OF_WRITES, *self.options_of_removal))
        before = actions.version_of(KIND, address)
        edit = actions.Edit(KIND, address, None, expected(request, before, built_in=True))
        if boolean(request.query_params.dict(), "dry_run"):
            outcome = actions.apply(actor_of(request), [edit], dry_run=True)
            return Response(dry_run.reply(outcome, node_of(request)))
        self._check_removal(request, address, before != 0)
        with transaction.atomic():
            outcome = actions.apply(actor_of(request), [edit])
            # If the node refuses, the edit is rolled back.
            self._remove(request, address, bool(outcome.changed))
        return Response(status=204)

    def _check_removal(self, request: Request, address: str, had: bool) -> None:
        """Refuse what cannot be deleted before anything is changed: in a cluster, the others take part in the
        change."""

    def _remove(self, request: Request, address: str, had: bool) -> None:
        """Delete a declared destination. `had` is True if it had settings."""
        if not had:
            raise Refused("not-found", f"{address} has no settings of its own")


class QueueSettings(SettingsView):
    """A queue: its settings, and its deletion."""

    parameter = "queue"
    prefix = "/queue/"
    options_of_removal = ("force",)

    @extend_schema(operation_id="declare_queue", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Replace the settings of a queue; it is created if it does not exist."""
        return self._put(request, name)

    @extend_schema(operation_id="change_queue", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Change settings of a queue; null removes one."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_queue", **{**_DELETE, "parameters": [*_DELETE["parameters"], _FORCE]})
    def delete(self, request: Request, name: str = "") -> Response:
        """Delete a queue without consumers, and its settings."""
        return self._delete(request, name)

    def _check_removal(self, request: Request, address: str, had: bool) -> None:
        node = _node(request)
        with _unless_missing(had):
            ask(node, node.operations.check_queue_deletion(address, force=_force(request)))

    def _remove(self, request: Request, address: str, had: bool) -> None:
        node = _node(request)
        with _unless_missing(had):
            ask(node, node.operations.delete_queue(address, force=_force(request)))
            audit.record(actor_of(request), audit.Action.of(QUEUE_REMOVED, address))


class TopicSettings(SettingsView):
    """A topic: its settings."""

    parameter = "topic"
    prefix = "/topic/"

    @extend_schema(operation_id="declare_topic", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Replace the settings of a topic."""
        return self._put(request, name)

    @extend_schema(operation_id="change_topic", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Change settings of a topic; null removes one."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_topic", **_DELETE)
    def delete(self, request: Request, name: str = "") -> Response:
        """Delete the settings of a topic."""
        return self._delete(request, name)


class PatternSettings(SettingsView):
    """A pattern such as `queue/orders.>`, or `>` for everything."""

    def address(self, name: str) -> str:
        if name.startswith("/"):
            raise Refused("bad-destination", "a pattern begins without a slash here: queue/orders.>")
        return name if name == EVERYTHING else f"/{name}"

    def _chosen(self, request: Request, name: str, options: tuple[str, ...] = ()) -> str:
        address = super()._chosen(request, name, options)
        if not is_pattern(address):
            kind, _, rest = name.partition("/")
            raise Refused(
                "bad-destination", f"{name!r} is no pattern; its own settings are at {kind}s/{rest}"
            )
        return address

    @extend_schema(
        operation_id="get_pattern",
        responses={200: row_schema(), 304: None, **PROBLEM_REPLIES},
        parameters=[KNOWN, ETAG],
    )
    def get(self, request: Request, name: str = "") -> Response:
        """The settings of a pattern."""
        address = self._chosen(request, name)
        row = actions.destination_spec(address)
        if row is None:
            raise Refused("not-found", f"{address} has no settings of its own")
        reply = _reply(row, 200)
        if is_known(request, reply["ETag"]):
            return Response(status=304, headers={"ETag": reply["ETag"]})
        return reply

    @extend_schema(operation_id="set_pattern", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Replace the settings of a pattern."""
        return self._put(request, name)

    @extend_schema(operation_id="change_pattern", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Change settings of a pattern; null removes one."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_pattern", **_DELETE)
    def delete(self, request: Request, name: str = "") -> Response:
        """Delete the settings of a pattern."""
        return self._delete(request, name)


class Patterns(APIView):
    """All patterns with settings."""

    permission_classes = (MayConfigure,)

    @extend_schema(
        operation_id="list_patterns",
        responses={
            200: object_of({"items": array_of({**row_schema(), "required": []}), **PAGES}),
            **problem_replies(400, 401, 403, 405, 406),
        },
        parameters=PAGING,
    )
    def get(self, request: Request) -> Response:
        """List the patterns with settings, page by page."""
        found = request_params.query(request, _LISTING.parameters)
        addresses = DestinationSettings.objects.filter(address__endswith=">").values_list(
            "address", flat=True
        )
        rows = [actions.destination_spec(address) for address in addresses if is_pattern(address)]
        return page_reply(request, _LISTING, [_shown(row) for row in rows if row is not None], found)


@extend_schema(exclude=True)
class NamedQueue(QueueSettings):
    """The same with the name in the query: `/queues?queue=…`"""


@extend_schema(exclude=True)
class NamedTopic(TopicSettings):
    """The same with the name in the query: `/topics?topic=…`"""


def _node(request: Request) -> "Node":
    node = node_of(request)
    if node is None:
        raise Refused("not-active", "This process serves pages; a broker is elsewhere.")
    return node


def _force(request: Request) -> bool:
    return boolean(request.query_params.dict(), "force")


@contextmanager
def _unless_missing(had: bool) -> Iterator[None]:
    """Let a refusal pass; not that there is no such queue, if it `had` settings."""
    try:
        yield
    except Refused as refusal:
        if refusal.code != "not-found" or not had:
            raise


def _shown(row: actions.DestinationSpec) -> dict[str, Any]:
    return {
        "address": row.address,
        "settings": row.values,
        "version": row.version,
        "origin": row.origin,
        "changed": row.changed,
    }


def _reply(row: actions.DestinationSpec, status: int) -> Response:
    return Response(_shown(row), status=status, headers={"ETag": etag(row.version)})
