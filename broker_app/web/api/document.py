"""The OpenAPI document of the control plane: drf-spectacular's, made one with that of the data plane."""

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from broker_app.net.problems import MEDIA_TYPE
from broker_app.net.rest.openapi import operations
from broker_app.net.rest.openapi.schemas import Json
from broker_app.web.api import schemas


@cache
def document() -> dict[str, object]:
    """The OpenAPI document of the control plane, to be joined with that of the data plane. It is shared."""
    schema: dict[str, object] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def describe(result: Json, **_: Any) -> Json:
    """A hook of drf-spectacular: operations are described with the words and replies of the data plane."""
    # drf-spectacular would have its document in many languages; ours is in English.
    del result["paths"]["/api/v1/openapi.json"]["get"]["parameters"]
    for methods in result["paths"].values():
        for operation in methods.values():
            operation["summary"] = operation.pop("description").rstrip(".")
            operation["responses"] = {
                status: _reply(status, reply) for status, reply in operation["responses"].items()
            }
    components = result["components"]
    components["schemas"] = {**components.get("schemas", {}), **schemas.SCHEMAS, **operations.SCHEMAS}
    components["responses"] = operations.problem_replies()
    components["headers"] = operations.REPLY_HEADERS
    return result


def _reply(status: str, reply: Json) -> Json:
    """Every refusal is a problem, and every reply has its Request-Id."""
    if MEDIA_TYPE in reply.get("content", {}):
        return {"$ref": f"#/components/responses/Problem{status}"}
    headers = {"Request-Id": {"$ref": "#/components/headers/RequestId"}, **reply.get("headers", {})}
    return {**reply, "headers": headers}
