"""The node in this process, as pages look at it. They may be served beside a broker; then there is none."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from django.http import HttpRequest

from broker_app.net.decisions import Decisions
from broker_app.net.lobby import Lobby
from broker_app.net.using import Using, in_use

#: a page waits so long for the node's loop
_PATIENCE_S = 5.0


class Node(Protocol):
    """What pages need of the node; its coroutines run on its loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def lobby(self) -> Lobby: ...

    @property
    def decisions(self) -> Decisions: ...


def node_of(request: HttpRequest) -> Node | None:
    """The node in this process, if there is one."""
    return cast("Node | None", getattr(request, "scope", {}).get("mom.node"))


def connected(node: Node) -> list[Using]:
    """All connections that are open now; this is a thread beside the loop. Raises TimeoutError."""
    return asyncio.run_coroutine_threadsafe(in_use(node.lobby), node.loop).result(_PATIENCE_S)
