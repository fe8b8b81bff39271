"""Templates in messages of `mom pub`: {{n}}, {{uuid}} and {{now}}, evaluated for each message."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime

from broker_app.cli.base.failures import USAGE, Failure

_TEMPLATE = re.compile(rb"\{\{\s*([A-Za-z_]+)\s*\}\}")
_NAMES = (b"n", b"uuid", b"now")


class Template:
    """Bytes with templates in them; none are evaluated if `plain`. Raises Failure for an unknown name."""

    def __init__(self, text: bytes, *, plain: bool = False) -> None:
        self._text = text
        names = set() if plain else set(_TEMPLATE.findall(text))
        self._fixed = not names
        unknown = sorted(names - set(_NAMES))
        if unknown:
            raise Failure(
                USAGE,
                f"there is no template {{{{{unknown[0].decode()}}}}}",
                fix="the templates are {{n}}, {{uuid}} and {{now}}; --plain sends braces as they are",
            )

    def fill(self, n: int) -> bytes:
        """The text of message `n`, starting at 1."""
        if self._fixed:
            return self._text
        return _TEMPLATE.sub(lambda match: _value(match[1], n), self._text)


def _value(name: bytes, n: int) -> bytes:
    if name == b"n":
        return str(n).encode()
    if name == b"uuid":
        return str(uuid.uuid4()).encode()
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
