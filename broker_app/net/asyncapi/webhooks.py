"""Webhooks: the requests of callbacks, which are CloudEvents, and the answers of their receivers."""

from __future__ import annotations

from typing import Final

from broker_app.features.callbacks.webhooks import cloud_event
from broker_app.features.callbacks.webhooks.cloud_event import ARRIVED_TYPE, CHALLENGE_TYPE, TEST_TYPE
from broker_app.net.asyncapi.part import (
    APPLICATION_JSON,
    SEND,
    DescriptionPart,
    channel,
    http_operation,
    message,
    operation,
)
from broker_app.net.asyncapi.schemas import NOTIFICATION
from broker_app.net.rest.openapi.schemas import TEXT, TIME, Json, object_of, ref

_CHANNEL: Final = "webhook"
_CLOUDEVENT: Final = "CloudEvent"
_STRUCTURED: Final = cloud_event.STRUCTURED_TYPE
#: events of the broker itself: what they report, and the schema of their data
_OWN: Final[dict[str, tuple[str, str, Json]]] = {
    "arrived": (ARRIVED_TYPE, "Messages began to wait in the queue of a callback", ref(NOTIFICATION)),
    "test": (
        TEST_TYPE,
        "A sample that an operator sends",
        object_of({"callback": TEXT, "note": TEXT}),
    ),
    "challenge": (
        CHALLENGE_TYPE,
        "A question that the answer has to repeat, before the first push",
        object_of({"challenge": TEXT}),
    ),
}
_SIGNED: Final[Json] = {
    "webhook-id": {**TEXT, "description": "the same in each attempt: drop repeats by it"},
    "webhook-timestamp": {"type": "string", "pattern": "^[0-9]+$", "description": "seconds since 1970"},
    "webhook-signature": {
        "type": "string",
        "pattern": "^v1,[A-Za-z0-9+/=]+( v1,[A-Za-z0-9+/=]+)?$",
        "description": "HMAC-SHA256 of id.timestamp.body; two while a secret is being replaced",
    },
    "mom-attempt": {"type": "string", "pattern": "^[1-9][0-9]*$"},
    "mom-callback": TEXT,
    "mom-queue": {**TEXT, "description": "of a callback to a queue"},
    "mom-topic": {**TEXT, "description": "of a callback to a topic"},
    "authorization": {**TEXT, "description": "as configured"},
}
_OF_EITHER: Final = ("mom-queue", "mom-topic", "authorization")
_CARRIED: Final[Json] = {
    "traceparent": TEXT,
    "tracestate": TEXT,
    "mom-correlation-id": TEXT,
    "mom-reply-to": TEXT,
}
_ATTRIBUTES: Final[Json] = {
    "specversion": TEXT,
    "id": TEXT,
    "source": TEXT,
    "type": TEXT,
    "subject": TEXT,
    "time": TIME,
}
_OPTIONAL_ATTRIBUTES: Final = ("subject", "time")


def part(server: str) -> DescriptionPart:
    """The description of the requests to receivers."""
    own_types: Json = {"enum": [kind for kind, *_ in _OWN.values()]}
    messages = {
        "webhook.message": message(
            "message",
            "A message in binary mode: its body as it is, headers of the application as mom-header-<name>",
            {},
            _headers({"not": own_types}, {"content-type": TEXT, **_CARRIED}),
        ),
        "webhook.structured": message(
            "structured",
            "Any of the events in structured mode, for callbacks with the content `structured`",
            ref(_CLOUDEVENT),
            _request({"content-type": {"const": _STRUCTURED}}, _CARRIED),
            _STRUCTURED,
        ),
        **{
            f"webhook.{name}": message(
                name, about, data, _headers({"const": kind}, {"content-type": {"const": APPLICATION_JSON}}),
                APPLICATION_JSON,
            )
            for name, (kind, about, data) in _OWN.items()
        },
        "webhook.answer": message(
            "answer",
            "2xx settles a message; 410 ends the callback; all else is pushed again, after its Retry-After",
            {},
            object_of({"retry-after": TEXT}, required=(), free=True),
        ),
        "webhook.echo": message(
            "echo", "2xx with the challenge, as plain text or in an object", _echo()
        ),
        "webhook.handshake": message(
            "handshake",
            "A question whether a URL agrees to be called, before the first push",
            {"const": ""},
            object_of(
                {"webhook-request-origin": TEXT, "webhook-request-callback": TEXT},
                required=("webhook-request-origin",),
                free=True,
            ),
        ),
        "webhook.agreement": message(
            "agreement",
            "2xx: it agrees to be called",
            {},
            object_of(
                {"webhook-allowed-origin": {**TEXT, "description": "name of the broker, or *"}}, free=True
            ),
        ),
    }  # fmt: skip
    post = http_operation("POST")
    pushed = ("message", "structured", "arrived", "test")
    about = "The URL of a callback. What its answers mean is in docs/callbacks.md"
    return DescriptionPart(
        {_CHANNEL: channel(about, None, (server,), messages)},
        {
            "webhook.push": operation(
                SEND, "Push messages and notifications, signed", _CHANNEL, pushed, ("answer",), post
            ),
            "webhook.challenge": operation(
                SEND, "Challenge a URL that does not agree", _CHANNEL, ("challenge",), ("echo",), post
            ),
            "webhook.handshake": operation(
                SEND, "Ask a URL for its agreement", _CHANNEL, ("handshake",), ("agreement",),
                http_operation("OPTIONS"),
            ),
        },
        messages,
        {_CLOUDEVENT: _structured()},
    )  # fmt: skip


def _request(fixed: Json, others: Json) -> Json:
    """The headers of each push, and these."""
    members = {**_SIGNED, **fixed, **others}
    required = [name for name in (*_SIGNED, *fixed) if name not in _OF_EITHER]
    return object_of(members, required=tuple(required), free=True)


def _headers(kind: Json, others: Json) -> Json:
    """The headers of an event in binary mode, whose type matches `kind`."""
    attributes = {f"ce-{name}": schema for name, schema in _ATTRIBUTES.items()}
    attributes["ce-type"] = {**TEXT, **kind}
    fixed = {name: one for name, one in attributes.items() if name[3:] not in _OPTIONAL_ATTRIBUTES}
    return _request(fixed, {**attributes, **others})


def _structured() -> Json:
    members = {
        **_ATTRIBUTES,
        "datacontenttype": TEXT,
        "data": {"description": "of JSON"},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    }
    required = [name for name in _ATTRIBUTES if name not in _OPTIONAL_ATTRIBUTES]
    return object_of(members, required=(*required, "datacontenttype"), free=True)


def _echo() -> Json:
    return {"anyOf": [TEXT, object_of({"challenge": TEXT}, free=True)]}
