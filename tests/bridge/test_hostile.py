"""A user who may forward acts in the name of another broker: nothing that waits is lost by it."""

from __future__ import annotations

from pathlib import Path

from mom_client.connection.link import Link
from mom_client.connection.transport import open_transport
from mom_client.stomp import encode
from mom_client.stomp import frame as wire
from mom_client.stomp.connection import Connection
from mom_client.storeandforward import SYNC_QUEUE
from tests.bridge.pair import pair, until


async def test_an_offset_that_another_bridge_set_too_far_stops_the_flow_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john:
        await both.send(john, "orders", b"1")
        await until(lambda: both.flow("orders")["accepted"] == 1)
        (mark,) = both.away.node.engine.broker.forwarding.offsets.values()
        await both.change(desired="paused")
        await until(lambda: both.report()["state"] == "suspended")
        address = f"stomp://127.0.0.1:{both.away.node.stomp_port}"
        hello = {"host": "/", "login": "bridge", "passcode": "bridge", "mom-bridge": mark.sender}
        link = await Link.open(address, open_transport, Connection(heart_beat_s=(0, 0)), hello)
        begin = {"destination": f"/queue/{SYNC_QUEUE}", "id": "x", "mom-target": "/queue/orders"}
        link.write(encode(wire.SUBSCRIBE, {**begin, "mom-source": mark.source}))
        ahead = mark.position + 20
        send = {"destination": "/queue/orders", "mom-flow": "x", "receipt": str(ahead)}
        link.write(encode(wire.SEND, send, b"of somebody else"))
        await until(lambda: mark.position == ahead)
        await link.close()
        await both.send(john, "orders", *(str(number) for number in range(40)))
        await both.change()
        await until(lambda: both.flow("orders")["error"])
        assert both.flow("orders")["error"]["code"] == "OFFSET_AHEAD"
        assert both.flow("orders")["depth"] == 40
        assert both.flow("orders")["duplicate"] == 0
