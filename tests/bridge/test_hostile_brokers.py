"""Remote brokers that send what no broker sends: no turn of the loop is long, and frames have bounds."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from broker_app.features.bridge.framing import LIMITS
from mom_client.connection.link import Link
from mom_client.connection.transport import open_transport
from mom_client.errors import ConnectionLost
from mom_client.stomp.connection import Connection
from tests.bridge.pair import pair, until
from tests.http_client.stranger import Stranger, stranger
from tests.support.loop_turns import loop_turns

#: queues with a message in flight
QUEUES = 100
CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


async def open_link(there: Stranger) -> Link:
    connection = Connection(heart_beat_s=(0, 0), limits=LIMITS)
    return await Link.open(f"stomp://127.0.0.1:{there.port}", open_transport, connection, {"host": "/"})


@pytest.mark.parametrize(
    "frame",
    [b"RECEIPT\nreceipt-id:1\n\n\0", b"MESSAGE\n\n\0", b"MESSAGE\na:%b\n\n\0" % (b"\\c" * 2000), b"\n"],
    ids=["receipts", "smallest", "escapes", "heart-beats"],
)
async def test_frames_without_an_end_hold_nothing_up(frame: bytes) -> None:
    with stranger(CONNECTED, frame) as there:
        link = await open_link(there)
        with contextlib.suppress(TimeoutError):
            async with loop_turns() as turns, asyncio.timeout(0.5):
                await link.run(lambda frames: None)
        await link.close()
        assert turns.longest_s <= 0.05


async def test_receipts_of_nothing_hold_nothing_up_however_many_queues_are_forwarded(tmp_path: Path) -> None:
    with stranger(CONNECTED, b"RECEIPT\nreceipt-id:x\n\n\0") as there:
        async with pair(tmp_path, port=there.port) as both, both.home.stomp("john") as john:
            queues = [f"q{number}" for number in range(QUEUES)]
            for queue in queues:
                await both.send(john, queue, b"1")
            await until(lambda: all(both.flow(queue)["sent"] for queue in queues))
            async with loop_turns() as turns:
                await asyncio.sleep(0.5)
            assert turns.longest_s <= 0.05


async def test_a_remote_broker_sends_a_bridge_no_large_frames() -> None:
    with (
        stranger(CONNECTED + b"MESSAGE\ncontent-length:1000000\n\n", b"a" * 4096) as there,
        pytest.raises(ConnectionLost, match="the body has 1000000 bytes, allowed are 65536"),
    ):
        await (await open_link(there)).run(lambda frames: None)
