"""Work on large bodies, which is done in a thread so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

_Value = TypeVar("_Value")

#: bytes from which on a body is encoded in a thread: less takes a millisecond or two
LARGE_BYTES: Final = 1024 * 1024


def parts(pieces: list[bytes]) -> Iterator[bytes]:
    """What is sent: the pieces as one, or one by one if they are large, without keeping what was sent."""
    if sum(map(len, pieces)) <= LARGE_BYTES:
        yield b"".join(pieces)
        return
    pieces.reverse()
    while pieces:
        yield pieces.pop()


async def joined(pieces: list[bytes]) -> bytes:
    """The pieces as one; they are no longer in memory then."""
    whole = await in_thread_if_large(sum(map(len, pieces)), partial(b"".join, pieces))
    pieces.clear()
    return whole


async def in_thread_if_large(size: int, work: Callable[[], _Value]) -> _Value:
    """The result of `work` on so many bytes."""
    return await asyncio.to_thread(work) if size > LARGE_BYTES else work()
