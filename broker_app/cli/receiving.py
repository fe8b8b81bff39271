"""`mom get` and `mom browse`: messages of a queue, taken or only looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import EMPTY, Failure

if TYPE_CHECKING:
    from broker_app.cli.rest import Rest

#: what one request asks for at most; brokers take more of neither by default
_MOST = 1_000
_LONGEST_WAIT_S = 20.0

GOT = ("id", "time", "attempt", "type", "content_type", "body")
LEASED = (*GOT, "lease_until", "receipt")
BROWSED = ("id", "time", "state", "attempt", "size", "content_type", "body")


class Settling(StrEnum):
    """What becomes of messages that were shown."""

    ack = "ack"
    nack = "nack"
    leave = "leave"


def get(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="messages to take at most")] = 1,
    wait: Annotated[float, typer.Option(min=0, help="seconds to wait for the first message")] = 0.0,
    lease: Annotated[float | None, typer.Option(min=1, help="seconds to settle them; the broker's default if not given")] = None,
    settling: Annotated[Settling, typer.Option("--settle", hidden=True)] = Settling.ack,
    ack: Annotated[bool, typer.Option("--ack", help="acknowledge them once they are shown (this is the default)")] = False,
    nack: Annotated[bool, typer.Option("--nack", help="give them back at once")] = False,
    leave: Annotated[bool, typer.Option("--leave", help="settle nothing: show the receipts, the lease runs on")] = False,
) -> None:
    """Take messages from a queue. An empty queue is exit code 6."""
