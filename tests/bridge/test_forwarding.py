"""Messages for queues that are away, with two nodes that speak over real TCP."""

from __future__ import annotations

from pathlib import Path

from tests.bridge.pair import pair, receive, until


async def test_what_is_sent_at_home_arrives_away_in_order(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, both.home.stomp("john") as john, both.away.stomp("john") as there:
        await both.send(john, "orders", *(str(number) for number in range(1000)), headers={"colour": "red:1"})
        assert await receive(there, "orders", 1000) == [str(number).encode() for number in range(1000)]
        await until(lambda: both.flow("orders")["accepted"] == 1000)
        flow = both.flow("orders")
        assert flow["state"] == "running"
        assert flow["sent"] == 1000
        assert flow["gap"] == flow["duplicate"] == flow["refused"] == 0
        await until(lambda: both.flow("orders")["depth"] == 0)
