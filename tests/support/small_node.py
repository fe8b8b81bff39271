"""A whole node inside the test: journal, engine, STOMP over real TCP and the REST API, without Django."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

import mom_client
from broker_app.config import MIB, Config
from broker_app.net.auth.login import Logins
from broker_app.net.policy.policy import Grant, Policy, TokenFacts, UserFacts
from broker_app.node.node import Node
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from tests.support.patience import patient


def policy_of(
    *rules: Rule,
    users: Mapping[str, Sequence[str]],
    admins: Sequence[str] = (),
    monitors: Sequence[str] = (),
    grants: Mapping[str, tuple[Grant, ...] | None] | None = None,
) -> Policy:
    """Users with their groups; the password of each is the name, and `mom_NAME` is a token of each with the
    `grants` of that name, if any."""
    return Policy(
        users={
            name: UserFacts(name, name, name in admins, frozenset(groups), name in monitors)
            for name, groups in users.items()
        },
        tokens={
            hashlib.sha256(f"mom_{name}".encode()).digest(): TokenFacts(
                name, "test", grants=(grants or {}).get(name)
            )
            for name in users
        },
        rules=Rules(rules),
    )


class SmallNode:
    """`node` with its `policy`, and clients of it."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def policy(self) -> Policy:
        return self.node.logins.policy

    async def change(self, **changes: Any) -> None:
        """Reload the policy with these fields changed, and wait until it is applied."""
        policy = replace(self.policy, version=self.policy.version + 1, **changes)
        self.node.reload(policy)
        async with asyncio.timeout(patient(10)):
            await self.node.wait_policy(policy.version)

    async def rule(self, *rules: Rule) -> None:
        """Have these rules and no others."""
        await self.change(rules=Rules(rules))

    def stomp(self, user: str, **options: Any) -> mom_client.Client:
        address = f"stomp://127.0.0.1:{self.node.stomp_port}"
        return mom_client.connect(address, login=user, passcode=user, **options)

    def rest(self, user: str) -> httpx.AsyncClient:
        """A client of the REST API, by the token of a user."""
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.node.rest),  # type: ignore[arg-type]
            base_url="http://localhost/api/v1",
            headers={"authorization": f"Bearer mom_{user}"},
        )

    def depth(self, queue: str) -> int:
        found = self.node.broker.destinations.queues.get(f"/queue/{queue}")
        return found.depth if found is not None else 0


@contextlib.asynccontextmanager
async def small_node(
    data: Path, policy: Policy, *, port: int = 0, web_port: int | None = None, **settings: Any
) -> AsyncIterator[SmallNode]:
    """Run a node for the length of a `with` block; `port` is where it speaks STOMP, 0 any free one, and
    `web_port` where others serve its WebSocket."""
    config = Config(data=data, segment_bytes=MIB, **settings)
    logins = Logins(policy, lambda given, expected: given == expected, failure_delay_s=0.01)
    node = Node(config, logins)
    node.web_port = web_port
    await node.start(socket.create_server(("127.0.0.1", port)), None)
    try:
        yield SmallNode(node)
    finally:
        await node.stop()
