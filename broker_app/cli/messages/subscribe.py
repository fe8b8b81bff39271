"""`mom sub`: receives messages as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from broker_app.cli.base import completion, invocation
from broker_app.cli.base.exec_option import words_of
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.destinations import address, queue_name

if TYPE_CHECKING:
    from broker_app.cli.base.contexts import BrokerTarget
    from mom_client import Client, Message
    from mom_client.subscription import AckMode

_CREDIT = 10
_COLUMNS = ("id", "destination", "attempt", "body")


class Ack(StrEnum):
    """The time of settling: on delivery, or for each message after it was shown."""

    auto = "auto"
    each = "each"


class _SubscribeOptions(TypedDict):
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
        str,
        typer.Argument(
            metavar="DEST",
            help="a queue, or an address like /topic/prices.>",
            autocompletion=completion.destinations,
        ),
    ],
    ack: Annotated[
        Ack,
        typer.Option(help="auto: settle on delivery; each: after it was shown, or its command succeeded"),
    ] = Ack.each,
    execute: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="COMMAND",
            help="run for each message; {} is the body, which is also standard input",
        ),
    ] = None,
    credit: Annotated[int, typer.Option(min=1, help="maximum unsettled messages")] = _CREDIT,
    selector: Annotated[
        str | None,
        typer.Option(
            help="receive only matching messages: \"colour = 'red' AND size > 3\"", show_default="everything"
        ),
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="be the only active consumer, or stand by")
    ] = False,
    durable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="durable subscription of this name: a topic's messages are kept while disconnected",
            show_default="no",
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="shared subscription of this name: consumers divide the messages; with --durable: true",
            show_default="no",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="start in a topic's history: first, last, now, seq:<number> or time:<ms or RFC 3339>",
            show_default="now",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", min=1, help="end after this many messages", show_default="never"),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="print only the bodies, unchanged, one per line")
    ] = False,
    notify: Annotated[
        bool, typer.Option("--notify", help="only report that messages of a queue have arrived; take none")
    ] = False,
) -> None:
    """Receive messages until Ctrl-C. With --exec, the message of a failed command is returned, and the exit
    code is 1.

    With --notify nothing is taken from the queue: each line has the number of new messages, and of all that
    wait. The command of --exec gets the notification as JSON.
    """
    import asyncio

    given = invocation.of(ctx)
    command = words_of(execute, "process {}")
    if notify:
        from broker_app.cli.messages import notifications

        _check_notify(ack, credit, selector, exclusive or None, durable, share, start, raw or None)
        notifications.show(given, queue_name(destination), count, command)
        return
    where = address(destination)
    _check_no_handler(where)

    failed = 0

    async def take(message: Message) -> bool:
        nonlocal failed
        if command:
            code = await _run(command, message)
            if code:
                failed += 1
                kept = "is settled already" if ack is Ack.auto else "goes back"
                given.output.warn(f"--exec: {command[0]} ended with {code}; message {message.id} {kept}")
            return not code
        if raw:
            sys.stdout.buffer.write(message.body + b"\n")
            sys.stdout.buffer.flush()
        else:
            given.output.row(_COLUMNS, _row(message))
        return True

    options: _SubscribeOptions = {
        "credit": credit,
        "selector": selector,
        "exclusive": exclusive,
        "durable": durable,
        "shared": share or False,
        "start": start,
    }
    listening = partial(given.output.say, f"listening to {where}; Ctrl-C to stop")
    asyncio.run(_receive(given.target(), where, ack, options, count, listening, take))
    if failed:
        raise Failure(
            FAILED, f"the command failed for {failed} of {count} messages", fix="see the messages above"
        )


def _check_no_handler(where: str) -> None:
    """Raises Failure for the subscription that makes a handler of requests: this command would answer none of
    them."""
    from mom_client.channels import REQUESTS

    if where == REQUESTS:
        raise Failure(
            USAGE,
            f"{REQUESTS} has requests of other applications, and `mom sub` answers none",
            fix="use `mom channel serve`, which prints each and answers it",
        )


def _check_notify(ack: Ack, credit: int, *others: object) -> None:
    """Raises Failure for options that concern messages which are taken."""
    if ack is not Ack.each or credit != _CREDIT or any(other is not None for other in others):
        raise Failure(
            USAGE,
            "--notify takes no messages, so only --count and --exec can be given with it",
            fix="leave the other options out, or leave --notify out to receive the messages",
        )


async def _receive(
    target: BrokerTarget,
    where: str,
    ack: Ack,
    options: _SubscribeOptions,
    count: int | None,
    listening: Callable[[], None],
    take: Callable[[Message], Awaitable[bool]],
) -> None:
    """Call `listening` once subscribed, and `take` with each message; if it returns False, the message is
    returned to its queue."""
    from broker_app.cli.base import wire

    if count is not None and (where.startswith("/queue/") or options["durable"] is not None):
        async with wire.connect(target) as client:
            await _receive_exactly(client, where, ack, options, count, listening, take)
        return
    mode: AckMode = "auto" if ack is Ack.auto else "client-individual"
    left = count
    async with wire.connect(target) as client, client.subscribe(where, ack=mode, **options) as messages:
        listening()
        async for message in messages:
            done = await take(message)
            if ack is Ack.each:
                await _settle(message, done)
            if left is not None:
                left -= 1
                if not left:
                    return


async def _receive_exactly(
    client: Client,
    where: str,
    ack: Ack,
    options: _SubscribeOptions,
    count: int,
    listening: Callable[[], None],
    take: Callable[[Message], Awaitable[bool]],
) -> None:
    """Receive exactly `count` messages. One more would be returned, which counts as a delivery attempt.

    The broker delivers as many as were settled plus the credit. So the last ones, as many as the credit, are
    settled only after all have arrived, and the broker delivers nothing more.
    """
    import asyncio

    credit = options["credit"] if options["credit"] < count else 1
    limited: _SubscribeOptions = {**options, "credit": credit}
    held: list[tuple[Message, bool]] = []
    async with client.subscribe(where, ack="client-individual", **limited) as messages:
        listening()
        for number in range(1, count + 1):
            message = await anext(messages)
            done = ack is Ack.auto or await take(message)
            if number <= count - credit:
                await _settle(message, done)
            else:
                held.append((message, done))
            if number == count:
                await messages.drain()
                await asyncio.gather(*(_settle(*one) for one in held))
            if ack is Ack.auto:
                await take(message)


async def _settle(message: Message, done: bool) -> None:
    await (message.ack() if done else message.nack())


async def _run(command: list[str], message: Message) -> int:
    """Run the command with the body as its input and in place of {}. Return its exit code."""
    import asyncio

    body = message.body.decode(errors="surrogateescape").replace("\0", "")
    words = [word.replace("{}", body) for word in command]
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE)
    except OSError as error:
        raise Failure(
            FAILED, f"--exec: {error.strerror}", where=words[0], fix="name an executable program"
        ) from error
    await process.communicate(message.body)
    return process.returncode or 0


def _row(message: Message) -> dict[str, object]:
    return {
        "id": message.id,
        "destination": message.destination,
        "attempt": message.attempt,
        "headers": dict(message.headers),
        "body": message.body.decode(errors="backslashreplace"),
    }
