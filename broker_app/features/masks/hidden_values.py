"""Header blocks and JSON bodies without the values that are hidden.

A body with fields to hide that is no JSON, or is large, is hidden as a whole: what cannot be looked into may
have the value anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from broker_app.core.header_block import unescape
from broker_app.features.masks.mask import ANY

HIDDEN: Final = "********"
_HIDDEN_JSON: Final = b'"********"'
#: bytes of a body that is looked into: reading it takes about a millisecond
MOST_BYTES: Final = 256 * 1024

#: parts of a pointer
Parts = tuple[str, ...]


def hide_headers(block: bytes, names: frozenset[str]) -> bytes:
    """The header block without the values of these headers; itself if it has none of them."""
    if not names:
        return block
    lines, hidden = block.split(b"\n"), False
    for at, line in enumerate(lines):
        name, colon, _value = line.partition(b":")
        if colon and unescape(name.decode(errors="replace")).lower() in names:
            lines[at], hidden = b"%b:%b" % (name, HIDDEN.encode()), True
    return b"\n".join(lines) if hidden else block


def hide_fields(body: bytes, fields: Iterable[Parts]) -> bytes:
    """The body without the values at these pointers; itself if it is JSON without them."""
    wanted = list(fields)
    if not wanted or not body:
        return body
    if len(body) > MOST_BYTES:
        return _HIDDEN_JSON
    try:
        body.decode()
        raw = msgspec.json.decode(body, type=msgspec.Raw)
        return bytes(_hidden(raw, wanted)) if bytes(raw).lstrip()[:1] in (b"{", b"[") else _HIDDEN_JSON
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _HIDDEN_JSON


def _hidden(raw: msgspec.Raw, wanted: list[Parts]) -> msgspec.Raw:
    """A value without what is wanted. An object on the way is written again: a name that comes twice in
    it may have a value that only a reader of the text would see."""
    first = bytes(raw).lstrip()[:1]
    if first == b"{":
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return msgspec.Raw(
            msgspec.json.encode({name: _below(value, name, wanted) for name, value in members.items()})
        )
    if first == b"[":
        items = msgspec.json.decode(raw, type=list[msgspec.Raw])
        return msgspec.Raw(
            msgspec.json.encode([_below(item, str(at), wanted) for at, item in enumerate(items)])
        )
    return raw


def _below(value: msgspec.Raw, name: str, wanted: list[Parts]) -> msgspec.Raw:
    below = [parts[1:] for parts in wanted if parts[0] in (name, ANY)]
    if not below:
        return value
    if () in below:
        return msgspec.Raw(_HIDDEN_JSON)
    return _hidden(value, below)
