"""The history of a topic: the positions of its retained messages in the journal, oldest first.

Each message takes 8 bytes; each block of them has its size and newest time. Whole blocks are trimmed; a block
is at most a thirty-second of a history, so that a history stays near its limits."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from typing import Any

from broker_app.base.wildcards import has_wildcard

BLOCK = 256
_SHARE = 32


class Block:
    """Adjacent messages in a history; `last_ms` is the time of the newest."""

    __slots__ = ("bytes", "last_ms", "positions")

    def __init__(self) -> None:
        self.positions: array[int] = array("Q")
        self.bytes = 0
        self.last_ms = 0


class History:
    """The retained messages of one topic. `trimmed_to` is the position of the newest that was trimmed."""

    __slots__ = ("_closed", "address", "blocks", "bytes", "trimmed_to")

    def __init__(self, address: str) -> None:
        self.address = address
        self.blocks: list[Block] = []
        self.bytes = 0
        self.trimmed_to = 0
        self._closed = True

    def __len__(self) -> int:
        return sum(len(block.positions) for block in self.blocks)

    @property
    def first(self) -> int:
        """Position of the oldest message, 0 when there is none."""
        return self.blocks[0].positions[0] if self.blocks else 0

    @property
    def last(self) -> int:
        """Position of the newest message, 0 when there is none."""
        return self.blocks[-1].positions[-1] if self.blocks else 0

    def append(self, position: int, time_ms: int, size: int) -> None:
        """Add the newest message."""
        if self._closed or not self.blocks:
            self.blocks.append(Block())
        block = self.blocks[-1]
        block.positions.append(position)
        block.bytes += size
        block.last_ms = max(block.last_ms, time_ms)
        self.bytes += size
        self._closed = len(block.positions) >= BLOCK or block.bytes * _SHARE >= self.bytes

    def overdue(self, before_ms: int, most_bytes: int) -> array[int]:
        """The positions older than `before_ms`, and those that exceed `most_bytes` (0: no limit)."""
        trimmed: array[int] = array("Q")
        left = self.bytes
        for block in self.blocks:
            if not (block.last_ms < before_ms or 0 < most_bytes < left):
                break
            trimmed.extend(block.positions)
            left -= block.bytes
        return trimmed

    def trim(self, positions: Sequence[int]) -> None:
        """Remove whole blocks at the front, which have these positions."""
        self.trimmed_to = positions[-1]
        gone = bisect_right(self.blocks, self.trimmed_to, key=_last)
        self.bytes -= sum(block.bytes for block in self.blocks[:gone])
        del self.blocks[:gone]

    def forget(self, lost: Container[int]) -> None:
        """Remove messages that are no longer stored."""
        for block in self.blocks:
            block.positions = array("Q", [position for position in block.positions if position not in lost])
        self.blocks = [block for block in self.blocks if block.positions]

    def after(self, position: int) -> Iterator[int]:
        """Positions beyond `position`, in order; blocks before it are not read."""
        for number in range(bisect_right(self.blocks, position, key=_last), len(self.blocks)):
            positions = self.blocks[number].positions
            yield from positions[bisect_right(positions, position) :]

    def since(self, time_ms: int) -> int:
        """A position before which all messages are older than `time_ms`, 0 when all are older."""
        found = bisect_left(self.blocks, time_ms, key=lambda block: block.last_ms)
        return self.blocks[found].positions[0] if found < len(self.blocks) else 0

    def save(self) -> tuple[int, bool, list[tuple[int, int, int]]]:
        """(trimmed to, closed, blocks as (messages, bytes, newest time)); all but the positions."""
        blocks = [(len(block.positions), block.bytes, block.last_ms) for block in self.blocks]
        return self.trimmed_to, self._closed, blocks

    def load(self, saved: Sequence[Any], positions: array[int]) -> None:
        """Restore what `save` returned, and the positions."""
        self.trimmed_to, self._closed, blocks = saved
        at = 0
        for count, size, last_ms in blocks:
            block = Block()
            block.positions = positions[at : at + count]
            block.bytes, block.last_ms = size, last_ms
            self.blocks.append(block)
            self.bytes += size
            at += count


def _last(block: Block) -> int:
    return block.positions[-1]


def fits(pattern: str, name: str) -> bool:
    """Return whether the topic filter `pattern` matches `name`, by the rules of `topic.Topics`."""
    if not has_wildcard(pattern):
        return pattern == name
    wanted, levels = pattern.split("."), name.split(".")
    if levels[0].startswith("$") and wanted[0] != levels[0]:
        return False
    if wanted[-1] in (">", "#"):
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        want in ("*", level) for want, level in zip(wanted, levels, strict=True)
    )
