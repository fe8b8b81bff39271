"""`mom sub`: receives messages as they come."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from broker_app.cli import invocation
from broker_app.cli.destinations import address
from broker_app.cli.failures import FAILED, USAGE, Failure

if TYPE_CHECKING:
    from broker_app.cli.contexts import Target
    from mom_client import Message
    from mom_client.subscription import AckMode

_COLUMNS = ("id", "destination", "attempt", "body")


class Ack(StrEnum):
    """When messages are settled: when they are handed out, or each after it was shown."""

    auto = "auto"
    each = "each"


class _Wish(TypedDict):
    """Options of the subscription."""

    credit: int
    selector: str | None
    exclusive: bool
    durable: str | None
    shared: bool | str
    start: str | None


def sub(
    ctx: typer.Context,
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="a queue, or an address like /topic/prices.>")
    ],
    ack: Annotated[
        Ack,
        typer.Option(
            help="auto: settled when handed out; each: when it was shown, or its command ended well"
        ),
    ] = Ack.each,
    execute: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="COMMAND", help="run for each message: {} is its body, which is also its input"
        ),
    ] = None,
    credit: Annotated[int, typer.Option(min=1, help="unsettled messages at most")] = 10,
    selector: Annotated[
        str | None,
        typer.Option(
            help="take only what this is true of: \"colour = 'red' AND size > 3\"", show_default="everything"
        ),
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="be the only consumer that is served, or stand by")
    ] = False,
    durable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="keep a topic's messages under this name while nobody is there",
            show_default="no",
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="divide a topic's messages among all who share this name; with --durable: true",
            show_default="no",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="begin in a topic's history: first, last, now, seq:<number> or time:<ms or RFC 3339>",
            show_default="now",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="end after so many", show_default="never")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="the bodies alone, byte for byte, each on a line")
    ] = False,
) -> None:
    """Receive messages until Ctrl-C. With --exec, a command that fails gives its message back."""
    import asyncio

    given = invocation.of(ctx)
    command = _command(execute)
    where = address(destination)

    async def take(message: Message) -> bool:
        if command:
            return await _run(command, message)
        if raw:
            sys.stdout.buffer.write(message.body + b"\n")
            sys.stdout.buffer.flush()
        else:
            given.output.row(_COLUMNS, _row(message))
        return True

    wish: _Wish = {
        "credit": credit,
        "selector": selector,
        "exclusive": exclusive,
        "durable": durable,
        "shared": share or False,
        "start": start,
    }
    listening = partial(given.output.say, f"listening to {where}; Ctrl-C ends")
    asyncio.run(_receive(given.target(), where, ack, wish, count, listening, take))


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


async def _receive(
    target: Target,
    where: str,
    ack: Ack,
    wish: _Wish,
    count: int | None,
    listening: Callable[[], None],
    take: Callable[[Message], Awaitable[bool]],
) -> None:
    """Calls `listening` once subscribed, and hands messages to `take`; one that it does not manage (False) is
    given back."""
    from broker_app.cli import wire

    async with wire.connect(target) as client:
        mode: AckMode = "auto" if ack is Ack.auto else "client-individual"
        left = count
        async with client.subscribe(where, ack=mode, **wish) as messages:
            listening()
            async for message in messages:
                done = await take(message)
                if ack is Ack.each:
                    await (message.ack() if done else message.nack())
                if left is not None:
                    left -= 1
                    if not left:
                        return


async def _run(command: list[str], message: Message) -> bool:
    """Runs the command with the body as its input, and in the place of {}. Whether it ended well."""
    import asyncio

    body = message.body.decode(errors="surrogateescape").replace("\0", "")
    words = [word.replace("{}", body) for word in command]
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)
    except OSError as error:
        raise Failure(FAILED, f"--exec: {error.strerror}", where=words[0]) from error
    await process.communicate(message.body)
    return process.returncode == 0


def _row(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "destination": message.destination,
        "attempt": message.attempt,
        "headers": dict(message.headers),
        "body": message.body.decode(errors="backslashreplace"),
    }
