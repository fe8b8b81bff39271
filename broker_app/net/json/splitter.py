"""Cuts a stream of bytes into JSON objects, which end where their last brace does."""

from __future__ import annotations

import re

#: signs that have a meaning outside a string, and inside
_OUTSIDE = re.compile(rb'["{}]')
_INSIDE = re.compile(rb'["\\]')
_QUOTE, _BACKSLASH, _OPEN = b'"\\{'


class Malformed(ValueError):
    """The stream is not a sequence of JSON objects, or an object is too long."""


class ObjectSplitter:
    """Objects of at most `most` bytes, of a stream that arrives in any pieces: a WebSocket server may join
    short messages. Whether an object is valid JSON is not checked."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = b""
        #: how far the data was looked at, in braces and within a string
        self._at = self._depth = 0
        self._in_string = False

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that are complete with these bytes. Raises Malformed."""
        self._data += data
        found: list[bytes] = []
        while self._data:
            if not self._depth:
                self._data = self._data.lstrip()
                if self._data and self._data[0] != _OPEN:
                    raise Malformed("each operation is a JSON object, which begins with {")
            end = self._end()
            if end is None:
                if len(self._data) > self._most:
                    raise Malformed(f"an operation has at most {self._most} bytes")
                break
            found.append(self._data[:end])
            self._data, self._at = self._data[end:], 0
        return found

    def _end(self) -> int | None:
        """The index behind the first object; None if its end did not arrive yet."""
        data, at = self._data, self._at
        while match := (_INSIDE if self._in_string else _OUTSIDE).search(data, at):
            sign, at = data[match.start()], match.end()
            if sign == _BACKSLASH:
                at += 1  # what is escaped means nothing; it may not have arrived yet
            elif sign == _QUOTE:
                self._in_string = not self._in_string
            elif sign == _OPEN:
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    return at
        self._at = max(at, len(data))
        return None
