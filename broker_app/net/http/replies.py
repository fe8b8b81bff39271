"""Replies: what endpoints return, and the streams of those that answer bit by bit."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from broker_app.base.refused import Refused
from broker_app.net.http.large_body import Piece
from broker_app.net.http.refusals import body_of, headers_of, status_of
from broker_app.net.problems import MEDIA_TYPE as PROBLEM_TYPE

Header = tuple[bytes, bytes]
JSON = b"application/json"
NDJSON = b"application/x-ndjson"

encode = msgspec.json.encode

#: shorter bodies are not worth it
_WORTH_IT: Final = 1_000
#: `zlib` writes the format of gzip
_GZIP: Final = 31


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


def compressed(reply: Reply, accepted: bytes | None) -> Reply:
    """A reply of many similar numbers, with the fastest compression if its client takes it: `accepted` is the
    header Accept-Encoding."""
    if len(reply.body) < _WORTH_IT or not _takes_gzip(accepted or b""):
        return reply
    packer = zlib.compressobj(1, wbits=_GZIP)
    body = packer.compress(reply.body) + packer.flush()
    headers = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return reply._replace(body=body, headers=(*reply.headers, *headers))


def _takes_gzip(accepted: bytes) -> bool:
    for one in accepted.replace(b" ", b"").lower().split(b","):
        name, _, weight = one.partition(b";q=")
        if name == b"gzip":
            return weight.strip(b"0.") != b"" or not weight
    return False


NO_CONTENT = Reply(204)


def request_id(boot: str, number: int) -> Header:
    """The header that names a request of this process."""
    return (b"request-id", f"{boot}-{number:x}".encode())


def problem_reply(refusal: Refused, trace_id: str | None) -> Reply:
    """The reply to a refused request."""
    more = {"trace_id": trace_id} if trace_id else {}
    body = encode(body_of(refusal, **more))
    return Reply(status_of(refusal), PROBLEM_TYPE.encode(), body, headers_of(refusal))
