"""A node that stops while clients go on sending."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.floods import Flood, login
from tests.support.patience import patient
from tests.support.small_node import policy_of, small_node


async def test_it_ends_input_as_soon_as_it_is_ordered_to_stop(tmp_path: Path) -> None:
    flood, policy = Flood(), policy_of(users={"ann": ()}, admins=("ann",))
    async with small_node(tmp_path, policy) as small, asyncio.timeout(patient(10)):
        port = small.node.stomp_port or 0
        sending = asyncio.create_task(flood.run(login("ann", "ann"), port))
        await flood.sending.wait()
        small.node._shut_down(False)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await sending
        assert flood.last.startswith(b"ERROR\n")
        assert not small.node.state.is_stopping, "its process has not begun to stop it"


async def test_it_ends_input_before_it_finishes_what_it_has_accepted(tmp_path: Path) -> None:
    floods, policy = [Flood() for _ in range(4)], policy_of(users={"ann": ()}, admins=("ann",))
    async with (
        small_node(tmp_path, policy) as small,
        asyncio.TaskGroup() as group,
    ):
        port = small.node.stomp_port or 0
        for flood in floods:
            group.create_task(flood.run(login("ann", "ann"), port))
        for flood in floods:
            await flood.sending.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(login("ann", "ann"))
        assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
        async with asyncio.timeout(patient(2)):
            await small.node.stop()
            assert b"ERROR\n" in await reader.read(), "one that only waits learns why"
        writer.close()
    assert [flood.last[:6] for flood in floods] == [b"ERROR\n"] * 4, "also those that go on sending"
    async with small_node(tmp_path, policy) as again:
        assert again.depth("a") >= sum(flood.receipts for flood in floods) > 0
