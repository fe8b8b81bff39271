"""Cuts a stream of bytes into JSON objects, which end where their last brace does.

Each byte is looked at once, and copied once: an index runs through what was received.
"""

from __future__ import annotations

import re
from typing import Final

#: what has a meaning outside a string; the rest of a string, as far as it arrived, without its quote
_SIGN: Final = re.compile(rb'["{}]')
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SPACE: Final = re.compile(rb"\s*+")
_QUOTE, _OPEN = b'"{'
#: signs and bytes that one call looks at, about: 3 ms
_SIGNS: Final = 5_000
_BYTES: Final = 256 * 1024


class Malformed(ValueError):
    """The stream is not a sequence of JSON objects, or an object is too long."""


class ObjectSplitter:
    """Objects of at most `longest` bytes, of a stream that arrives in any pieces: a WebSocket server may join
    short messages. Whether an object is valid JSON is not checked."""

    def __init__(self, longest: int) -> None:
        #: may change between two calls
        self.longest = longest
        #: True while there may be something to take
        self.has_unread = False
        self._data = b""
        #: where the first object begins that is not complete; it was looked at up to `_at`, within `_depth`
        #: braces and perhaps a string
        self._start = self._at = self._depth = 0
        self._in_string = False

    def put(self, data: bytes) -> None:
        """Add what was received."""
        self._data = self._data[self._start :] + data
        self._at -= self._start
        self._start = 0
        self.has_unread = True

    def take(self, most: int) -> list[bytes]:
        """The next objects that are complete, at most so many; perhaps none although more is unread, for one
        call takes a short time. Raises Malformed."""
        found: list[bytes] = []
        data, at, depth, in_string = self._data, self._at, self._depth, self._in_string
        start, stop = self._start, at + _BYTES
        for _ in range(_SIGNS):
            if not depth:
                start = at = _SPACE.match(data, at).end()  # type: ignore[union-attr]  # matches always
                self.has_unread = start < len(data)
                if not self.has_unread or len(found) == most or at > stop:
                    break
                if data[start] != _OPEN:
                    raise Malformed("each operation is a JSON object, which begins with {")
            limit = min(start + self.longest, len(data))
            if in_string:
                at = _IN_STRING.match(data, at, limit).end()  # type: ignore[union-attr]
            sign = _SIGN.search(data, at, limit)
            if sign is None:
                self._check_rest(start)
                self.has_unread = False
                at = at if in_string else limit
                break
            at = sign.end()
            kind = data[at - 1]
            if kind == _QUOTE:
                in_string = not in_string
            elif kind == _OPEN:
                depth += 1
            else:
                depth -= 1
                if not depth:
                    found.append(data[start:at])
                    start = at
        self._start, self._at, self._depth, self._in_string = start, at, depth, in_string
        return found

    def _check_rest(self, start: int) -> None:
        if len(self._data) - start >= self.longest:
            raise Malformed(f"an operation has at most {self.longest} bytes")
