"""Operations: parameters, bodies, replies, and the problems that each may answer."""

from __future__ import annotations

from broker_app.net.broker_state import PAUSED, QUIESCED
from broker_app.net.http.routing import CHANGES_NOTHING, REFUSED_WHILE
from broker_app.net.problems import MEDIA_TYPE, PROBLEMS
from broker_app.net.rest.openapi.schemas import (
    COUNT,
    NAME,
    SELECTOR_TEXT,
    TEXT,
    Json,
    array_of,
    object_of,
    ref,
    whole,
)

#: states of the broker in which operations are refused: those with which a client begins, and those that end
#: what it has begun
BEGINS = (QUIESCED, PAUSED)
ENDS = (PAUSED,)


def parameter(name: str, schema: Json, about: str, *, where: str = "query", required: bool = False) -> Json:
    """A parameter of an operation."""
    return {"name": name, "in": where, "required": required, "schema": schema, "description": about}


def header(name: str, schema: Json, about: str) -> Json:
    """A header of a request."""
    return parameter(name, schema, about, where="header")


def in_path(name: str, about: str, schema: Json = NAME) -> Json:
    """A part of the address."""
    return parameter(name, schema, about, where="path", required=True)


QUEUE = in_path("name", "name of the queue; `/queues/messages?queue=…` takes any name as well")
TOPIC = in_path("name", "name of the topic; levels are separated by dots")
AFTER = parameter("after", TEXT, "`next` of the page before")
CONDITIONS = [
    parameter("where", TEXT, "all conditions in one line: `reason:REJECTED header.tenant:acme text`"),
    parameter("q", TEXT, "text in body or headers"),
    parameter("selector", SELECTOR_TEXT, "a condition on headers"),
    parameter("reason", TEXT, "a dead letter's reason, or a part of its detail"),
    parameter("origin", TEXT, "the queue where it died"),
    parameter("age_gt_s", {"type": "number"}, "longer here than that; a header is `header.<name>=<value>`"),
    parameter("age_lt_s", {"type": "number"}, "not so long here"),
]
SELECTOR = parameter("selector", SELECTOR_TEXT, "a condition on headers, such as colour = 'red' AND size > 3")


def json_body(name: str, *, required: bool = True) -> Json:
    """A body of the schema `name`."""
    return {"required": required, "content": {"application/json": {"schema": ref(name)}}}


def json_reply(about: str, schema: Json, headers: Json | None = None) -> Json:
    """A reply with a body of JSON."""
    return {
        "description": about,
        "content": {"application/json": {"schema": schema}},
        "headers": {"Request-Id": ref("RequestId", "headers"), **(headers or {})},
    }


def empty_reply(about: str) -> Json:
    """A reply without a body."""
    return {"description": about, "headers": {"Request-Id": ref("RequestId", "headers")}}


def operation(
    name: str,
    about: str,
    replies: Json,
    *problems: int,
    parameters: list[Json] | None = None,
    body: Json | None = None,
    login: bool = True,
    refused_while: tuple[str, ...] = (),
    changes_nothing: bool = False,
) -> Json:
    """One operation, with its own replies and the statuses of the problems that it may answer. Programs are
    refused it while the broker is in a state of `refused_while`; the console is not. Monitors are refused it
    unless its method or `changes_nothing` shows that it only reads."""
    statuses = (400, *((401, 403, 429) if login else ()), *problems)
    return {
        "operationId": name,
        "summary": about,
        "parameters": parameters or [],
        **({"requestBody": body} if body else {}),
        "responses": {
            **replies,
            **{str(status): ref(f"Problem{status}", "responses") for status in sorted({*statuses, 405})},
        },
        **({} if login else {"security": []}),
        **({REFUSED_WHILE: list(refused_while)} if refused_while else {}),
        **({CHANGES_NOTHING: True} if changes_nothing else {}),
    }


#: of every reply
REPLY_HEADERS: Json = {"RequestId": {"schema": TEXT, "required": True}}
#: of what makes something: the header of the request, and that of the reply
IDEMPOTENCY_KEY = header(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-~]+$"},
    "names repeats of this request; its answer is kept for a day, while the node runs",
)
REPLAYED: Json = {
    "Idempotency-Replayed": {"schema": {"const": "true"}, "description": "it is the answer of before"}
}
BYTES: Json = {"description": "the bytes of a message in its media type", "content": {"*/*": {}}}
LINES: Json = {
    "description": "lines of JSON",
    "content": {"application/x-ndjson": {}},
}


def problem_replies() -> Json:
    """One reply for each status that a problem has."""
    titles: dict[int, list[str]] = {}
    for problem in PROBLEMS.values():
        titles.setdefault(problem.status, []).append(problem.name)
    more: dict[int, Json] = {
        401: {"WWW-Authenticate": {"schema": TEXT, "required": True}},
        405: {"Allow": {"schema": TEXT, "required": True}},
        429: {"Retry-After": {"schema": TEXT}},
        503: {"Retry-After": {"schema": TEXT}},
    }
    return {
        f"Problem{status}": {
            "description": ", ".join(names),
            "headers": {"Request-Id": ref("RequestId", "headers"), **more.get(status, {})},
            "content": {MEDIA_TYPE: {"schema": ref("Problem")}},
        }
        for status, names in titles.items()
    }


SCHEMAS: Json = {
    "Problem": object_of(
        {
            "type": {"enum": [f"/docs/problems/{name}" for name in PROBLEMS]},
            "title": TEXT,
            "status": whole(400, 599),
            "detail": TEXT,
            "errors": array_of(object_of({"pointer": TEXT, "detail": TEXT}, free=True)),
            "trace_id": TEXT,
            "limit": COUNT,
            "size": COUNT,
            "right": TEXT,
            "now_held_by": {"enum": ["other", "nobody", "gone"]},
        },
        required=("type", "title", "status", "detail"),
        free=True,
    ),
}
