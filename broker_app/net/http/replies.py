"""Replies: what endpoints return, and the streams of those that answer bit by bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.net.http.large_body import Piece
from broker_app.net.http.refusals import body_of, headers_of, status_of
from broker_app.net.problems import MEDIA_TYPE as PROBLEM_TYPE

Header = tuple[bytes, bytes]
JSON = b"application/json"
NDJSON = b"application/x-ndjson"

encode = msgspec.json.encode


class Reply(NamedTuple):
    """A whole reply; `content_type` empty means that there is no body. A body that may be large is in
    `pieces`, which are sent one by one."""

    status: int
    content_type: bytes = b""
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    pieces: list[Piece] | None = None

    @property
    def length(self) -> int:
        """The bytes of the body."""
        return len(self.body) if self.pieces is None else sum(map(len, self.pieces))


def separated(rows: Iterable[list[Piece]]) -> list[Piece]:
    """The pieces of JSON objects, with commas between the objects."""
    pieces: list[Piece] = [piece for row in rows for piece in (b",", *row)]
    return pieces[1:]


def json_reply(value: Any, status: int = 200, headers: Iterable[Header] = ()) -> Reply:
    return Reply(status, JSON, encode(value), tuple(headers))


NO_CONTENT = Reply(204)


def request_id(boot: str, number: int) -> Header:
    """The header that names a request of this process."""
    return (b"request-id", f"{boot}-{number:x}".encode())


def problem_reply(refusal: Refused, trace_id: str | None) -> Reply:
    """The reply to a refused request."""
    more = {"trace_id": trace_id} if trace_id else {}
    body = encode(body_of(refusal, **more))
    return Reply(status_of(refusal), PROBLEM_TYPE.encode(), body, headers_of(refusal))
