"""STOMP over TCP and WebSocket: its frames, with the headers that mean something to the broker.

Values of headers are texts. Frames with other headers are accepted; those of SEND belong to the application.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_app.base.system_topics import REFUSED_SUBSCRIPTION
from broker_app.core import reasons
from broker_app.core.commands import ACK_MODES, AUTO
from broker_app.core.header_block import RESENT
from broker_app.core.storage import dead_letter_headers
from broker_app.features.channels.statuses import BERKELEY_DB, KEYEMPTY, OK
from broker_app.net.asyncapi.part import (
    RECEIVE,
    SEND,
    DescriptionPart,
    channel,
    message,
    operation,
    websocket_channel,
)
from broker_app.net.problems import MEDIA_TYPE
from broker_app.net.rest.openapi.schemas import SELECTOR_TEXT, TEXT, Json, object_of, ref
from broker_app.net.server.subprotocols import STOMP
from broker_app.net.stomp import bridge_flows, browsers, rendering, scheduling_headers
from broker_app.net.stomp.header_names import OF_MESSAGE
from broker_app.net.stomp.login import registrations
from broker_app.net.stomp.login.handshake import ENHANCED_CLUSTER, JOURNAL
from mom_client.stomp import frame
from mom_client.stomp.frame import WITH_BODY

_BOOLEAN: Final[Json] = {"type": "string", "pattern": "^([Tt]rue|TRUE|1|[Ff]alse|FALSE|0|)$"}
_WHOLE: Final[Json] = {"type": "string", "pattern": "^[0-9]+$"}
_SECONDS: Final[Json] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"}
_BEATS: Final[Json] = {"type": "string", "pattern": "^[0-9]+,[0-9]+$"}
_NAME: Final[Json] = {"type": "string", "minLength": 1, "maxLength": registrations.MAX_NAME}
_DESTINATION: Final[Json] = {**TEXT, "description": "such as /queue/orders or /topic/prices.>"}
_RECEIPT: Final[Json] = {**TEXT, "description": "RECEIPT names it when the frame has taken effect"}
_TRANSACTION: Final[Json] = {**TEXT, "description": "takes effect at its COMMIT"}
_CONNECT: Final[Json] = {
    "accept-version": {**TEXT, "description": "1.0, 1.1 and 1.2, with commas"},
    "host": TEXT,
    "login": {**TEXT, "description": "name of the user, or token"},
    "passcode": {**TEXT, "description": "the password, or the token"},
    "heart-beat": _BEATS,
    "client-id": _NAME,
    "client-instance": _NAME,
    "mom-priority": {
        **_BOOLEAN,
        "description": "the client prefers this broker of a cluster: it is not asked to go to another",
    },
    "mom-soft-errors": {**_BOOLEAN, "description": "a refusal does not end the connection"},
    bridge_flows.SENDER: TEXT,
    registrations.SERVICE: {**_NAME, "description": "registers the connection as a service"},
    registrations.MACHINE: TEXT,
    registrations.TYPE: TEXT,
    registrations.EVENTS: {**TEXT, "description": "with commas"},
    registrations.ORIGIN: {**TEXT, "description": "at a callback broker: WebSocket addresses of the origin"},
    registrations.ORIGIN_LOGIN: TEXT,
    registrations.ORIGIN_PASSCODE: TEXT,
}
#: headers that messages have on their way to the broker and from it
_OF_MESSAGE: Final[Json] = {
    "content-type": TEXT,
    "persistent": _BOOLEAN,
    "priority": {"type": "string", "pattern": "^[0-9]$"},
    "expires": {**_WHOLE, "description": "ms since 1970"},
    "ttl-s": _SECONDS,
    "group": {"type": "string", "maxLength": scheduling_headers.MAX_GROUP},
    "dedup-id": {"type": "string", "maxLength": scheduling_headers.MAX_DEDUP_ID},
    "reply-to": TEXT,
    "correlation-id": TEXT,
    "type": TEXT,
    "traceparent": TEXT,
    "tracestate": TEXT,
}
_SEND: Final[Json] = {
    "destination": _DESTINATION,
    **_OF_MESSAGE,
    "delay-s": {**_SECONDS, "description": "seconds before which it is not delivered"},
    "deliver-at": {**_WHOLE, "description": "ms since 1970"},
    RESENT: {**_BOOLEAN, "description": "it was sent before, and no receipt came: delivered as a repeat"},
    "max-copies": {**_WHOLE, "description": "of a message to a profile"},
    "parts": {
        **TEXT,
        "description": "to a site (/channel/SITE): the lengths of its parts, with commas",
    },
    "channel-open": {**_BOOLEAN, "description": "to a site: only ask whether it can be reached"},
    "timeout-ms": {**_WHOLE, "description": "of a request to a site"},
    "multiple": {**_BOOLEAN, "description": "of a request to a site: the answer may have several parts"},
    "channel-call": {**TEXT, "description": "of the answer of a handler (/channel/$answer)"},
    "channel-status": {"enum": [OK, KEYEMPTY], "description": "of the answer of a handler"},
    "transaction": _TRANSACTION,
    bridge_flows.FLOW: TEXT,
    "content-length": _WHOLE,
}
_SUBSCRIBE: Final[Json] = {
    "destination": _DESTINATION,
    "id": TEXT,
    "ack": {"enum": list(ACK_MODES), "default": AUTO},
    "credit": _WHOLE,
    "selector": SELECTOR_TEXT,
    "durable-name": TEXT,
    "share": {**TEXT, "description": "true with durable-name, else the name that consumers share"},
    "from": {
        **TEXT,
        "description": "first, last, now, seq:<number>, seq:<tag>-<number>, time:<ms or RFC 3339>",
    },
    "browser": {**_BOOLEAN, "description": "of queues: shows what waits, and takes nothing"},
    "exclusive": _BOOLEAN,
    "consumer-priority": {
        "type": "string",
        "pattern": "^-?[0-9]+$",
        "description": "the highest is served first",
    },
    "no-local": {**_BOOLEAN, "description": "of topics: without what the connection sends itself"},
    "snapshot": {**_BOOLEAN, "description": "of system topics: the current state first"},
    bridge_flows.SOURCE: TEXT,
    bridge_flows.TARGET: TEXT,
}
_SETTLE: Final[Json] = {
    "id": {**TEXT, "description": "the ack of the MESSAGE"},
    "message-id": {**TEXT, "description": "before 1.2, with the subscription"},
    "subscription": TEXT,
    "transaction": _TRANSACTION,
}
_NACK: Final[Json] = {
    **_SETTLE,
    "requeue": {**_BOOLEAN, "description": "false: it becomes a dead letter"},
    "reason": TEXT,
    "delay-s": _SECONDS,
}
_CONNECTED: Final[Json] = {
    "version": {"enum": ["1.0", "1.1", "1.2"]},
    "session": TEXT,
    "server": TEXT,
    "user-name": TEXT,
    "heart-beat": _BEATS,
    "mom-failover": {**TEXT, "description": "addresses of all mirrors, or brokers, with commas"},
    ENHANCED_CLUSTER: {**TEXT, "description": "the enhanced cluster of the broker"},
    JOURNAL: {**TEXT, "description": "the tag of the journal, which positions may have before their number"},
    bridge_flows.SENDER: TEXT,
    bridge_flows.MAX_BODY: _WHOLE,
    registrations.CALLBACKS: _BOOLEAN,
    registrations.WEBSOCKET: TEXT,
}
#: headers of the broker that are more than texts
_FORMS: Final[Json] = {
    "redelivered": _BOOLEAN,
    "attempt": {"type": "string", "pattern": "^[1-9][0-9]*$"},
    "timestamp": _WHOLE,
    "seq": _WHOLE,
}
_MESSAGE: Final[Json] = {
    **{name: {**_FORMS.get(name, TEXT), "description": about} for name, about in OF_MESSAGE.items()},
    "destination": {**TEXT, "not": {"const": rendering.REFUSED_DESTINATION}},
    "content-length": _WHOLE,
    **_OF_MESSAGE,
    **dict.fromkeys(dead_letter_headers.FACTS, TEXT),
    "parts": {**TEXT, "description": "from a site: the lengths of its parts, with commas"},
    "channel-call": {**TEXT, "description": "of a request from a site: names it in the answer"},
    "channel-from": {**TEXT, "description": "the site that has sent it"},
    "need-response": {**_BOOLEAN, "description": "of what comes from a site: it is a request"},
    "channel-status": {"enum": list(BERKELEY_DB), "description": "of the answer from a site"},
    "dead-reason": {"enum": list(reasons.REASONS[1:])},
}
_REFUSAL: Final[Json] = {
    "subscription": {"const": REFUSED_SUBSCRIPTION},
    "destination": {"const": rendering.REFUSED_DESTINATION},
    "message-id": TEXT,
    "content-type": {"const": MEDIA_TYPE},
    "content-length": _WHOLE,
    "receipt-id": {**TEXT, "description": "the receipt of the frame that was refused"},
}
_BROWSER_END: Final[Json] = {
    "subscription": TEXT,
    "message-id": {"const": browsers.END_ID},
    "destination": TEXT,
    "browser": {"const": "end"},
    "not-shown": {
        "type": "string",
        "description": "the brokers of the cluster, by comma, whose messages are missing: they cannot be "
        "asked now, or have not answered in time",
    },
}
_ERROR: Final[Json] = {
    "message": TEXT,
    "content-type": {"const": MEDIA_TYPE},
    "content-length": _WHOLE,
    "receipt-id": TEXT,
    "subscription": TEXT,
    "reason": TEXT,
    "active": TEXT,
}


_RECEIPT_HEADERS: Final[Json] = {
    "receipt-id": TEXT,
    rendering.UNKNOWN_POSITION: {
        "const": "true",
        "description": "the journal never gave the position of `from`: the oldest message comes first",
    },
}


class _Frame(NamedTuple):
    """A frame: its headers, those that it must have, and the frames that answer it."""

    about: str
    headers: Json
    required: tuple[str, ...] = ()
    answers: tuple[str, ...] = ("RECEIPT", "REFUSAL", "ERROR")


_LOGIN: Final = ("CONNECTED", "ERROR")
_OF_CLIENTS: Final = {
    frame.CONNECT: _Frame("Log in", _CONNECT, (), _LOGIN),
    frame.STOMP: _Frame("Log in, as CONNECT does", _CONNECT, (), _LOGIN),
    frame.SEND: _Frame("Send a message", _SEND, ("destination",)),
    frame.SUBSCRIBE: _Frame("Subscribe to a destination", _SUBSCRIBE, ("destination",)),
    frame.UNSUBSCRIBE: _Frame(
        "End a subscription",
        {
            "id": TEXT,
            "destination": TEXT,
            "durable-name": TEXT,
            "delete": _BOOLEAN,
            "keep-unsettled": {**_BOOLEAN, "description": "true: what was delivered can still be settled"},
        },
    ),
    frame.ACK: _Frame("Acknowledge a message", _SETTLE),
    frame.NACK: _Frame("Return a message", _NACK),
    frame.BEGIN: _Frame("Begin a transaction", {"transaction": TEXT}, ("transaction",)),
    frame.COMMIT: _Frame("Carry out a transaction", {"transaction": TEXT}, ("transaction",)),
    frame.ABORT: _Frame("Drop a transaction", {"transaction": TEXT}, ("transaction",)),
    frame.DISCONNECT: _Frame("End the connection", {}),
}
_REQUIRED: Final = ("message-id", "destination", "redelivered", "attempt", "timestamp", "content-length")
_OF_BROKER: Final = {
    frame.CONNECTED: _Frame("The client has logged in", _CONNECTED, ("version", "session", "server")),
    frame.MESSAGE: _Frame("A message is delivered", _MESSAGE, _REQUIRED),
    frame.RECEIPT: _Frame("A frame has taken effect", _RECEIPT_HEADERS, ("receipt-id",)),
    frame.ERROR: _Frame("The broker ends the connection", _ERROR, ("message", "content-type")),
}
#: a MESSAGE of another content
_REFUSED: Final = _Frame(
    "A frame was refused, of a client with mom-soft-errors",
    _REFUSAL,
    ("subscription", "destination", "message-id", "content-type"),
)
_END: Final = _Frame("A browser has shown everything", _BROWSER_END, ("message-id", "destination", "browser"))


def part(tcp: str, websocket: str, address: str) -> DescriptionPart:
    """The description of both transports: servers, and the address of the WebSocket."""
    messages = {
        **{f"stomp.{command.decode()}": _message(command, one) for command, one in _OF_CLIENTS.items()},
        **{f"stomp.{command.decode()}": _message(command, one) for command, one in _OF_BROKER.items()},
        "stomp.REFUSAL": _message(frame.MESSAGE, _REFUSED),
        "stomp.BROWSER_END": _message(frame.MESSAGE, _END),
    }
    channels = {
        "stomp": channel("STOMP over TCP", None, (tcp,), messages),
        "stompWebSocket": channel(
            "STOMP over WebSocket", address, (websocket,), messages, bindings=websocket_channel(STOMP)
        ),
    }
    return DescriptionPart(channels, dict(_operations(channels)), messages, {})


def _message(command: bytes, one: _Frame) -> Json:
    """A frame as a message: a problem has it as its body, others of the broker and of clients any bytes."""
    headers = dict(one.headers)
    if command in frame.CLIENT_COMMANDS and command not in (frame.CONNECT, frame.STOMP):
        headers["receipt"] = _RECEIPT
    payload: Json = {"description": "bytes"} if command in WITH_BODY else {"const": ""}
    content_type = ""
    if headers.get("content-type", {}).get("const") == MEDIA_TYPE:
        payload, content_type = ref("Problem"), MEDIA_TYPE
    schema = object_of(headers, required=one.required, free=True)
    return message(command.decode(), one.about, payload, schema, content_type)


def _operations(channels: Json) -> Iterator[tuple[str, Json]]:
    for name in channels:
        for command, one in _OF_CLIENTS.items():
            kind = command.decode()
            yield f"{name}.{kind}", operation(RECEIVE, one.about, name, (kind,), one.answers)
        about = _OF_BROKER[frame.MESSAGE].about
        yield f"{name}.deliver", operation(SEND, about, name, (frame.MESSAGE.decode(), "BROWSER_END"))
