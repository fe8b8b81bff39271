"""The options of a send, and the header lines they become."""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from .stomp import frame as wire
from .stomp.encode import encode_headers

__all__ = ["Composer", "SendOptions"]


class SendOptions(TypedDict, total=False):
    """What may be said about a message; None is the same as nothing."""

    headers: Mapping[str, str] | None  #: the application's own
    persistent: bool | None  #: whether it survives a crash of the broker; default: as the destination has it
    priority: int | None  #: 0 to 9, higher first; default 4
    ttl_s: float | None  #: seconds after which it is no longer delivered
    delay_s: float | None  #: seconds before which it is not delivered
    content_type: str | None
    correlation_id: str | None
    reply_to: str | None
    group: str | None  #: messages of one group go to one consumer at a time, in order
    dedup_id: str | None  #: a repeat within the broker's window is confirmed and not stored


#: Options that differ from message to message; the lines of the others are made once.
_VARYING: Final = frozenset(("headers", "correlation_id", "dedup_id", "group"))
_HEADS: Final = 256


class Composer:
    """Makes the beginnings of SEND frames and remembers them, bounded."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Any, ...], bytes] = {}

    def head(self, destination: str, options: SendOptions, version: str) -> bytes:
        """The frame up to where `receipt` and `content-length` go, escaped for `version`."""
        fixed = tuple([item for item in options.items() if item[0] not in _VARYING])
        key = (destination, version, fixed)
        head = self._heads.get(key)
        if head is None:
            lines = [("destination", destination), *_lines(fixed)]
            head = wire.SEND + b"\n" + encode_headers(lines, version)
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            self._heads[key] = head
        if len(fixed) == len(options):
            return head
        varying = [item for item in options.items() if item[0] in _VARYING and item[0] != "headers"]
        own = options.get("headers") or {}
        return head + encode_headers([*_lines(varying), *own.items()], version)


def _lines(options: Any) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), _text(value)) for name, value in options if value is not None]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
