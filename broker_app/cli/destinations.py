"""Names and addresses of destinations on the command line."""

from __future__ import annotations

from broker_app.base.wildcards import has_wildcard
from broker_app.cli.base.failures import USAGE, Failure

_KINDS = ("queue", "topic", "temp-queue", "temp-topic")


def address(name: str) -> str:
    """The STOMP address of a destination. A bare name is a queue, `$mom.…` a system topic, and so is
    `$channel.…`. Raises Failure for what is probably not meant as the name of a queue."""
    if name.startswith(("$mom.", "$channel.")):
        return f"/topic/{name}"
    return name if name.startswith("/") and not name.startswith("/queue/") else f"/queue/{queue_name(name)}"


def queue_name(name: str) -> str:
    """The name of one queue, given as name or address. Raises Failure."""
    bare = own_name("queue", name)
    if has_wildcard(bare):
        raise Failure(
            USAGE,
            f"{name} is a pattern, but this command takes one queue",
            fix="use patterns with `mom queue set`, or with topics in `mom sub` (/topic/prices.>)",
        )
    return bare


def own_name(kind: str, name: str) -> str:
    """The name or pattern of destinations of a kind, given as that or as an address. Raises Failure."""
    prefix = f"/{kind}/"
    if name.startswith(prefix):
        return name.removeprefix(prefix)
    first, slash, rest = name.removeprefix("/").partition("/")
    if first in _KINDS and slash:
        if first == kind:
            raise Failure(
                USAGE, f"{name} is not the name of a {kind}", fix=f"write {rest}, or {prefix}{rest}"
            )
        raise Failure(
            USAGE,
            f"{name} is a {first}, but this command takes {kind}s",
            fix=f"use /{first}/{rest} with `mom pub` or `mom sub`",
        )
    return name
