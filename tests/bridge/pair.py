"""Two nodes in one loop: messages wait at home for queues that are away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from broker_app.features.bridge.remote import Remote
from broker_app.net.policy.policy import Policy
from mom_client import Client
from mom_client.storeandforward import Forwarded
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node

#: settings of bridges in tests, which are in a hurry
QUICK: dict[str, Any] = {"retry_s": 0.3, "idle_s": 30.0, "scan_s": 0.2}


def remote_of(away: SmallNode, name: str = "oslo", **said: Any) -> Remote:
    """A bridge to a node, where it logs in as `bridge`."""
    port = away.node.stomp_port
    known = {"hostname": "127.0.0.1", "port": port, "user": "bridge", **QUICK, **said}
    return Remote.of(name, known, said.get("password", "bridge"))


class Pair:
    """`home` has the bridge `oslo` to `away`."""

    def __init__(self, home: SmallNode, away: SmallNode) -> None:
        self.home = home
        self.away = away

    @staticmethod
    def source(queue: str, bridge: str = "oslo") -> str:
        return Forwarded(bridge, queue).address

    async def bridges(self, *remotes: Remote) -> None:
        """Have these bridges at home, and no others."""
        await self.home.change(bridges={remote.name: remote for remote in remotes})

    async def change(self, name: str = "oslo", **said: Any) -> None:
        """Say something else of a bridge."""
        others = {n: r for n, r in self.home.policy.bridges.items() if n != name}
        await self.home.change(bridges={**others, name: remote_of(self.away, name, **said)})

    def report(self, name: str = "oslo") -> Any:
        found = self.home.node.features.bridges.supervisor.report_of(name)
        assert found is not None
        return found

    def flow(self, queue: str, name: str = "oslo") -> Any:
        flows = {flow["queue"]: flow for flow in self.report(name)["flows"]}
        return flows[queue]

    async def send(self, client: Client, queue: str, *bodies: bytes | str, **options: Any) -> None:
        sends = (client.send(self.source(queue), body, **options) for body in bodies)
        await asyncio.gather(*sends)


async def until(condition: Callable[[], Any], deadline_s: float = 10.0) -> None:
    """Waits until `condition` is true; its subject does not report changes."""
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.01)


async def receive(client: Client, queue: str, count: int) -> list[bytes]:
    """The bodies of the next messages of a queue."""
    bodies: list[bytes] = []
    async with asyncio.timeout(patient(20)), client.subscribe(f"/queue/{queue}") as messages:
        async for message in messages:
            bodies.append(message.body)
            await message.ack()
            if len(bodies) == count:
                break
    return bodies


USERS = {"john": (), "bridge": (), "admin": ()}


@contextlib.asynccontextmanager
async def pair(
    path: Path, *, home_policy: Policy | None = None, away_policy: Policy | None = None, **said: Any
) -> AsyncIterator[Pair]:
    """Two nodes for the length of a `with` block; `said` is the configuration of the bridge."""
    async with (
        small_node(path / "away", policy_of(users=USERS), name="away") as away,
        small_node(
            path / "home", home_policy or policy_of(users=USERS, admins=["admin"]), name="home"
        ) as home,
    ):
        both = Pair(home, away)
        await both.bridges(remote_of(away, **said))
        yield both
