"""Problems: the types of refusal that HTTP and STOMP clients meet (RFC 9457), in one table."""

import json
from dataclasses import dataclass
from typing import Any

MEDIA_TYPE = "application/problem+json"
DOCS = "/docs/problems/"


@dataclass(frozen=True, slots=True)
class Problem:
    """A type of refusal: its stable name, its HTTP status, and what a person should know of it."""

    name: str
    status: int
    title: str
    about: str


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("invalid", 400, "Invalid request", "A field or a query parameter is missing, unknown or out of bounds. The list errors says which and why."),
        Problem("not-authenticated", 401, "Not authenticated", "The request has no credentials, or they are wrong, revoked or expired. Send a token as Authorization: Bearer."),
        Problem("not-allowed", 403, "Not allowed", "You are known, and you may not do this. The reply names the right that is missing."),
        Problem("not-found", 404, "Not found", "There is nothing of this name."),
        Problem("method-not-allowed", 405, "Method not allowed", "The address exists; the header Allow lists what can be done with it."),
        Problem("not-acceptable", 406, "Not acceptable", "The reply does not exist in the media type asked for."),
        Problem("conflict", 409, "Conflict", "The state of things forbids it now; the reply says what stands in the way."),
        Problem("lease-lost", 409, "Lease lost", "The message was not settled in time and is no longer yours. Another consumer may have it."),
        Problem("precondition-failed", 412, "Precondition failed", "It was changed since you read it. Read it again and repeat your change."),
        Problem("too-large", 413, "Too large", "A body, a frame or a list is longer than this node takes. The reply has the limit and the size seen."),
        Problem("unsupported-type", 415, "Unsupported media type", "The media type of the body is not understood here."),
        Problem("idempotency-mismatch", 422, "Idempotency key used before", "The key was used with another request. Take a new key for a new request."),
        Problem("precondition-required", 428, "Precondition required", "A change needs If-Match with the version you have read."),
        Problem("rate-limited", 429, "Too many requests", "You are faster than your limit. Wait as long as Retry-After says."),
        Problem("internal", 500, "Internal error", "The node failed. Its log has the details."),
        Problem("not-active", 503, "Not active", "This node does not serve messages now. Location and active say who does."),
        Problem("wrong-home", 503, "Wrong home", "Another broker is home to this destination. Location says which."),
        Problem("queue-full", 503, "Queue full", "The destination is at its limit. Try again after the time in Retry-After."),
        Problem("store-unavailable", 503, "Store unavailable", "The journal cannot be written now. Nothing was stored."),
    )
}  # fmt: skip


def problem_body(name: str, detail: str, **extra: Any) -> dict[str, Any]:
    """The members of a problem; `extra` are those of its own type."""
    problem = PROBLEMS[name]
    return {"type": DOCS + name, "title": problem.title, "status": problem.status, "detail": detail, **extra}


def problem_json(name: str, detail: str, **extra: Any) -> bytes:
    """A problem as the body of an HTTP reply or a STOMP ERROR."""
    return json.dumps(problem_body(name, detail, **extra), ensure_ascii=False, separators=(",", ":")).encode()
