"""A node in the test with callbacks to receivers in the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.report import CallbackReport
from broker_app.features.callbacks.webhooks.signature import new_secret
from broker_app.features.callbacks.webhooks.supervisor import Supervisor
from mom_client import Client
from tests.support.small_node import SmallNode, policy_of, small_node

SECRET = new_secret()
#: callbacks in tests are in a hurry
QUICK: dict[str, Any] = {"retry_s": 0.05, "max_retry_s": 0.2, "timeout_s": 5.0}


def callback(url: str, name: str = "hook", **said: Any) -> Callback:
    """A callback of anna to messages of the queue a."""
    source = {} if "topic" in said else {"queue": "a"}
    return Callback(name, url, owner="anna", secret=SECRET, **{**QUICK, **source, **said})


class Hooks:
    """`small` is the node."""

    def __init__(self, small: SmallNode) -> None:
        self.small = small
        self.node = small.node

    @property
    def supervisor(self) -> Supervisor:
        return self.node.features.callbacks.supervisor

    async def have(self, *callbacks: Callback) -> None:
        """Have these callbacks and no others."""
        await self.small.change(callbacks={one.name: one for one in callbacks})

    def report(self, name: str = "hook") -> CallbackReport:
        found = self.supervisor.report_of(name)
        assert found is not None
        return found

    async def state(self, state: str, name: str = "hook") -> CallbackReport:
        """The report of a callback when it has this state."""
        await until(lambda: self.report(name)["state"] == state, lambda: self.report(name))
        return self.report(name)

    def stomp(self, user: str = "anna") -> Client:
        return self.small.stomp(user)

    async def publish(self, *bodies: bytes, to: str = "/queue/a", **headers: Any) -> None:
        async with self.stomp() as client:
            for body in bodies:
                await client.send(to, body, **headers)

    def events(self) -> list[tuple[str, str]]:
        """Name and event of what was logged about callbacks, the oldest first."""
        return [(one.name, one.event) for one in reversed(self.node.events.all()) if one.kind == "callbacks"]


async def until(
    condition: Callable[[], Any], shown: Callable[[], object] = lambda: None, deadline_s: float = 20.0
) -> None:
    """Wait until `condition` is true; its subject does not report changes."""
    try:
        async with asyncio.timeout(deadline_s):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it did not happen: {shown()}") from None


@contextlib.asynccontextmanager
async def hooks(path: Path, *callbacks: Callback, **settings: Any) -> AsyncIterator[Hooks]:
    """A node that may call this machine, with these callbacks from its start on, for the length of a `with`
    block."""
    users = policy_of(users={"anna": (), "boss": ()}, admins=["boss"])
    known = replace(users, callbacks={one.name: one for one in callbacks})
    allowed = {"webhook_allow": ("127.0.0.1",), **settings}
    async with small_node(path, known, **allowed) as small:
        yield Hooks(small)
