"""The OpenAPI description of resources: the request and replies of each method."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from broker_app.base.articles import with_article
from broker_app.net.rest.openapi.schemas import BOOLEAN, TEXT, ref, whole
from broker_app.web.api.schemas import name_of
from broker_app.web.refusals import PROBLEM_REPLIES
from broker_app.web.resource_types import RESOURCE_TYPES

_ALWAYS = (400, 401, 403, 405, 406)
_STATUSES = {
    "GET": (),
    "POST": (404, 409, 413, 415, 422, 503),
    "PUT": (409, 412, 413, 415, 428, 503),
    "PATCH": (404, 409, 412, 413, 415, 428, 503),
    "DELETE": (404, 409, 412, 413, 428, 503),
}
_WORDS = {"POST": "create", "PUT": "put", "PATCH": "change", "DELETE": "remove"}


def header(name: str, about: str, *, required: bool = False, response: bool | list[int] = False) -> Any:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, required=required, description=about, response=response
    )


def query(name: str, schema: dict[str, object], about: str) -> Any:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=about)


REASON = header("Mom-Reason", "why, for the history; percent-encoded where it is not ASCII")
IF_MATCH = header("If-Match", "the ETag of what is to be replaced, or *")
IF_NONE_MATCH = header("If-None-Match", "* to make it only where it is not there yet")
KNOWN = header("If-None-Match", "ETags that are known; 304 when it is still so")
KEY = header("Idempotency-Key", "names repeats of this request; its answer is kept for a day")
DRY_RUN = query("dry_run", BOOLEAN, "do nothing, and return what would change")
ETAG = header("ETag", "version, for If-Match; a dry run has none", response=[200, 201])
#: of lists
PAGING = [
    query("limit", whole(1, 500, 100), "most of a page"),
    query("after", TEXT, "`next` of the page before"),
    query("sort", TEXT, "members to sort by, separated by commas; `-` before one: descending"),
    query("fields", TEXT, "members of the items, separated by commas"),
    query("q", TEXT, "a part of the name"),
]


def problem_replies(*codes: int) -> dict[Any, Any]:
    """Those of the control plane's refusals that an operation may answer."""
    return {key: reply for key, reply in PROBLEM_REPLIES.items() if key[0] in codes}


class ResourceSchema(AutoSchema):
    """Describe the methods of a resource: at its own address, and one at that of all."""

    @property
    def _resource(self) -> Any:
        """A Resource, which this module cannot name: it names this one."""
        return self.view

    @property
    def _one(self) -> bool:
        return "{" in self.path

    def is_excluded(self) -> bool:
        return self._one == (self.method == "POST") and self.method != "GET"

    def get_operation_id(self) -> str:
        one = RESOURCE_TYPES[self._resource.kind].one.replace(" ", "_")
        if self.method == "GET":
            return f"get_{one}" if self._one else f"list_{one}s"
        return f"{_WORDS[self.method]}_{one}"

    def get_description(self) -> str:  # type: ignore[override]
        one = RESOURCE_TYPES[self._resource.kind].one
        if self.method == "GET":
            return f"One {one}" if self._one else f"All {one}s, page by page"
        a_resource = with_article(one)
        return {
            "POST": f"Create {a_resource}",
            "PUT": f"Replace {a_resource}, or create it",
            "PATCH": f"Change a part of {a_resource}; null removes a value",
            "DELETE": f"Remove {a_resource}",
        }[self.method]

    def get_override_parameters(self) -> list[Any]:
        if self.method == "GET":
            return [KNOWN, ETAG] if self._one else [*PAGING, *self._filters()]
        common = [DRY_RUN, REASON]
        return (
            common
            + {
                "POST": [KEY],
                "PUT": [IF_MATCH, IF_NONE_MATCH, ETAG],
                "PATCH": [IF_MATCH, ETAG],
                "DELETE": [IF_MATCH],
            }[self.method]
        )

    def _filters(self) -> list[Any]:
        listing = self._resource.listing
        truths = [query(name, BOOLEAN, "only items with this value") for name in listing.filters]
        return truths + [query(name, TEXT, "only items with this value") for name in listing.matches]

    def get_request_serializer(self) -> Any:
        form = {"POST": self._resource.created, "PUT": name_of(self._resource.kind, "Put")}
        form["PATCH"] = name_of(self._resource.kind, "Patch")
        name = form.get(self.method)
        return {"application/json": ref(name)} if name else None

    def get_response_serializers(self) -> Any:
        kind = self._resource.kind
        one, tried = ref(name_of(kind)), ref("DryRun")
        statuses = (*_ALWAYS, *_STATUSES[self.method], *((404,) if self._one else ()))
        replies: dict[Any, Any] = {
            "GET": {200: one, 304: None} if self._one else {200: ref(name_of(kind, "Page"))},
            "POST": {201: ref(self._resource.shown_once), 200: tried},
            "PUT": {200: {"anyOf": [one, tried]}, 201: one},
            "PATCH": {200: {"anyOf": [one, tried]}},
            "DELETE": {204: None, 200: tried},
        }[self.method]
        return {**replies, **problem_replies(*statuses)}
