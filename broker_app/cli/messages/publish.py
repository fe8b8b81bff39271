"""`mom pub`: publishes messages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import FAILED, USAGE, Failure
from broker_app.cli.base.options import span
from broker_app.cli.base.progress import Progress
from broker_app.cli.base.templates import Template
from broker_app.cli.destinations import address

if TYPE_CHECKING:
    from broker_app.cli.base.contexts import BrokerTarget

_MAX_UNCONFIRMED = 1_000


def pub(
    ctx: typer.Context,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE",
            help="a queue, or an address like /topic/prices",
            autocompletion=completion.destinations,
        ),
    ],
    body: Annotated[
        str | None,
        typer.Argument(
            help="the body; - reads standard input, @FILE a file, @@ starts with an @",
            show_default="standard input",
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", help="a header, as name=value")
    ] = None,
    content_type: Annotated[
        str | None, typer.Option("-t", "--type", help="content type, like application/json")
    ] = None,
    delay: Annotated[float | None, typer.Option(parser=span(), help="time until it is delivered: 5m")] = None,
    dedup_id: Annotated[
        str | None, typer.Option("--dedup-id", help="deduplication id: a repeat is confirmed and not stored")
    ] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="number of messages")] = 1,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="messages per second", show_default="no limit")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="do not evaluate templates")] = False,
) -> None:
    """Publish messages, and return when the broker has confirmed them.

    Body and headers may contain {{n}} (the number of the message, from 1), {{uuid}} and {{now}}.
    """
    import asyncio

    given = invocation.of(ctx)
    text = Template(content(body), plain=plain)
    headers = {name: Template(value.encode(), plain=plain) for name, value in map(_pair, header or ())}
    if content_type is not None:
        headers["content-type"] = Template(content_type.encode(), plain=True)
    if delay is not None:
        headers["delay-s"] = Template(f"{delay:g}".encode(), plain=True)
    if dedup_id is not None:
        headers["dedup-id"] = Template(dedup_id.encode(), plain=plain)
    to = address(destination)
    with Progress(given.output, f"to {to}", count) as progress:
        asyncio.run(_send(given.target(), to, text, headers, count, rate, given.output.say, progress))
    given.output.say(f"{count} {'message' if count == 1 else 'messages'} to {to}")


async def _send(
    target: BrokerTarget,
    to: str,
    text: Template,
    headers: dict[str, Template],
    count: int,
    rate: float | None,
    say: Callable[[str], None],
    progress: Progress,
) -> None:
    """Send `rate` messages per second, with a limited number unconfirmed; return when all are confirmed.
    Stops at the first refusal, and passes the number of confirmed messages to `say`."""
    import asyncio
    from collections import deque

    from broker_app.cli.base import wire
    from mom_client import ClientError

    async with wire.connect(target) as client:
        unconfirmed: deque[asyncio.Future[None]] = deque()
        confirmed = 0
        began = time.monotonic()
        try:
            for n in range(1, count + 1):
                if rate is not None:
                    await asyncio.sleep(began + (n - 1) / rate - time.monotonic())
                filled = {name: value.fill(n).decode() for name, value in headers.items()}
                unconfirmed.append(client.send_nowait(to, text.fill(n), headers=filled))
                while len(unconfirmed) >= _MAX_UNCONFIRMED or (unconfirmed and unconfirmed[0].done()):
                    await unconfirmed.popleft()
                    confirmed += 1
                progress.update(confirmed)
            while unconfirmed:
                await unconfirmed.popleft()
                confirmed += 1
        except ClientError:
            answers = await asyncio.gather(*unconfirmed, return_exceptions=True)
            confirmed += sum(answer is None for answer in answers)
            if count > 1:
                say(f"{confirmed} of {count} messages to {to}")
            raise


def content(body: str | None) -> bytes:
    """The body that an argument of a command names."""
    if body is None and sys.stdin.isatty():
        raise Failure(
            USAGE, "there is no body", fix="give the body after the queue; - reads it from the terminal"
        )
    if body is None:
        piped = sys.stdin.buffer.read()
        if not piped:
            raise Failure(
                USAGE,
                "standard input is empty: there is no message",
                fix="give '' after the queue for an empty body",
            )
        return piped
    if body == "-":
        return sys.stdin.buffer.read()
    if body.startswith("@@"):
        return body[1:].encode()
    if body.startswith("@"):
        try:
            return Path(body[1:]).read_bytes()
        except OSError as error:
            raise Failure(
                FAILED,
                f"the body cannot be read: {error.strerror}",
                where=body[1:],
                fix="check the path and its permissions",
            ) from error
    return body.encode(errors="surrogateescape")


def _pair(header: str) -> tuple[str, str]:
    name, equals, value = header.partition("=")
    if not (name and equals):
        raise Failure(USAGE, f"{header!r} is not a header", fix="write it as name=value")
    return name, value
