"""Checks of what comes from another broker: sessions and the core take a message as valid, and all else takes
the names of brokers so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker_app.base.refused import Refused
from broker_app.base.settings.roles import BROKER_NAME
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.report import ADOPTED_MARK

#: the characters of the id of a message, which becomes a line of a frame
_VISIBLE: Final = bytes(range(ord("!"), ord("~") + 1))

#: the name of a broker, or of an adopted one
_NAME: Final = re.compile(rf"{BROKER_NAME}({ADOPTED_MARK}\d{{1,20}})?")


def check_identity(broker: f.Identity) -> None:
    """Raise Refused for a name or an address that no broker has. An adopted one has no address."""
    if not _NAME.fullmatch(broker.name):
        raise Refused("protocol-error", f"{broker.name!r} is no name of a broker")
    if broker.address and not is_address(broker.address):
        raise Refused("protocol-error", f"{broker.address!r} is no address of a broker")


def is_address(text: str) -> bool:
    """Return whether a broker can be connected to at an address: HOST:PORT."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    return bool(host) and len(text) <= 300 and is_port


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
