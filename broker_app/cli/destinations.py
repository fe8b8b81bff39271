"""Destinations as people type them."""

from __future__ import annotations

from broker_app.cli.failures import USAGE, Failure
from broker_app.wildcards import has_wildcard

_KINDS = ("queue", "topic", "temp-queue", "temp-topic")


def address(name: str) -> str:
    """A destination as STOMP writes it; a bare name is a queue, `$mom.…` what the broker itself tells. Raises
    Failure for what would make a queue that nobody means."""
    if name.startswith("$mom."):
        return f"/topic/{name}"
    return name if name.startswith("/") and not name.startswith("/queue/") else f"/queue/{queue_name(name)}"


def queue_name(name: str) -> str:
    """The name of one queue, typed as that or as its address. Raises Failure."""
    bare = own_name("queue", name)
    if has_wildcard(bare):
        raise Failure(
            USAGE,
            f"{name} is a pattern, and this is about one queue",
            fix="a pattern has settings (`mom queue set`), or subscribes to topics (/topic/prices.>)",
        )
    return bare


def own_name(kind: str, name: str) -> str:
    """The name of a destination of a kind, or a pattern of them, typed as that or as an address. Raises
    Failure."""
    prefix = f"/{kind}/"
    if name.startswith(prefix):
        return name.removeprefix(prefix)
    first, slash, rest = name.removeprefix("/").partition("/")
    if first in _KINDS and slash:
        if first == kind:
            raise Failure(USAGE, f"{name} is no name of a {kind}", fix=f"write {rest}, or {prefix}{rest}")
        raise Failure(
            USAGE,
            f"{name} is a {first}, and this is about {kind}s",
            fix=f"`mom pub` and `mom sub` take /{first}/{rest}",
        )
    return name
