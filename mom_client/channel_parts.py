"""The parts of a message of channels: one body, and the lengths of its parts (`3,0,5`) unless it is one."""

from collections.abc import Iterable
from typing import Final

from .channel_errors import EINVAL

__all__ = ["MAX_BYTES", "MAX_PARTS", "Part", "joined", "parts_of"]

MAX_PARTS: Final = 1_000
MAX_BYTES: Final = 64 * 1024 * 1024

Part = bytes | bytearray | memoryview


def joined(parts: Iterable[Part]) -> tuple[bytes, str | None]:
    """The body of a message with these parts, and their lengths; None for one part. Raises EINVAL beyond the
    limits."""
    all_parts = list(parts)
    if len(all_parts) > MAX_PARTS:
        raise EINVAL(f"a message may have {MAX_PARTS} parts, not {len(all_parts)}")
    if len(all_parts) == 1 and len(all_parts[0]) <= MAX_BYTES:
        return bytes(all_parts[0]), None
    lengths = list(map(len, all_parts))
    if sum(lengths) > MAX_BYTES:
        raise EINVAL(f"a message may have {MAX_BYTES} bytes, not {sum(lengths)}")
    return b"".join(all_parts), ",".join(map(str, lengths)) if len(lengths) != 1 else None


def parts_of(body: bytes, lengths: str | None) -> list[bytes]:
    """The parts in a body; without lengths it is one."""
    if lengths is None:
        return [body]
    found, at = [], 0
    for length in map(int, lengths.split(",") if lengths else ()):
        found.append(body[at : at + length])
        at += length
    return found
