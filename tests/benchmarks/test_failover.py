"""The table of failovers, and a client that waits for one."""

import asyncio
import time

from benchmarks.failover import KILL, STOP, MomPair, Outcome, first_message
from benchmarks.servers import HOST


def test_a_row_has_the_median_and_the_longest_wait() -> None:
    outcome = Outcome("MOM", "1", 1000, {KILL: [3.0, 2.0, 2.5], STOP: [0.1]}, [])
    assert list(outcome.rows()) == [
        "| MOM | 1,000 | SIGKILL | 2.50 | 3.00 | 3 |",
        "| MOM | 1,000 | SIGTERM | 0.10 | 0.10 | 1 |",
    ]


async def test_a_client_tries_again_until_it_has_a_message() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Refuse twice, as a standby does, then serve."""
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\0")
        if connections < 3:
            writer.write(b"ERROR\nreason:MAIN_ACTIVE\n\n\0")
        else:
            writer.write(b"CONNECTED\nversion:1.2\n\n\0")
            assert b"destination:/queue/deep" in await reader.readuntil(b"\0")
            writer.write(b"MESSAGE\n\nbody\0")
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    async with server:
        begun = time.monotonic()
        got = await first_message(MomPair.__new__(MomPair), server.sockets[0].getsockname()[1])
    assert begun < got <= time.monotonic()
    assert connections == 3
