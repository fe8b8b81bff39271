"""Bridges that sleep cost next to nothing: no connection, and hardly any of a core."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from mom_client.storeandforward import Forwarded
from tests.forwarding.home import sockets
from tests.support.node_process import NodeProcess, Nodes
from tests.support.patience import patient

BRIDGES, QUEUES = 40, 5
#: of a core, more than a broker without bridges takes at the same time
MOST = 0.02
WATCHED_S = 5.0


def cpu_s(node: NodeProcess) -> float:
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until_connected(node: NodeProcess, port: int, count: int) -> None:
    async with asyncio.timeout(patient(20)):
        while len(sockets(node, port)) != count:
            await asyncio.sleep(0.05)


async def test_idle_flows_take_no_connection_and_hardly_any_time(nodes: Nodes) -> None:
    target, home = nodes.node("target"), nodes.node("home")
    target.start()
    for number in range(BRIDGES):
        home.bridge_to(target, f"b{number}", idle_s=0.5, scan_s=30.0)
    home.start()
    async with home.stomp() as app, target.stomp() as there:
        for number in range(BRIDGES):
            await asyncio.gather(
                *(app.send(Forwarded(f"b{number}", f"q{queue}").address, b"1") for queue in range(QUEUES))
            )
        for queue in range(QUEUES):
            async with there.subscribe(f"/queue/q{queue}") as messages:
                for _ in range(BRIDGES):
                    await (await messages.get(timeout_s=20)).ack()
        await until_connected(home, target.stomp_port, 0)
        async with home.rest() as rest:
            rows = (await rest.get("/forwarding")).json()["bridges"]
        assert len(rows) == BRIDGES
        assert {row["state"] for row in rows} == {"suspended"}
        assert {(flow["state"], flow["accepted"]) for row in rows for flow in row["flows"]} == {
            ("suspended", 1)
        }
        began, before = time.monotonic(), cpu_s(home) - cpu_s(target)
        await asyncio.sleep(WATCHED_S)  # nothing is waited for: this is what is measured
        more = cpu_s(home) - cpu_s(target) - before
        assert more / (time.monotonic() - began) < MOST
        await app.send(Forwarded("b7", "q3").address, b"2")
        await until_connected(home, target.stomp_port, 1)
