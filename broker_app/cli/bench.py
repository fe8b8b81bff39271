"""`mom bench`: measures a broker from outside, with as many connections as wanted in one process."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli import invocation
from broker_app.cli.destinations import address

app = typer.Typer(
    no_args_is_help=True,
    help="Measure a broker. With --url stomp://host:port the way is TCP; with a web address it is WebSocket.",
)

_COLUMNS = (
    "workload",
    "messages",
    "size",
    "clients",
    "seconds",
    "rate",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
)
_SCALES = {"k": 1_000, "m": 1_000_000}


def _number(text: str) -> int:
    scale = _SCALES.get(text[-1:].lower(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise typer.BadParameter(f"{text!r} is no number of messages such as 5000, 100k or 1M")
    return int(digits) * scale


_Destination = Annotated[
    str, typer.Argument(metavar="QUEUE", help="where the messages go; best an empty queue")
]
_Messages = Annotated[int, typer.Option(parser=_number, metavar="NUMBER", help="messages in all, like 100k")]
_Size = Annotated[int, typer.Option(min=8, help="bytes of a body")]
_Clients = Annotated[int, typer.Option(min=1, help="connections for each side")]
_Window = Annotated[int, typer.Option(min=1, help="unconfirmed messages of a producer at most")]
_Credit = Annotated[int, typer.Option(min=1, help="unsettled messages of a consumer at most")]


@app.command()
def pub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    size: _Size = 256,
    clients: _Clients = 1,
    window: _Window = 256,
) -> None:
    """Send. The times are those from sending to the receipt."""
    _run(ctx, "pub", destination, msgs, clients, size=size, window=window)


@app.command()
def sub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    clients: _Clients = 1,
    credit: _Credit = 256,
) -> None:
    """Receive and acknowledge what `mom bench pub` has sent. There are no times, only the rate."""
    _run(ctx, "sub", destination, msgs, clients, credit=credit)


@app.command()
def e2e(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    size: _Size = 256,
    clients: _Clients = 1,
    window: _Window = 256,
    credit: _Credit = 256,
) -> None:
    """Send and receive at once. The times are those from sending to receiving."""
    _run(ctx, "e2e", destination, msgs, clients, size=size, window=window, credit=credit)


def _run(
    ctx: typer.Context, workload: str, destination: str, messages: int, clients: int, **sizes: int
) -> None:
    import asyncio

    import uvloop

    from broker_app.cli.load import Load

    given = invocation.of(ctx)
    load = Load(address(destination), messages, clients, **sizes)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(load.run(given.target()))
    row = {
        "workload": workload,
        "messages": messages,
        "size": sizes.get("size"),
        "clients": clients,
        **figures,
    }
    given.output.rows(_COLUMNS, [row])
