"""Settings of destinations over HTTP: said about a queue, a topic or a pattern by administrators.

What is known of a queue or topic is read at the same addresses from the data plane (`net.rest.destinations`).
Every write names the version that it replaces (If-Match), and is answered when the node here obeys it.
"""

from typing import Any, ClassVar
from urllib.parse import quote

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.core.errors import Refused
from broker_app.models import DestinationSettings
from broker_app.net.destinations import EVERYTHING, check_address, is_pattern
from broker_app.net.rest.openapi import row_schema, said_schema
from broker_app.net.rest.refusals import Refusal, invalid, of_core
from broker_app.web import actions, snapshot
from broker_app.web.acting import by
from broker_app.web.obeying import ask, node_of, wait_obeyed
from broker_app.web.refusals import PROBLEM_REPLIES


class MayConfigure(BasePermission):
    """Everybody who is known may read; administrators may write."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user.is_authenticated:
            return False
        if request.method not in SAFE_METHODS and not getattr(request.user, "is_superuser", False):
            raise Refusal("not-allowed", "settings are changed by administrators alone", right="configure")
        return True


def _version_parameter(*, required: bool = True) -> OpenApiParameter:
    about = "the ETag of what is to be replaced, or *"
    return OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=required, description=about)


_PUT: dict[str, Any] = {
    "request": {"application/json": said_schema()},
    "responses": {200: row_schema(), 201: row_schema(), **PROBLEM_REPLIES},
    "parameters": [_version_parameter(required=False)],
}
_PATCH: dict[str, Any] = {
    "request": {"application/json": said_schema(change=True)},
    "responses": {200: row_schema(), **PROBLEM_REPLIES},
    "parameters": [_version_parameter()],
}
_DELETE: dict[str, Any] = {
    "request": None,
    "responses": {204: None, **PROBLEM_REPLIES},
    "parameters": [_version_parameter()],
}
_FORCE = OpenApiParameter("force", bool, description="also when messages wait or are unsettled, which go")


class Said(APIView):
    """What is said about one address or pattern."""

    permission_classes = (MayConfigure,)
    #: of the query, where the name may stand instead of in the path; and of the query of a removal
    parameter: ClassVar[str] = ""
    prefix: ClassVar[str] = ""
    options_of_removal: ClassVar[tuple[str, ...]] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        node = node_of(request)
        if node is None:
            raise Refusal("not-active", "This process serves pages; a broker is elsewhere.")
        self.node = node
        super().initial(request, *args, **kwargs)

    # ------------------------------------------------------------------ which one

    def address(self, name: str) -> str:
        return self.prefix + name

    def _chosen(self, request: Request, name: str, options: tuple[str, ...] = ()) -> str:
        """The address that a request is about. Raises Refusal."""
        _check_query(request, (*options, *([self.parameter] if self.parameter else [])))
        given = request.query_params.get(self.parameter, "") if self.parameter else ""
        if bool(name) == bool(given):
            detail = (
                "the address holds a name already" if name else "is missing, and the address holds no name"
            )
            raise invalid(f"query/{self.parameter}", detail)
        address = self.address(name or given)
        try:
            check_address(address)
        except Refused as refused:
            raise of_core(refused) from refused
        if self.prefix and is_pattern(address):
            detail = f"{address} is a pattern; its settings are at destinations/settings{address}"
            raise Refusal("bad-destination", detail)
        return address

    # ------------------------------------------------------------------ writing

    def _put(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name)
        before = _version(address)
        if before == 0 and "If-Match" not in request.headers:
            expected: int | None = 0
        elif request.headers.get("If-None-Match", "").strip() == "*":
            expected = 0
        else:
            expected = _expected(request, before)
        row = actions.set_destination(by(request), address, _body(request), expected)
        return self._written(address, row, created=before == 0)

    def _patch(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name)
        before = _version(address)
        row = actions.change_destination(by(request), address, _body(request), _expected(request, before))
        return self._written(address, row, created=False)

    def _delete(self, request: Request, name: str) -> Response:
        address = self._chosen(request, name, self.options_of_removal)
        expected = _expected(request, _version(address))
        with transaction.atomic():
            had = actions.forget_destination(by(request), address, expected)
            # Refused by the node, nothing of it has happened.
            self._remove(request, address, had)
        wait_obeyed(request, snapshot.read_version())
        return Response(status=204)

    def _remove(self, request: Request, address: str, had: bool) -> None:
        """Ends what was declared. `had` says whether anything was said about it."""
        if not had:
            raise Refusal("not-found", f"nothing is said about {address}")

    def _written(self, address: str, row: actions.SaidOfDestination, *, created: bool) -> Response:
        wait_obeyed(self.request, row.version)
        reply = _reply(row, 201 if created else 200)
        if created:
            reply["Location"] = quote(self.request.path)
        return reply


class SaidAboutQueue(Said):
    """A queue: what is said about it, and its end."""

    parameter = "queue"
    prefix = "/queue/"
    options_of_removal = ("force",)

    @extend_schema(operation_id="declare_queue", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Says these settings about a queue, and no others any more; makes it when it is not there."""
        return self._put(request, name)

    @extend_schema(operation_id="change_queue", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Says more about a queue; null takes back what was said."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_queue", **{**_DELETE, "parameters": [_version_parameter(), _FORCE]})
    def delete(self, request: Request, name: str = "") -> Response:
        """Removes a queue without consumers, and what was said about it."""
        return self._delete(request, name)

    def _remove(self, request: Request, address: str, had: bool) -> None:
        force = request.query_params.get("force", "false")
        if force not in ("true", "false"):
            raise invalid("query/force", "must be true or false", force)
        try:
            ask(self.node, self.node.rest.remove_queue(address, force=force == "true"))
        except Refusal as refusal:
            if refusal.name != "not-found" or not had:
                raise


class SaidAboutTopic(Said):
    """A topic: what is said about it."""

    parameter = "topic"
    prefix = "/topic/"

    @extend_schema(operation_id="declare_topic", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Says these settings about a topic, and no others any more."""
        return self._put(request, name)

    @extend_schema(operation_id="change_topic", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Says more about a topic; null takes back what was said."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_topic", **_DELETE)
    def delete(self, request: Request, name: str = "") -> Response:
        """Takes back what was said about a topic."""
        return self._delete(request, name)


class SaidAboutPattern(Said):
    """A pattern such as `queue/orders.>`, or `>` for everything."""

    def address(self, name: str) -> str:
        if name.startswith("/"):
            raise Refusal("bad-destination", "a pattern begins without a slash here: queue/orders.>")
        return name if name == EVERYTHING else f"/{name}"

    def _chosen(self, request: Request, name: str, options: tuple[str, ...] = ()) -> str:
        address = super()._chosen(request, name, options)
        if not is_pattern(address):
            kind, _, rest = name.partition("/")
            raise Refusal(
                "bad-destination", f"{name!r} is no pattern; its own settings are at {kind}s/{rest}"
            )
        return address

    @extend_schema(operation_id="get_pattern", responses={200: row_schema(), **PROBLEM_REPLIES})
    def get(self, request: Request, name: str = "") -> Response:
        """What is said about a pattern."""
        address = self._chosen(request, name)
        row = actions.said_of(address)
        if row is None:
            raise Refusal("not-found", f"nothing is said about {address}")
        reply = _reply(row, 200)
        if request.headers.get("If-None-Match") == reply["ETag"]:
            return Response(status=304, headers={"ETag": reply["ETag"]})
        return reply

    @extend_schema(operation_id="set_pattern", **_PUT)
    def put(self, request: Request, name: str = "") -> Response:
        """Says these settings about a pattern, and no others any more."""
        return self._put(request, name)

    @extend_schema(operation_id="change_pattern", **_PATCH)
    def patch(self, request: Request, name: str = "") -> Response:
        """Says more about a pattern; null takes back what was said."""
        return self._patch(request, name)

    @extend_schema(operation_id="remove_pattern", **_DELETE)
    def delete(self, request: Request, name: str = "") -> Response:
        """Takes back what was said about a pattern."""
        return self._delete(request, name)


class Patterns(APIView):
    """All patterns about which something is said."""

    permission_classes = (MayConfigure,)

    @extend_schema(
        operation_id="list_patterns",
        responses={
            200: {"type": "object", "properties": {"items": {"type": "array", "items": row_schema()}}},
            **PROBLEM_REPLIES,
        },
    )
    def get(self, request: Request) -> Response:
        """Lists the patterns about which something is said."""
        _check_query(request, ())
        addresses = DestinationSettings.objects.filter(address__endswith=">").values_list(
            "address", flat=True
        )
        rows = [actions.said_of(address) for address in addresses if is_pattern(address)]
        return Response({"items": [_shown(row) for row in rows if row is not None]})


@extend_schema(exclude=True)
class NamedQueue(SaidAboutQueue):
    """The same with the name in the query: `/queues?queue=…`"""


@extend_schema(exclude=True)
class NamedTopic(SaidAboutTopic):
    """The same with the name in the query: `/topics?topic=…`"""


def _version(address: str) -> int:
    return actions.version_of("destinations", address)


def _expected(request: Request, now: int) -> int | None:
    """The version that If-Match names, None for any. Raises Refusal, actions.Stale."""
    header = request.headers.get("If-Match")
    if header is None:
        raise Refusal("precondition-required", f'send If-Match with the version that you read; it is "{now}"')
    tags = [tag.strip() for tag in header.split(",")]
    if tags == ["*"]:
        return None
    if f'"{now}"' not in tags:
        raise actions.Stale(now)
    return now


def _body(request: Request) -> dict[str, Any]:
    if not isinstance(request.data, dict):
        raise invalid("", "a JSON object is needed as body")
    return request.data


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in known:
            raise invalid(f"query/{name[:100]}", "there is no such query parameter")


def _shown(row: actions.SaidOfDestination) -> dict[str, Any]:
    return {"address": row.address, "settings": row.values, "version": row.version, "changed": row.changed}


def _reply(row: actions.SaidOfDestination, status: int) -> Response:
    return Response(_shown(row), status=status, headers={"ETag": f'"{row.version}"'})
