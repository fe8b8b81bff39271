"""The decisions of rules in the last 24 hours, over HTTP, for administrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339
from broker_app.net.http.requests import boolean, whole_number
from broker_app.net.rest.openapi.schemas import BOOLEAN, TEXT, array_of, object_of, whole
from broker_app.rules.event import Event
from broker_app.web.api import request_params
from broker_app.web.api.explain import EVENT_SCHEMA
from broker_app.web.api.openapi_schema import problem_replies
from broker_app.web.api.permissions import MayAdminister
from broker_app.web.events import shown
from broker_app.web.policy_sync import node_of

if TYPE_CHECKING:
    from broker_app.node.node import Node

MOST = 1_000

_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": "string", "format": "date-time"}
_DECIDED = object_of(
    {
        **EVENT_SCHEMA["properties"],
        "allowed": BOOLEAN,
        "rule": {**TEXT, "description": "the name of the rule that decided last; empty where none did"},
        "times": {**_COUNT, "minimum": 1},
        "last": _TIME,
    }
)
_DENIED = object_of(
    {
        **EVENT_SCHEMA["properties"],
        "at": _TIME,
        "decided_by": TEXT,
        "rule": {**TEXT, "description": "the name of the rule that denied; empty where none allowed"},
    }
)
_LIMIT = OpenApiParameter("limit", whole(1, MOST, 100), description="most of the answer")
_FILTERS = {
    "user": "only of this user",
    "destination": "only for this destination, such as queue:orders",
    "rule": "only by the rule of this name",
}
_PARAMETERS = [_LIMIT, *(OpenApiParameter(name, TEXT, description=about) for name, about in _FILTERS.items())]
_REPLIES = problem_replies(400, 401, 403, 405, 406, 503)


class _OfNode(APIView):
    permission_classes = (MayAdminister,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        node = node_of(request)
        if node is None:
            raise Refused("not-active", "This process serves pages; a broker is elsewhere.")
        self.node: Node = node


class Decisions(_OfNode):
    """The recent decisions, by event."""

    @extend_schema(
        operation_id="list_decisions",
        parameters=[
            *_PARAMETERS,
            OpenApiParameter("allowed", BOOLEAN, description="only with this result"),
        ],
        responses={
            200: object_of(
                {
                    "items": array_of(_DECIDED, MOST),
                    "total": _COUNT,
                    "rules": {
                        "type": "object",
                        "additionalProperties": _COUNT,
                        "description": "how often each rule decided, by its name",
                    },
                    "forgotten": {**_COUNT, "description": "events that there were too many of to count"},
                }
            ),
            **_REPLIES,
        },
    )
    def get(self, request: Request) -> Response:
        """List the decisions of the last 24 hours, newest first"""
        query = request_params.query(request, ("limit", "allowed", *_FILTERS))
        limit, fits = whole_number(query, "limit", 100, 1, MOST), _fits(query)
        wanted = boolean(query, "allowed") if "allowed" in query else None
        rows = [
            row
            for row in self.node.decisions.decided()
            if wanted in (None, row.allowed) and fits(row.event, row.rule)
        ]
        return Response(
            {
                "items": [
                    {
                        **shown(row.event),
                        "allowed": row.allowed,
                        "rule": row.rule,
                        "times": row.times,
                        "last": rfc3339(row.last_s),
                    }
                    for row in rows[:limit]
                ],
                "total": len(rows),
                "rules": self.node.decisions.hits(),
                "forgotten": self.node.decisions.forgotten,
            }
        )


class Denials(_OfNode):
    """The last denials, one by one."""

    @extend_schema(
        operation_id="list_denials",
        parameters=_PARAMETERS,
        responses={200: object_of({"items": array_of(_DENIED, MOST), "total": _COUNT}), **_REPLIES},
    )
    def get(self, request: Request) -> Response:
        """The last 1,000 denials, the newest first"""
        query = request_params.query(request, ("limit", *_FILTERS))
        limit, fits = whole_number(query, "limit", 100, 1, MOST), _fits(query)
        rows = [row for row in self.node.decisions.denials() if fits(row.event, row.rule)]
        return Response(
            {
                "items": [
                    {
                        **shown(row.event),
                        "at": rfc3339(row.at_s),
                        "decided_by": row.reason,
                        "rule": row.rule,
                    }
                    for row in rows[:limit]
                ],
                "total": len(rows),
            }
        )


def _fits(query: dict[str, str]) -> Callable[[Event, str], bool]:
    def fits(event: Event, rule: str) -> bool:
        about = {"user": event.user, "rule": rule, "destination": shown(event)["destination"]}
        return all(about[name] == query[name] for name in _FILTERS if name in query)

    return fits
