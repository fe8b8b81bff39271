"""Bytes to write: short ones are joined, since each write costs as much as some kilobytes; large ones are not
copied."""

from collections.abc import Iterable, Iterator
from typing import Final

#: bytes above which a part is written as it is
ALONE: Final = 64 * 1024


def in_writes(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what to write of `parts`, in their order."""
    short: list[bytes] = []
    for part in parts:
        if len(part) <= ALONE:
            short.append(part)
            continue
        if short:
            yield b"".join(short)
            short = []
        yield part
    if short:
        yield b"".join(short)
