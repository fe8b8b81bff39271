"""The table of problem types (RFC 9457) that HTTP and STOMP clients receive."""

import json
from dataclasses import dataclass
from typing import Any

from broker_app.base.asgi import Send
from broker_app.core.selectors.compiler import MAX_LENGTH

MEDIA_TYPE = "application/problem+json"
DOCS = "/docs/problems/"
_base_path = ""


def set_base_path(base_path: str) -> None:
    """Set the base path of this process behind a proxy; addresses in problems begin with it."""
    global _base_path
    _base_path = base_path


def address(path: str) -> str:
    """The address of a path of this node, as a client reaches it."""
    return _base_path + path


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem type: its stable name, HTTP status, title and description."""

    name: str
    status: int
    title: str
    about: str


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "invalid", 400, "Invalid request",
            "A field or a query parameter is missing, unknown or out of range. The member errors lists "
            "each with its reason.",
        ),
        Problem(
            "bad-destination", 400, "Bad destination",
            "The name of a destination is invalid. It must be /queue/ or /topic/ and 1 to 255 characters "
            "without control characters.",
        ),
        Problem(
            "invalid-selector", 400, "Invalid selector",
            f"The selector is not a condition in the SQL subset of JMS, or has more than {MAX_LENGTH:,} characters. "
            "The detail has line and column and what was expected there, or the length.",
        ),
        Problem(
            "not-authenticated", 401, "Not authenticated",
            "The request has no credentials, or they are wrong, revoked or expired. Send a token as "
            "Authorization: Bearer.",
        ),
        Problem(
            "not-allowed", 403, "Not allowed",
            "You are logged in, but have no permission for this. The reply names the missing right.",
        ),
        Problem(
            "filtered", 403, "Filtered",
            "A reflex of the broker refuses the message. The members reflex and reason have its name and why.",
        ),
        Problem(
            "registration-refused", 403, "Registration refused",
            "A reflex of the broker refuses the service. The members reflex and reason have its name and why.",
        ),
        Problem(
            "callbacks-off", 403, "No callbacks",
            "The origin of the service notifies no callback brokers: it needs the registration reflex "
            "REenableCallbacks. Receive from the origin directly.",
        ),
        Problem("not-found", 404, "Not found", "No resource has this name."),
        Problem(
            "method-not-allowed", 405, "Method not allowed",
            "The address exists, but does not support this method. The header Allow lists those it supports.",
        ),
        Problem(
            "not-acceptable", 406, "Not acceptable",
            "The reply is not available in the requested media type.",
        ),
        Problem(
            "timeout", 408, "Request timed out",
            "The body of the request did not arrive in time; or no answer came to a request to a site, whose outcome is "
            "unknown then.",
        ),
        Problem(
            "conflict", 409, "Conflict",
            "The current state does not allow the operation. The reply has the reason.",
        ),
        Problem(
            "no-route", 409, "No route",
            "The topic has no subscribers, and the request requires one.",
        ),
        Problem(
            "unknown-delivery", 409, "Unknown delivery",
            "An acknowledgement names a delivery that is not unsettled: it was settled or returned, or never "
            "existed.",
        ),
        Problem(
            "taken-over", 409, "Taken over",
            "A newer connection of the same user, token and client-id has taken the place of this one.",
        ),
        Problem(
            "lease-lost", 409, "Lease lost",
            "The message was not settled in time and is no longer yours. Another consumer may have it.",
        ),
        Problem(
            "cluster-mismatch", 409, "Settings of brokers differ",
            "Two brokers of a cluster have different values of a setting that must be equal, or the same name. The "
            "members property and values have it.",
        ),
        Problem(
            "history-gone", 410, "History gone",
            "The requested messages of the topic, or those after them, are no longer retained: begin with "
            "from:first. Or the requested positions of the journal are no longer stored: begin with the member "
            "low.",
        ),
        Problem(
            "precondition-failed", 412, "Precondition failed",
            "The resource was changed since you read it. Read it again and repeat your change.",
        ),
        Problem(
            "too-large", 413, "Too large",
            "A body, a frame or a list is larger than this node accepts. The reply has the limit and the "
            "size.",
        ),
        Problem(
            "unsupported-type", 415, "Unsupported media type",
            "The media type of the body is not supported here.",
        ),
        Problem(
            "unsupported", 422, "Not supported",
            "This version of MOM does not support the request. Nothing was changed."
,
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
            "You exceed your rate limit. Try again after the time in Retry-After.",
        ),
        Problem(
            "too-many", 429, "Too many",
            "A connection has reached its limit of subscriptions or transactions, or a destination that of "
            "producers or consumers.",
        ),
        Problem("internal", 500, "Internal error", "The node met an internal error. Its log has the details."),
        Problem(
            "origin-unreachable", 503, "Origin unreachable",
            "The callback broker cannot connect to the remote broker of the service. The detail has the reason.",
        ),
        Problem(
            "not-active", 503, "Not active",
            "This node does not serve messages now. Location and active name the node that does.",
        ),
        Problem(
            "wrong-home", 503, "Wrong home",
            "This destination belongs to another broker. Location names it.",
        ),
        Problem(
            "queue-full", 503, "Queue full",
            "The destination, or the broker, has reached its limit of messages or bytes, and no space became free "
            "while the message was blocked. Try again after the time in Retry-After.",
        ),
        Problem(
            "store-full", 503, "Store full",
            "There is no space left to store messages. Consumers are still served, and messages are accepted again "
            "when there is space.",
        ),
        Problem(
            "paused", 503, "Paused",
            "An administrator paused the destination, which accepts no messages now, or the broker, which serves no "
            "clients now.",
        ),
        Problem(
            "quiesced", 503, "Quiesced",
            "An administrator has quiesced the broker: it takes no new clients, and serves those that are connected. "
            "The member active names other brokers, if there are any.",
        ),
        Problem(
            "taking-over", 503, "Taking over",
            "The broker takes over the messages of one that has failed, and takes no new clients meanwhile, for ten "
            "seconds at most. The member active names other brokers, if there are any.",
        ),
        Problem(
            "busy", 503, "Busy",
            "The node has reached its limit of concurrent requests or memory. Try again after the time in "
            "Retry-After.",
        ),
        Problem(
            "store-unavailable", 503, "Store unavailable",
            "The journal cannot be written now. Nothing was stored.",
        ),
        Problem(
            "master-unavailable", 503, "Master broker unavailable",
            "MASTER_UNAVAILABLE: the broker that keeps the change record of the cluster is not connected. Declared "
            "destinations and durable subscriptions cannot be created, changed or deleted until it is; all else "
            "works. The member keeper has its name.",
        ),
        Problem(
            "flow-broken", 409, "Flow broken",
            "A message that a bridge forwarded was refused, so the messages after it are refused, too, to keep "
            "their order. The bridge restarts the flow.",
        ),
        Problem(
            "disconnected", 409, "Disconnected",
            "An operator closed the connection. The detail is the operator's reason.",
        ),
        # Message channels between sites; the answers to requests have these names as their status, too.
        Problem(
            "rep-unavail", 503, "Site unavailable",
            "The site is not linked, has too much to do, or went away while the request waited; or there is no "
            "master now. The outcome of a request is unknown: it may have been carried out.",
        ),
        Problem("noserver", 503, "No handler", "No application at the site has a handler for requests."),
        Problem("keyempty", 502, "No answer", "The handler at the site returned without an answer."),
        Problem(
            "buffer-small", 409, "Several parts",
            "The answer has several parts, and one was asked for. Ask for several.",
        ),
        # Errors that end a STOMP connection.
        Problem(
            "malformed-frame", 400, "Malformed frame",
            "The bytes are not a STOMP frame. The detail has the error.",
        ),
        Problem(
            "bad-escape", 400, "Bad escape",
            "A header has an escape sequence that the version of STOMP does not define.",
        ),
        Problem(
            "unknown-command", 400, "Unknown command",
            "The command of the frame is not a client command of STOMP.",
        ),
        Problem(
            "bad-content-length", 400, "Bad content-length",
            "The content-length is not a number of bytes.",
        ),
        Problem("too-many-headers", 400, "Too many headers", "The frame has more headers than this node accepts."),
        Problem("not-utf8", 400, "Not UTF-8", "A header is not valid UTF-8."),
        Problem(
            "missing-nul", 400, "Missing NUL",
            "The NUL byte that ends a frame is not at the position given by content-length.",
        ),
        Problem(
            "tls-on-stomp-port", 400, "TLS on the plain port",
            "The client began a TLS handshake on a port for STOMP without TLS.",
        ),
        Problem(
            "tls-required", 400, "TLS required",
            "The client connected without TLS to a port that requires it.",
        ),
        Problem("not-connected", 400, "Not connected", "The first frame of a connection must be CONNECT."),
        Problem("unsupported-version", 400, "Unsupported version", "This broker supports STOMP 1.0, 1.1 and 1.2."),
        Problem(
            "unsupported-protocol", 400, "Unsupported subprotocol",
            "Offer v12.stomp, v11.stomp or v10.stomp, or none.",
        ),
        Problem("wrong-host", 400, "Unknown virtual host", "The host header names another broker."),
        Problem("login-timeout", 408, "Login timed out", "The client connected, but did not send CONNECT in time."),
        Problem(
            "heart-beat-lost", 408, "Heart-beat lost",
            "The client agreed to send heart-beats, and sent nothing for twice that time.",
        ),
        Problem("frame-timeout", 408, "Frame timed out", "The client began a frame and did not finish it in time."),
        Problem(
            "slow-consumer", 429, "Slow consumer",
            "The client is too slow: too many messages, or too large ones, wait for its topic subscription or "
            "temporary queue, or it settled nothing with all its credit used for longer than the destination "
            "allows.",
        ),
    )
}  # fmt: skip


def problem_body(name: str, detail: str, **extra: Any) -> dict[str, object]:
    """The members of a problem; `extra` are additional ones."""
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
    """Send a problem as the complete ASGI reply, and close the connection."""
    body = problem_json(name, detail, **extra)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": PROBLEMS[name].status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
