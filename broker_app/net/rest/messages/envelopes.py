"""Envelopes: the metadata of messages from REST clients, as the headers that a STOMP client would send.

So a message looks the same to every consumer, whatever way it came in.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET, UnsetType

from broker_app.base import times
from broker_app.base.refused import Refused
from broker_app.core.destination import parse
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid, too_large, unknown
from broker_app.net.http.replies import Header
from broker_app.net.stomp import header_names, scheduling_headers
from broker_app.net.stomp import headers as stomp_headers

#: header of a publishing request → STOMP header
_STOMP_HEADERS = {
    b"mom-persistent": "persistent",
    b"mom-priority": "priority",
    b"mom-expires-s": "ttl-s",
    b"mom-delay-s": "delay-s",
    b"mom-deliver-at": "deliver-at",
    b"mom-dedup-id": "dedup-id",
    b"mom-resent": "resent",
    b"mom-correlation-id": "correlation-id",
    b"mom-reply-to": "reply-to",
    b"mom-type": "type",
    b"mom-group": "group",
    b"content-type": "content-type",
    b"traceparent": "traceparent",
    b"tracestate": "tracestate",
}
_APPLICATION = b"mom-header-"
_REFUSED = tuple(
    row.name for row in header_names.rows(header_names.SEND, header_names.REFUSED) if not row.harmless
)
#: application headers of these names would be taken for something else
_RESERVED = frozenset((
    "content-length", "content-type", "correlation-id", "destination", "expires", "persistent", "priority",
    "receipt", "reply-to", "transaction", "ttl-s", "type",
    *header_names.aliases(header_names.SEND, "ttl-s"),
    *header_names.OF_MESSAGE,
    *scheduling_headers.NAMES,
    *_REFUSED,
))  # fmt: skip
#: headers that no exported message has: they were applied, or refused, when it was sent
_IGNORED = frozenset((*scheduling_headers.DELAYS, *_REFUSED))
_PUBLISHING = (b"mom-", b"ce-")
#: bodies that are read, and not stored as they are (see `cloudevents`)
_EVENTS = "application/cloudevents"
#: longest time to live: ten years
MAX_EXPIRES_S = 315_360_000.0

_TEXT, _JSON = "text/plain", "application/json"
_TEXT_OF = msgspec.json.Decoder(str)


class Item(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a batch."""

    body: msgspec.Raw | UnsetType = UNSET
    body_base64: str | None = None
    content_type: str | None = None
    headers: dict[str, str] | None = None
    persistent: bool | None = None
    priority: int | None = None
    expires_s: float | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    type: str | None = None
    group: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    delay_s: float | None = None
    dedup_id: str | None = None
    resent: bool | None = None
    deliver_at: str | None = None

    @property
    def size(self) -> int:
        """The bytes of the body as it was written."""
        if isinstance(self.body, UnsetType):
            return len(self.body_base64 or "")
        return memoryview(self.body).nbytes

    def media_type(self) -> str | None:
        """The content type: where none is given, a JSON string is a text and any other JSON is JSON."""
        if self.content_type is not None or isinstance(self.body, UnsetType):
            return self.content_type
        return _TEXT if _is_text(self.body) else _JSON

    def content(self) -> bytes:
        """The bytes of the message: JSON as it was written, the characters of a text, or decoded base64."""
        if isinstance(self.body, UnsetType) == (self.body_base64 is None):
            raise invalid("/body", "exactly one of body and body_base64 is needed")
        if isinstance(self.body, UnsetType):
            try:
                return base64.b64decode(self.body_base64 or "", validate=True)
            except (binascii.Error, ValueError):
                raise invalid("/body_base64", "is not base64") from None
        content_type = self.content_type or ""
        kind = content_type.partition(";")[0].strip().lower()
        if kind == _JSON or kind.endswith("+json") or not (content_type or _is_text(self.body)):
            return bytes(self.body)
        if not _is_text(self.body):
            raise invalid("/body", f"must be a string when the content type is {content_type[:80]}")
        try:
            return _TEXT_OF.decode(self.body).encode()
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise invalid("/body", f"is not text: {error}") from None


def _is_text(body: msgspec.Raw) -> bool:
    return memoryview(body)[0] == ord('"')


class Envelopes:
    """Makes envelopes; requests with equal headers to one destination share one."""

    MAX_CACHED = 1_024
    #: longer header blocks are rarely sent again
    MAX_CACHED_BYTES = 4_096

    def __init__(self, limits: RestLimits) -> None:
        self._limits = limits
        self._cache: dict[tuple[object, ...], Envelope] = {}

    def of_request(self, address: str, request_headers: Iterable[Header]) -> Envelope:
        """The envelope of a message to `address` published singly. Raises Refused."""
        facts = tuple(
            [fact for fact in request_headers if fact[0] in _STOMP_HEADERS or fact[0].startswith(_PUBLISHING)]
        )
        key = (address, facts)
        envelope = self._cache.get(key)
        if envelope is None:
            envelope = self._keep(key, self._make(address, dict(self._to_stomp_headers(facts))))
        return envelope

    def of_item(self, address: str, item: Item) -> Envelope:
        """The envelope of an item of a batch to `address`. Raises Refused."""
        content_type = item.media_type()
        key = (
            address,
            content_type,
            item.persistent,
            item.priority,
            item.expires_s,
            item.correlation_id,
            item.reply_to,
            item.type,
            item.group,
            item.traceparent,
            item.tracestate,
            item.delay_s,
            item.dedup_id,
            item.resent,
            item.deliver_at,
            *(item.headers.items() if item.headers else ()),
        )
        envelope = self._cache.get(key)
        if envelope is None:
            envelope = self._keep(key, self._make(address, dict(_item_to_stomp_headers(item, content_type))))
        return envelope

    def of_exported(self, address: str, item: Item) -> Envelope:
        """The envelope of a message that was exported. Its headers are those that it had, also reserved ones;
        they mean the group, and no delay or deduplication any more. Raises Refused."""
        fields = Item(**{name: getattr(item, name) for name in Item.__struct_fields__ if name != "headers"})
        stated = dict(_item_to_stomp_headers(fields, item.media_type()))
        had = {name: value for name, value in (item.headers or {}).items() if name not in _IGNORED}
        if any("\0" in text for pair in had.items() for text in pair) or "" in had:
            raise invalid("/headers", "a header needs a name, and must not contain NUL")
        made = self._make(address, {**had, **stated})
        group = made.options.group if made.options is not None else ""
        return made.with_options(DeliveryOptions(group=group) if group else None)

    def _keep(self, key: tuple[object, ...], envelope: Envelope) -> Envelope:
        if len(envelope.block) <= self.MAX_CACHED_BYTES:
            if len(self._cache) >= self.MAX_CACHED:
                self._cache.clear()
            self._cache[key] = envelope
        return envelope

    def _make(self, address: str, headers: Mapping[str, str]) -> Envelope:
        """The envelope of STOMP headers that were checked. Refused when they are too many or too long."""
        if len(headers) > self._limits.max_headers:
            raise too_large("headers of the message", self._limits.max_headers, len(headers))
        size = sum(len(name) + len(value) for name, value in headers.items())
        if size > self._limits.max_header_bytes:
            raise too_large("bytes of message headers", self._limits.max_header_bytes, size)
        return stomp_headers.envelope(headers, parse(address))

    def _to_stomp_headers(self, facts: Iterable[Header]) -> Iterable[tuple[str, str]]:
        for name, raw in facts:
            shown = name.decode("latin-1")
            value = _text(shown, raw)
            if name.startswith(_APPLICATION):
                yield application_header(f"header/{shown}", shown[len(_APPLICATION) :], value)
            elif name.startswith(b"ce-"):
                yield shown, value
            elif name == b"content-type" and value.lower().startswith(_EVENTS):
                detail = (
                    "send CloudEvents as application/cloudevents+json or application/cloudevents-batch+json"
                )
                raise Refused("unsupported-type", detail)
            elif name in _STOMP_HEADERS:
                yield _STOMP_HEADERS[name], _checked(f"header/{shown}", _STOMP_HEADERS[name], value)
            else:
                known = [carried.decode() for carried in _STOMP_HEADERS if carried.startswith(b"mom-")]
                raise unknown(f"header/{shown}", shown, [*known, "mom-header-<name>"], "header")


def _item_to_stomp_headers(item: Item, content_type: str | None) -> Iterable[tuple[str, str]]:
    if item.delay_s is not None:
        yield "delay-s", check_delay("/delay_s", item.delay_s, item.delay_s)
    if item.deliver_at is not None:
        yield "deliver-at", check_time("/deliver_at", item.deliver_at)
    if item.dedup_id is not None:
        yield "dedup-id", check_dedup_id("/dedup_id", item.dedup_id)
    if item.resent:
        yield "resent", "true"
    if item.priority is not None:
        if not 0 <= item.priority <= 9:
            raise invalid("/priority", "must be a whole number from 0 to 9", item.priority)
        yield "priority", str(item.priority)
    if item.persistent is not None:
        yield "persistent", "true" if item.persistent else "false"
    if item.expires_s is not None:
        check_expires("/expires_s", item.expires_s, item.expires_s)
        yield "ttl-s", f"{item.expires_s:.3f}"
    texts = {
        "content-type": content_type,
        "correlation-id": item.correlation_id,
        "reply-to": item.reply_to,
        "type": item.type,
        "group": item.group,
        "traceparent": item.traceparent,
        "tracestate": item.tracestate,
    }
    for name, value in texts.items():
        if value is not None:
            if "\0" in value:
                raise invalid("/" + name.replace("-", "_"), "contains NUL, which is not allowed in a header")
            yield name, value
    for name, value in (item.headers or {}).items():
        yield application_header(f"/headers/{name[:100]}", name, value)


def _text(shown: str, raw: bytes) -> str:
    try:
        value = raw.decode().strip(" \t")  # which are no part of the value, by RFC 9110, 5.5
    except UnicodeDecodeError:
        raise invalid(f"header/{shown}", "is not UTF-8") from None
    if "\0" in value:
        raise invalid(f"header/{shown}", "contains NUL, which is not allowed in a header")
    return value


def application_header(pointer: str, name: str, value: str) -> tuple[str, str]:
    """A header of the application, checked: its name means nothing to the broker."""
    if name in _RESERVED:
        raise invalid(pointer, f"{name} is reserved and cannot be an application header; use its own field")
    if not name or "\0" in name or "\0" in value:
        raise invalid(pointer, "a header needs a name, and must not contain NUL")
    return name, value


def _checked(pointer: str, name: str, value: str) -> str:
    match name:
        case "persistent" | "resent":
            if value not in ("true", "false"):
                raise invalid(pointer, "must be true or false", value)
        case "priority":
            if value not in tuple("0123456789"):
                raise invalid(pointer, "must be a whole number from 0 to 9", value)
        case "ttl-s":
            try:
                seconds = float(value)
            except ValueError:
                seconds = 0.0
            check_expires(pointer, seconds, value)
        case "delay-s":
            try:
                seconds = float(value)
            except ValueError:
                seconds = -1.0
            return check_delay(pointer, seconds, value)
        case "deliver-at":
            return check_time(pointer, value)
        case "dedup-id":
            return check_dedup_id(pointer, value)
    return value


def check_delay(pointer: str, seconds: float, got: object) -> str:
    """A delay as its STOMP header; Refused unless it is one."""
    if not 0 <= seconds <= scheduling_headers.MAX_DELAY_S:
        raise invalid(pointer, f"must be a number of seconds from 0 to {scheduling_headers.MAX_DELAY_S}", got)
    return f"{seconds:.3f}"


def check_time(pointer: str, value: str) -> str:
    """A time in RFC 3339 as milliseconds since 1970."""
    ms = times.milliseconds(value)
    if ms is None:
        raise invalid(pointer, "must be a time with a zone, like 2030-01-31T08:00:00Z, before 2200", value)
    return str(ms)


def check_dedup_id(pointer: str, value: str) -> str:
    """`value`; Refused unless it is a dedup-id."""
    if not 1 <= len(value) <= scheduling_headers.MAX_DEDUP_ID or "\0" in value:
        raise invalid(
            pointer, f"must have 1 to {scheduling_headers.MAX_DEDUP_ID} characters and no NUL", value[:100]
        )
    return value


def check_expires(pointer: str, seconds: float, got: object) -> None:
    """Refused unless `seconds` is a time to live of whole milliseconds."""
    if not 0.001 <= seconds <= MAX_EXPIRES_S:
        raise invalid(pointer, f"must be a number of seconds from 0.001 to {MAX_EXPIRES_S:.0f}", got)
