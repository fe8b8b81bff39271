"""Problems: the types of refusal that HTTP and STOMP clients meet (RFC 9457), in one table."""

import json
from dataclasses import dataclass
from typing import Any

from broker_app.net.http.asgi import Send

MEDIA_TYPE = "application/problem+json"
DOCS = "/docs/problems/"
_below = ""


def stand_below(base_path: str) -> None:
    """Say, once for this process, below which path a proxy has this node: addresses in problems begin with it."""
    global _below
    _below = base_path


def address(path: str) -> str:
    """The address of one of our own paths, as a client reaches it."""
    return _below + path


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
        Problem(
            "invalid", 400, "Invalid request",
            "A field or a query parameter is missing, unknown or out of bounds. The list errors says "
            "which and why.",
        ),
        Problem(
            "bad-destination", 400, "Bad destination",
            "The name of a destination breaks a rule: /queue/ or /topic/ and 1 to 255 characters, none of "
            "them a control character.",
        ),
        Problem(
            "invalid-selector", 400, "Invalid selector",
            "The selector is no condition in the SQL subset of JMS. The detail names line and column, and what "
            "was expected there.",
        ),
        Problem(
            "not-authenticated", 401, "Not authenticated",
            "The request has no credentials, or they are wrong, revoked or expired. Send a token as "
            "Authorization: Bearer.",
        ),
        Problem(
            "not-allowed", 403, "Not allowed",
            "You are known, and you may not do this. The reply names the right that is missing.",
        ),
        Problem("not-found", 404, "Not found", "There is nothing of this name."),
        Problem(
            "method-not-allowed", 405, "Method not allowed",
            "The address exists; the header Allow lists what can be done with it.",
        ),
        Problem(
            "not-acceptable", 406, "Not acceptable",
            "The reply does not exist in the media type asked for.",
        ),
        Problem("timeout", 408, "Request timed out", "The body of the request did not arrive in time."),
        Problem(
            "conflict", 409, "Conflict",
            "The state of things forbids it now; the reply says what stands in the way.",
        ),
        Problem(
            "no-route", 409, "No route",
            "Nobody is subscribed to the topic, and the request asked for somebody.",
        ),
        Problem(
            "unknown-delivery", 409, "Unknown delivery",
            "An acknowledgement names a delivery that is not open: it was settled, went back, or never "
            "was.",
        ),
        Problem(
            "lease-lost", 409, "Lease lost",
            "The message was not settled in time and is no longer yours. Another consumer may have it.",
        ),
        Problem(
            "history-gone", 410, "History gone",
            "Messages of the topic that were asked for, or that came next, are no longer kept. Begin with "
            "from:first.",
        ),
        Problem(
            "precondition-failed", 412, "Precondition failed",
            "It was changed since you read it. Read it again and repeat your change.",
        ),
        Problem(
            "too-large", 413, "Too large",
            "A body, a frame or a list is longer than this node takes. The reply has the limit and the "
            "size seen.",
        ),
        Problem(
            "unsupported-type", 415, "Unsupported media type",
            "The media type of the body is not understood here.",
        ),
        Problem(
            "unsupported", 422, "Not supported",
            "This version of MOM does not do what was asked. Nothing was done, so that no promise is "
            "broken silently.",
        ),
        Problem(
            "idempotency-mismatch", 422, "Idempotency key used before",
            "The key was used with another request. Take a new key for a new request.",
        ),
        Problem(
            "precondition-required", 428, "Precondition required",
            "A change needs If-Match with the version you have read.",
        ),
        Problem(
            "rate-limited", 429, "Too many requests",
            "You are faster than your limit. Wait as long as Retry-After says.",
        ),
        Problem(
            "too-many", 429, "Too many",
            "A connection holds as many subscriptions or transactions as it may, or a destination has as many "
            "producers or consumers.",
        ),
        Problem("internal", 500, "Internal error", "The node failed. Its log has the details."),
        Problem(
            "not-active", 503, "Not active",
            "This node does not serve messages now. Location and active say who does.",
        ),
        Problem(
            "wrong-home", 503, "Wrong home",
            "Another broker is home to this destination. Location says which.",
        ),
        Problem(
            "queue-full", 503, "Queue full",
            "The destination, or the broker, holds as many messages or bytes as it may, and no room came while "
            "the message waited. Try again after the time in Retry-After.",
        ),
        Problem(
            "store-full", 503, "Store full",
            "There is no space left to store messages. Consumers go on, and messages are taken again when "
            "there is space.",
        ),
        Problem(
            "paused", 503, "Paused",
            "An administrator paused the destination: it takes no messages now.",
        ),
        Problem(
            "busy", 503, "Busy",
            "The node has as much under way, or in memory, as it takes. Try again after the time in "
            "Retry-After.",
        ),
        Problem(
            "store-unavailable", 503, "Store unavailable",
            "The journal cannot be written now. Nothing was stored.",
        ),
        Problem(
            "flow-broken", 409, "Flow broken",
            "A message that a bridge forwarded was refused, so what follows it is refused, too, and nothing is "
            "overtaken. The bridge begins the flow anew.",
        ),
        Problem(
            "disconnected", 409, "Disconnected",
            "An operator ended the connection. The detail is the reason that was given.",
        ),
        # What ends a STOMP connection.
        Problem(
            "malformed-frame", 400, "Malformed frame",
            "The bytes are no STOMP frame. The detail says what is wrong.",
        ),
        Problem(
            "bad-escape", 400, "Bad escape",
            "A header holds an escape sequence that its STOMP version does not know.",
        ),
        Problem(
            "unknown-command", 400, "Unknown command",
            "The frame's command is none of STOMP's client commands.",
        ),
        Problem(
            "bad-content-length", 400, "Bad content-length",
            "The content-length is not a number of bytes.",
        ),
        Problem("too-many-headers", 400, "Too many headers", "The frame has more headers than are taken."),
        Problem("not-utf8", 400, "Not UTF-8", "A header is not valid UTF-8."),
        Problem(
            "missing-nul", 400, "Missing NUL",
            "The byte that ends a frame is not where content-length says.",
        ),
        Problem(
            "tls-on-stomp-port", 400, "TLS on the plain port",
            "The client began a TLS handshake on a port that speaks plain STOMP.",
        ),
        Problem(
            "tls-required", 400, "TLS required",
            "The client spoke in the plain on a port that speaks TLS.",
        ),
        Problem("not-connected", 400, "Not connected", "The first frame of a connection is CONNECT."),
        Problem("unsupported-version", 400, "Unsupported version", "STOMP 1.0, 1.1 and 1.2 are spoken here."),
        Problem(
            "unsupported-protocol", 400, "Unsupported subprotocol",
            "Offer v12.stomp, v11.stomp or v10.stomp, or none.",
        ),
        Problem("wrong-host", 400, "Unknown virtual host", "The host header names another broker."),
        Problem("login-timeout", 408, "Login timed out", "The client connected and did not log in."),
        Problem(
            "heart-beat-lost", 408, "Heart-beat lost",
            "The client promised heart-beats and fell silent.",
        ),
        Problem("frame-timeout", 408, "Frame timed out", "A frame was begun and not finished."),
        Problem(
            "slow-consumer", 429, "Slow consumer",
            "The client takes too little: too many messages, or too large ones, wait for its topic subscription "
            "or temporary queue, or it held all its credit for longer than the destination allows.",
        ),
    )
}  # fmt: skip


def problem_body(name: str, detail: str, **extra: Any) -> dict[str, Any]:
    """The members of a problem; `extra` are those of its own type."""
    problem = PROBLEMS[name]
    return {
        "type": address(DOCS) + name,
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        **extra,
    }


def problem_json(name: str, detail: str, **extra: Any) -> bytes:
    """A problem as the body of an HTTP reply or a STOMP ERROR."""
    return json.dumps(problem_body(name, detail, **extra), ensure_ascii=False, separators=(",", ":")).encode()


async def send_problem(send: Send, name: str, detail: str, **extra: Any) -> None:
    """A problem as the whole of an ASGI reply, after which the connection closes."""
    body = problem_json(name, detail, **extra)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": PROBLEMS[name].status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
