"""CloudEvents 1.0 over HTTP: a message as a request of a webhook, in binary or in structured mode.

A message that was sent as a CloudEvent keeps the attributes that it came with. The attributes of others
follow from its headers. Headers of the application become `mom-header-<name>`, as in replies of the API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from broker_app.base import json_text
from broker_app.base.times import rfc3339
from broker_app.core import header_block
from broker_app.core.message import Message
from broker_app.features.callbacks.webhooks.callback import STRUCTURED, Callback

Headers = list[tuple[str, str]]

#: the beginning of the types of events of the broker itself, which messages cannot have: a push is signed
OWN_TYPES: Final = "mom."
#: the type of an event whose message has no type, or one of those
MESSAGE_TYPE: Final = "mom.message"
ARRIVED_TYPE: Final = "mom.arrived"
TEST_TYPE: Final = "mom.test"
CHALLENGE_TYPE: Final = "mom.callback.challenge"
_JSON: Final = "application/json"
STRUCTURED_TYPE: Final = "application/cloudevents+json"
#: headers of the application that a request has at most, and the bytes of one
MAX_HEADERS: Final = 64
MAX_HEADER: Final = 4_096

#: headers of a message that have a place of their own in a request, or none
_FIELDS: Final = frozenset((
    "content-type", "content-length", "type", "persistent", "priority", "expires", "ttl-s", "expiration",
    "x-message-ttl", "ttl", "destination", "receipt", "transaction", "traceparent", "tracestate",
))  # fmt: skip
_TRACE: Final = ("traceparent", "tracestate")
_NAMED: Final = ("correlation-id", "reply-to")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ATTRIBUTE: Final = re.compile(r"ce-([a-z0-9]{1,50})")
#: characters that stand for themselves in the value of an attribute as a header
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class Event(NamedTuple):
    """An event to push: the id of the request, its CloudEvents attributes, headers besides, and data."""

    id: str
    attributes: Mapping[str, str]
    headers: Headers
    content_type: str
    data: bytes


def of_message(message: Message, message_id: str, source: str) -> Event:
    """The event of a message; `source` is that of messages that were not sent as CloudEvents."""
    found = header_block.headers(message.envelope.block)
    attributes = {match[1]: value for name, value in found.items() if (match := _ATTRIBUTE.fullmatch(name))}
    if not attributes.get("id"):
        attributes = {
            "id": message_id,
            "source": source,
            "type": found.get("type") or MESSAGE_TYPE,
            "subject": message.envelope.address.lstrip("/"),
            "time": rfc3339(message.time_ms / 1000),
        }
    attributes = {"specversion": "1.0", **attributes}
    headers = _of_application(found)
    kind = attributes.get("type", "").strip()
    if kind.lower().startswith(OWN_TYPES) and kind != MESSAGE_TYPE:
        attributes["type"] = MESSAGE_TYPE
        headers.append(("mom-header-type", _header(kind)))
    return Event(
        message_id,
        attributes,
        headers,
        found.get("content-type") or "application/octet-stream",
        message.body,
    )


def of_json(event_id: str, kind: str, source: str, subject: str, now_s: float, data: Any) -> Event:
    """An event of the broker itself, with JSON as data."""
    attributes = {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": kind,
        "subject": subject,
        "time": rfc3339(now_s),
    }
    return Event(event_id, attributes, [], _JSON, json.dumps(data, ensure_ascii=False).encode())


def request_of(event: Event, callback: Callback, attempt: int) -> tuple[Headers, bytes]:
    """Headers, without signature and authorization, and body of the request for an event."""
    kind = "queue" if callback.queue else "topic"
    own = [
        (f"mom-{kind}", _header(callback.queue or callback.topic)),
        ("mom-callback", _header(callback.name)),
        ("mom-attempt", str(attempt)),
    ]
    headers = [*callback.headers, *event.headers, *own]
    if callback.content == STRUCTURED:
        return [("content-type", STRUCTURED_TYPE), *headers], _structured(event)
    attributes = [(f"ce-{name}", quote(value, safe=_PLAIN)) for name, value in event.attributes.items()]
    content_type = _CONTROL.sub(" ", event.content_type)
    return [("content-type", _header(content_type)), *headers, *attributes], event.data


def _structured(event: Event) -> bytes:
    members = {**event.attributes, "datacontenttype": event.content_type}
    head = json.dumps(members, ensure_ascii=False).encode(errors="surrogatepass")[:-1]
    if _is_json(event.content_type) and json_text.is_valid(event.data):
        return b"".join((head, b', "data": ', event.data, b"}"))
    return b"".join((head, b', "data_base64": "', *json_text.in_base64(event.data), b'"}'))


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _JSON or kind.endswith("+json")


def _of_application(found: Mapping[str, str]) -> Headers:
    """The headers of a message for the request. Those that HTTP cannot have are left out."""
    headers = [(name, _header(found[name])) for name in _TRACE if name in found]
    headers += [(f"mom-{name}", _header(found[name])) for name in _NAMED if name in found]
    free = [
        (f"mom-header-{name}".lower(), _header(value))
        for name, value in found.items()
        if name not in _FIELDS
        and name not in _NAMED
        and not _ATTRIBUTE.fullmatch(name)
        and _TOKEN.fullmatch(name)
        and len(value) <= MAX_HEADER
    ]
    return headers + free[:MAX_HEADERS]


def _header(value: str) -> str:
    """A text as the value of a header: a message must not add headers to a request."""
    return _CONTROL.sub(" ", value).strip()
