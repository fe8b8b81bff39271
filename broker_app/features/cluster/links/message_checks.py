"""Checks of what comes from another broker: sessions and the core take a message as valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_app.base.refused import Refused

#: the characters of the id of a message, which becomes a line of a frame
_VISIBLE: Final = bytes(range(ord("!"), ord("~") + 1))


def check_block(block: bytes) -> None:
    """Raise Refused for headers that no broker would send."""
    lines = block.split(b"\n")
    is_complete = not lines.pop()
    if not (is_complete and all(b":" in line for line in lines)):
        raise Refused("protocol-error", "a message came with headers that no client can send")
    if b"\0" in block or b"\r" in block:
        raise Refused("protocol-error", "a message came with headers that contain control characters")
    try:
        block.decode()
    except UnicodeDecodeError:
        raise Refused("protocol-error", "the headers of a message are not in UTF-8") from None


def check_ids(ids: Sequence[bytes]) -> None:
    """Raise Refused for ids that no broker would send."""
    if b"".join(ids).translate(None, _VISIBLE):
        raise Refused("protocol-error", "a message came with an id that no broker sends")
