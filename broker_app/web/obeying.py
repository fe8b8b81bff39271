"""The node in this process: asked from the threads of requests, and waited for until it obeys a change."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar, cast

from django.http import HttpRequest
from rest_framework.request import Request

from broker_app.net.decisions import Decisions
from broker_app.net.rest.refusals import Refusal
from broker_app.net.using import Using
from broker_app.remote import Remote
from broker_app.telemetry.eventlog import EventLog

_T = TypeVar("_T")

#: a node that does not obey by then is busy; what was written holds nonetheless, a moment later
_OBEYS_S = 5.0


class Plane(Protocol):
    """What is needed of the node's data plane."""

    async def remove_queue(self, address: str, *, force: bool) -> None: ...

    async def bridges(self) -> dict[str, Any]: ...

    async def bridge(self, name: str) -> dict[str, Any] | None: ...

    async def retry_bridge(self, name: str, queue: str | None) -> bool: ...

    async def try_remote(self, remote: Remote, queue: str | None) -> dict[str, Any]: ...


class Node(Protocol):
    """What is needed of the node in this process; its coroutines run on its loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def rest(self) -> Plane: ...

    @property
    def decisions(self) -> Decisions: ...

    @property
    def events(self) -> EventLog: ...

    async def wait_policy(self, version: int) -> None: ...

    async def in_use(self) -> list[Using]: ...


def node_of(request: Request | HttpRequest) -> Node | None:
    """The node in this process; None where pages are served beside a broker."""
    return cast("Node | None", getattr(getattr(request, "_request", request), "scope", {}).get("mom.node"))


def ask(node: Node, deed: Coroutine[Any, Any, _T], within_s: float = _OBEYS_S) -> _T:
    """What a coroutine of the node returns; this is a thread beside its loop. Raises Refusal."""
    done = asyncio.run_coroutine_threadsafe(deed, node.loop)
    try:
        return done.result(within_s)
    except TimeoutError:
        done.cancel()
        raise Refusal("busy", "the node has not answered in time; look again in a moment") from None


def wait_obeyed(request: Request | HttpRequest, version: int | None) -> None:
    """Waits until the node here, if there is one, obeys this version of the configuration. Raises Refusal."""
    node = node_of(request)
    if node is not None and version is not None:
        ask(node, node.wait_policy(version))
