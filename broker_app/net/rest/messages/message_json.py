"""Messages as JSON: what receive, browse and event streams show of one.

The part that follows from the header block is rendered once per block. Bodies that are JSON are put
in as they are, byte for byte.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from broker_app.base import json_text, times
from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.core.message import Message
from broker_app.net.http.large_body import LargeBody, Piece, as_text, in_base64, in_one_line, parts
from broker_app.net.http.replies import Header, encode
from broker_app.net.stomp import header_names
from mom_client.stomp.encode import unescape

#: STOMP headers that have a field of their own, or none
_FIELDS = frozenset((
    "content-type", "content-length", "type", "correlation-id", "reply-to", "persistent", "priority",
    "expires", "ttl-s", "destination", "traceparent", "tracestate",
    *header_names.aliases(header_names.SEND, "ttl-s"),
))  # fmt: skip
#: headers that a raw reply has as `Mom-` headers
_IN_RAW = ("type", "correlation-id", "reply-to", "priority", "persistent")
_TEXTUAL = frozenset((
    "application/xml", "application/x-www-form-urlencoded", "application/yaml", "application/x-yaml",
    "application/javascript", "application/x-ndjson", "application/jsonl", "application/sql",
    "application/graphql",
))  # fmt: skip

#: headers of a reply whose body is a message: no browser may run it as a page of this node
UNTRUSTED: tuple[Header, ...] = (
    (b"content-disposition", b"attachment"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
#: what is before a body that is JSON as it is, text, or neither
RAW, TEXT, BASE64 = b'"body":', b'"body":"', b'"body_base64":"'
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Facts(NamedTuple):
    """The parsed headers of a message: `fields` are all of them, `headers` those of the application, `json`
    the rendered members of an item with a comma at the end."""

    content_type: str | None
    fields: dict[str, str]
    headers: dict[str, str]
    json: bytes


class Blocks:
    """Facts of header blocks, remembered."""

    MAX_CACHED = 1_024
    MAX_CACHED_BYTES = 4_096

    def __init__(self) -> None:
        self._cache: dict[bytes, Facts] = {}

    def facts(self, block: bytes) -> Facts:
        facts = self._cache.get(block)
        if facts is None:
            facts = _facts(block)
            if len(block) <= self.MAX_CACHED_BYTES:
                if len(self._cache) >= self.MAX_CACHED:
                    self._cache.clear()
                self._cache[block] = facts
        return facts


def _facts(block: bytes) -> Facts:
    found: dict[str, str] = {}
    for line in block.decode(errors="replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(unescape(name), unescape(value))
    free = {name: value for name, value in found.items() if name not in _FIELDS}
    members: dict[str, object] = {
        "type": found.get("type"),
        "content_type": found.get("content-type"),
        "correlation_id": found.get("correlation-id"),
        "reply_to": found.get("reply-to"),
        "headers": free,
    }
    trace = {name: found[name] for name in ("traceparent", "tracestate") if name in found}
    if trace:
        members["trace"] = trace
    return Facts(found.get("content-type"), found, free, encode(members)[1:-1] + b",")


def mom_headers(facts: Facts) -> list[Header]:
    """A header block as HTTP headers. Names that are invalid in HTTP are omitted, and control characters
    become blanks: a message must not inject headers into a reply."""
    known = {name: value for name, value in facts.fields.items() if name in _IN_RAW}
    headers = {f"mom-{name}": value for name, value in known.items()}
    headers |= {f"mom-header-{name}": value for name, value in facts.headers.items()}
    return [
        (name.lower().encode(), _CONTROL.sub(" ", value).strip().encode())
        for name, value in headers.items()
        if _TOKEN.fullmatch(name)
    ]


def http_content_type(facts: Facts) -> bytes:
    """The media type of a message for the head of a reply."""
    content_type = facts.fields.get("content-type", "")
    if not content_type or _CONTROL.search(content_type):
        return b"application/octet-stream"
    return content_type.encode()


def body_member(body: bytes, content_type: str | None) -> bytes:
    """`"body":…` for JSON and text, `"body_base64":"…"` for everything else."""
    return b"".join(parts(body_pieces(body, content_type)))


def body_pieces(body: bytes, content_type: str | None) -> list[Piece]:
    """The same in pieces. What takes long is done here: call it in a thread for large bodies."""
    kind = "" if content_type is None else content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        if json_text.is_valid(body):
            return [RAW, body if len(body) <= LARGE_BYTES else in_one_line(body)]
    # Without a content type, a NUL is the sign of binary content.
    elif _is_textual(kind) or (content_type is None and b"\0" not in body):
        try:
            return _text_pieces(body)
        except UnicodeDecodeError:
            pass
    return [BASE64, base64_piece(body), b'"']


def _is_textual(kind: str) -> bool:
    return kind.startswith("text/") or kind in _TEXTUAL or kind.endswith("+xml")


def _text_pieces(body: bytes) -> list[Piece]:
    if len(body) <= LARGE_BYTES:
        return [TEXT, encode(body.decode())[1:]]
    return [TEXT, as_text(body), b'"']


def base64_piece(body: bytes) -> Piece:
    """A body in base64."""
    return base64.b64encode(body) if len(body) <= LARGE_BYTES else in_base64(body)


def rfc3339(time_ms: int) -> bytes:
    """The bytes of a time in RFC 3339."""
    return times.rfc3339(time_ms / 1000).encode()


def received(
    message: Message, message_id: bytes, receipt: str | None, lease_until_ms: int, blocks: Blocks
) -> bytes:
    """A delivery as a JSON object in one line. Without a receipt it needs no settling."""
    return b"".join(parts(received_pieces(message, message_id, receipt, lease_until_ms, blocks)))


def received_pieces(
    message: Message, message_id: bytes, receipt: str | None, lease_until_ms: int, blocks: Blocks
) -> list[Piece]:
    """The same in pieces: bodies may be large."""
    envelope = message.envelope
    facts = blocks.facts(envelope.block)
    head = (
        b'{"id":"%b","seq":%d,"receipt":%b,"lease_until":%b,"time":"%b","attempt":%d,"redelivered":%b,'
        b'"priority":%d,"persistent":%b,%b'
    ) % (
        message_id,
        message.position,
        b'"%b"' % receipt.encode() if receipt is not None else b"null",
        b'"%b"' % rfc3339(lease_until_ms) if lease_until_ms else b"null",
        rfc3339(message.time_ms),
        message.attempts + 1,
        _boolean(message.attempts > 0),
        envelope.priority,
        _boolean(envelope.persistent),
        facts.json,
    )
    # JSON has line ends only between its tokens, where a blank does as well.
    body = [
        piece if isinstance(piece, LargeBody) else piece.replace(b"\r", b" ").replace(b"\n", b" ")
        for piece in body_pieces(message.body, facts.content_type)
    ]
    return [head, *body, b"}"]


def browsed(
    message: Message,
    message_id: bytes,
    state: str,
    preview_bytes: int,
    blocks: Blocks,
    attempts: int,
    due_ms: int = 0,
    size: int | None = None,
    broker: str = "",
) -> bytes:
    """A message as browsing shows it; of a longer body only the first `preview_bytes`. A delayed one
    also has the time when it is due, one in a cluster the `broker` that owns it. `size` is that of a body
    of which only the beginning is here."""
    envelope = message.envelope
    facts = blocks.facts(envelope.block)
    body = message.body
    size = len(body) if size is None else size
    truncated = size > preview_bytes
    shown = (
        _preview(body, preview_bytes, facts.content_type)
        if truncated
        else body_member(body, facts.content_type)
    )
    return (
        b'{"id":"%b","position":%d,"time":"%b","size":%d,"priority":%d,"persistent":%b,"attempt":%d,'
        b'"redelivered":%b,"state":"%b",%b%b%b%b,"truncated":%b}'
    ) % (
        message_id,
        message.position,
        rfc3339(message.time_ms),
        size,
        envelope.priority,
        _boolean(envelope.persistent),
        attempts + 1,
        _boolean(attempts > 0),
        state.encode(),
        b'"broker":%b,' % encode(broker) if broker else b"",
        b'"due":"%b",' % rfc3339(due_ms) if due_ms else b"",
        facts.json,
        shown,
        _boolean(truncated),
    )


BROWSED_FIELDS = frozenset((
    "id", "position", "time", "size", "priority", "persistent", "attempt", "redelivered", "state", "type",
    "content_type", "correlation_id", "reply_to", "headers", "trace", "body", "body_base64", "truncated",
    "due", "broker",
))  # fmt: skip
#: those of them that show the body
BODY_FIELDS = frozenset(("body", "body_base64", "truncated"))


def only(item: bytes, fields: Collection[str]) -> bytes:
    """An item with only these members, their values unchanged."""
    members = msgspec.json.decode(item, type=dict[str, msgspec.Raw])
    return encode({name: value for name, value in members.items() if name in fields})


def _preview(body: bytes, size: int, content_type: str | None) -> bytes:
    """The beginning of a long body: text where it is text (JSON that was cut is text), else base64."""
    start = body[:size]
    if body_member(b"", content_type).startswith(b'"body_base64"') and not (content_type or "").endswith(
        "json"
    ):
        return b'"body_base64":"' + base64.b64encode(start) + b'"'
    for cut in range(4):  # a character may have been cut in the middle
        try:
            text = start[: size - cut].decode()
        except UnicodeDecodeError:
            continue
        return b'"body":' + encode(text)
    return b'"body_base64":"' + base64.b64encode(start) + b'"'


def _boolean(value: bool) -> bytes:
    return b"true" if value else b"false"
