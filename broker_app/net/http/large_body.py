"""Large bodies in JSON. They are encoded piece by piece while they are sent: in memory is the body, which the
broker has anyway, and one piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from broker_app.base import json_text
from broker_app.base.json_text import PIECE

#: bytes of short pieces that are sent together
_TOGETHER: Final = 64 * 1024


class LargeBody:
    """A body that is encoded while it is sent; its length is that of its encoded form."""

    def __init__(self, length: int, encode: Callable[[], Iterator[bytes]]) -> None:
        self._length = length
        self._encode = encode

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        return self._encode()


Piece = bytes | LargeBody


def in_base64(body: bytes) -> LargeBody:
    """A body in base64."""
    return LargeBody((len(body) + 2) // 3 * 4, partial(json_text.in_base64, body))


def as_text(body: bytes) -> LargeBody:
    """A body as the inside of a string. Raises UnicodeDecodeError."""
    return LargeBody(sum(map(len, _escaped(body))), partial(_escaped, body))


def in_one_line(body: bytes) -> LargeBody:
    """A body that is JSON, which has line ends only between its tokens, where a blank does as well."""
    return LargeBody(len(body), partial(_one_line, body))


def as_it_is(body: bytes) -> LargeBody:
    """A body that is sent as it is, in pieces: TLS encrypts at once whatever it is given."""
    return LargeBody(len(body), partial(_cut, body))


def parts(pieces: list[Piece]) -> Iterator[bytes]:
    """The parts to send, in which short pieces are together. `pieces` keeps none of them."""
    pieces.reverse()
    short: list[bytes] = []
    size = 0
    while pieces:
        piece = pieces.pop()
        if isinstance(piece, bytes):
            short.append(piece)
            size += len(piece)
        if short and (size > _TOGETHER or not isinstance(piece, bytes)):
            yield b"".join(short)
            short, size = [], 0
        if not isinstance(piece, bytes):
            yield from piece
    if short:
        yield b"".join(short)


async def parts_in_turns(pieces: list[Piece]) -> AsyncIterator[bytes]:
    """The same; others have their turn behind each that is not short."""
    for part in parts(pieces):
        yield part
        if len(part) > _TOGETHER:
            await asyncio.sleep(0)


def _cut(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]


def _one_line(body: bytes) -> Iterator[bytes]:
    for piece in _cut(body):
        yield piece.replace(b"\r", b" ").replace(b"\n", b" ")


def _escaped(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        end = at + PIECE
        for _ in range(3):
            if end < len(body) and body[end] & 0xC0 == 0x80:  # in the middle of a character
                end -= 1
        yield msgspec.json.encode(body[at:end].decode())[1:-1]
        at = end
