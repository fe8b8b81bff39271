"""A connection and what it writes."""

import asyncio

from mom_client.connection.link import Link
from mom_client.stomp.connection import Connection

LARGE = b"x" * (4 * 1024 * 1024)


class Written:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.has_room = True
        self.waiting_bytes = 0

    def write(self, data: bytes) -> None:
        self.data.append(data)

    async def drain(self) -> None:
        """There is room."""

    async def receive(self) -> bytes:
        return b""

    async def close(self) -> None:
        """Nothing is open."""


async def test_what_one_turn_writes_leaves_together_and_a_large_part_as_it_is() -> None:
    transport = Written()
    link = Link(transport, Connection())
    for part in (b"first", b"head", LARGE, b"end", b"last"):
        link.write(part)
    assert link.left == 0
    await asyncio.sleep(0)
    assert transport.data == [b"firsthead", LARGE, b"endlast"]
    assert transport.data[1] is LARGE
    assert link.left == link.written == len(LARGE) + len(b"firstheadendlast")
