"""CloudEvents in structured and in batch mode: events as JSON, stored as those of binary mode are.

An attribute becomes the header `ce-<name>`, the data the body, and what it is its content type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from broker_app.config import MAX_HEADERS
from broker_app.net.http.refusals import invalid, too_large
from broker_app.net.http.replies import Header
from broker_app.net.rest.messages.envelopes import Item

STRUCTURED, BATCH = b"application/cloudevents+json", b"application/cloudevents-batch+json"

_REQUIRED = ("id", "source", "specversion", "type")
#: an attribute is a header; the data and its type are none
_MOST_MEMBERS = MAX_HEADERS + 2
_NAME = re.compile(r"[a-z0-9]{1,50}")
_EVENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE = msgspec.json.Decoder(str | int | bool)


def headers_and_body(headers: Sequence[Header], event: bytes) -> tuple[list[Header], bytes]:
    """A request in structured mode as one in binary mode. Raises Refused."""
    item = item_of(event)
    kept = [header for header in headers if header[0] != b"content-type"]
    event_headers = [(name.encode(), value.encode()) for name, value in (item.headers or {}).items()]
    content_type = (item.content_type or "application/json").encode()
    return [*kept, (b"content-type", content_type), *event_headers], item.content()


def item_of(event: bytes) -> Item:
    """One event as an item of a batch. Raises Refused."""
    try:
        members = _EVENT.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid("", f"this is no CloudEvent: {error}") from None
    except RecursionError:
        raise invalid("", "this JSON is nested too deeply") from None
    if len(members) > _MOST_MEMBERS:  # what is read of each takes time
        raise too_large("members of the event", _MOST_MEMBERS, len(members))
    data, data_base64 = members.pop("data", UNSET), members.pop("data_base64", None)
    attributes = {name: _attribute(name, value) for name, value in members.items() if value != b"null"}
    for name in _REQUIRED:
        if not attributes.get(name):
            raise invalid(f"/{name}", "is missing")
    if attributes["specversion"] != "1.0":
        raise invalid("/specversion", "must be 1.0", attributes["specversion"])
    content_type = attributes.pop("datacontenttype", None)
    if isinstance(data, UnsetType) and data_base64 is None:
        data_base64 = msgspec.Raw(b'""')
    elif content_type is None:
        content_type = "application/json"
    return Item(
        body=data,
        body_base64=_text("/data_base64", data_base64) if data_base64 is not None else None,
        content_type=content_type,
        headers={f"ce-{name}": value for name, value in attributes.items()},
    )


def _attribute(name: str, value: msgspec.Raw) -> str:
    if not _NAME.fullmatch(name):
        raise invalid(
            f"/{name[:100]}", "the name of an attribute must consist of lower-case letters and digits"
        )
    try:
        decoded = _VALUE.decode(value)
    except msgspec.DecodeError:
        raise invalid(f"/{name}", "must be a text, a whole number, true or false") from None
    return decoded if isinstance(decoded, str) else str(decoded).lower()


def _text(pointer: str, value: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        raise invalid(pointer, "must be a text") from None
