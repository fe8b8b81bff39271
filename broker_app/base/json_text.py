"""Bodies within JSON. Large ones are dealt with piece by piece, since no other thread runs meanwhile."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Iterator
from typing import Final

import msgspec

#: bytes of a body that are encoded together, in a millisecond or two; a multiple of 3
PIECE: Final = 3 * 256 * 1024


def in_base64(body: bytes) -> Iterator[bytes]:
    """A body in base64, in pieces."""
    view = memoryview(body)
    for at in range(0, len(body), PIECE):
        yield base64.b64encode(view[at : at + PIECE])


def is_valid(body: bytes) -> bool:
    """True if a body is JSON in UTF-8."""
    try:
        _check_utf8(body)  # msgspec does not look into strings that it passes over
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _check_utf8(body: bytes) -> None:
    """Raises UnicodeDecodeError."""
    if len(body) <= PIECE:
        body.decode()
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(body), PIECE):
        decoder.decode(body[at : at + PIECE])
    decoder.decode(b"", final=True)
