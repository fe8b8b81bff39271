"""`mom sub`: receives messages as they come."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from mom_client import Message

_COLUMNS = ("id", "destination", "attempt", "body")


class Ack(StrEnum):
    """When messages are settled: when they are handed out, or each after it was shown."""

    auto = "auto"
    each = "each"


def sub(
    ctx: typer.Context,
    destination: Annotated[str, typer.Argument(metavar="DEST", help="a queue, or an address like /topic/prices.>")],
    ack: Annotated[Ack, typer.Option(help="auto: settled when handed out; each: when it was shown, or its command ended well")] = Ack.each,
    execute: Annotated[
        str | None, typer.Option("--exec", metavar="COMMAND", help="run for each message: {} is its body, which is also its input")
    ] = None,
    credit: Annotated[int, typer.Option(min=1, help="unsettled messages at most")] = 10,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="end after so many", show_default="never")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="the bodies alone, byte for byte, each on a line")] = False,
) -> None:
    """Receive messages until Ctrl-C. With --exec, a command that fails gives its message back."""
    from broker_app.cli import wire

    given = invocation.of(ctx)
    command = _command(execute)
    with wire.connect(given.target()) as client:
        given.output.say(f"listening to {wire.address(destination)}; Ctrl-C ends")
        mode = "auto" if ack is Ack.auto else "client-individual"
        seen = 0
        for message in client.subscribe(wire.address(destination), ack=mode, credit=credit):
            done = True
            if command:
                done = _run(command, message)
            elif raw:
                sys.stdout.buffer.write(message.body + b"\n")
                sys.stdout.buffer.flush()
            else:
                given.output.row(_COLUMNS, _row(message))
            if ack is Ack.each:
                message.ack() if done else message.nack()
            seen += 1
            if seen == count:
                return


def _command(text: str | None) -> list[str]:
    if text is None:
        return []
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Failure(USAGE, f"--exec cannot be read: {error}") from error
    if not words:
        raise Failure(USAGE, "--exec names no command")
    return words
