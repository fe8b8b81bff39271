"""`mom pub`: sends messages."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from broker_app.cli import invocation
from broker_app.cli.failures import FAILED, USAGE, Failure
from broker_app.cli.templates import Template


def pub(
    ctx: typer.Context,
    destination: Annotated[str, typer.Argument(metavar="QUEUE", help="a queue, or an address like /topic/prices")],
    body: Annotated[str, typer.Argument(help="the message; - is standard input, @FILE a file, @@ a leading @")] = "",
    header: Annotated[list[str] | None, typer.Option("-H", "--header", help="a header, as name=value")] = None,
    content_type: Annotated[str | None, typer.Option("-t", "--type", help="content type, like application/json")] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="how many messages")] = 1,
    rate: Annotated[float | None, typer.Option(min=0.001, help="messages a second", show_default="no limit")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="no templates: braces are sent as they are")] = False,
) -> None:
    """Send messages, and return when they are on the disk.

    Body and headers may hold {{n}} (the number of the message, from 1), {{uuid}} and {{now}}.
    """
    from broker_app.cli import wire

    given = invocation.of(ctx)
    text = Template(_content(body), plain=plain)
    headers = {name: Template(value.encode(), plain=plain) for name, value in map(_pair, header or ())}
    if content_type is not None:
        headers["content-type"] = Template(content_type.encode(), plain=True)
    with wire.connect(given.target()) as client:
        began = time.monotonic()
        for n in range(1, count + 1):
            if rate is not None:
                time.sleep(max(0.0, began + (n - 1) / rate - time.monotonic()))
            filled = {name: value.fill(n).decode() for name, value in headers.items()}
            client.send(wire.address(destination), text.fill(n), filled)
    given.output.say(f"{count} {'message' if count == 1 else 'messages'} to {wire.address(destination)}")


def _content(body: str) -> bytes:
    if body == "-":
        return sys.stdin.buffer.read()
    if body.startswith("@@"):
        return body[1:].encode()
    if body.startswith("@"):
        try:
            return Path(body[1:]).read_bytes()
        except OSError as error:
            raise Failure(FAILED, f"the body cannot be read: {error.strerror}", where=body[1:]) from error
    return body.encode(errors="surrogateescape")


def _pair(header: str) -> tuple[str, str]:
    name, equals, value = header.partition("=")
    if not (name and equals):
        raise Failure(USAGE, f"{header!r} is no header", mend="write it as name=value")
    return name, value
