"""Pages of the console are no clients of the broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_app.net.auth.login import Identity
from tests.net.test_websocket import Conversation
from tests.support.awaiting import becomes, until
from tests.support.small_broker import RawClient
from tests.support.small_node import policy_of, small_node

PROGRAM = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:anna\n\n\0"


async def test_a_page_of_the_console_is_not_counted_among_the_connections(tmp_path: Path) -> None:
    async with small_node(tmp_path, policy_of(users={"anna": (), "ops": ()}, admins=("ops",))) as small:
        identity = Identity("ops", session="of a browser")
        page = Conversation(small.node, offered=("v12.stomp",), identity=identity)  # type: ignore[arg-type]
        assert (await page.event())["type"] == "websocket.accept"
        page.send("CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        assert (await page.data()).startswith(b"CONNECTED\n")
        program = RawClient(*await asyncio.open_connection("127.0.0.1", small.node.stomp_port))
        assert (await program.ask(PROGRAM)).startswith(b"CONNECTED\n")
        assert len(small.node.registry.sessions) == 2
        assert small.node.registry.of_programs == 1
        async with small.rest("ops") as ops:

            async def counted() -> int:
                return int((await ops.get("/stats")).json()["node"]["connections"])

            await becomes(counted, 1)
        await page.leave()
        await program.close()
        await until(lambda: not small.node.registry.sessions)
        assert small.node.registry.of_programs == 0
