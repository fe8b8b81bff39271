"""`mom bench`: measures a broker as its clients see it, with many connections of one process."""

from __future__ import annotations

from typing import Annotated

import typer

from broker_app.cli.base import invocation
from broker_app.cli.destinations import address

app = typer.Typer(
    no_args_is_help=True,
    help="Measure a broker. --url stomp://host:port uses STOMP over TCP, a web address STOMP over WebSocket.",
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
        raise typer.BadParameter(f"{text!r} is not a number of messages; write it like 5000, 100k or 1M")
    return int(digits) * scale


_Destination = Annotated[str, typer.Argument(metavar="QUEUE", help="queue to use, preferably empty")]
_Messages = Annotated[
    int, typer.Option(parser=_number, metavar="NUMBER", help="total number of messages, like 100k")
]
_Size = Annotated[int, typer.Option(min=8, help="body size in bytes")]
_Clients = Annotated[int, typer.Option(min=1, help="connections of producers, and of consumers")]
_Window = Annotated[int, typer.Option(min=1, help="maximum unconfirmed messages of a producer")]
_Credit = Annotated[int, typer.Option(min=1, help="maximum unsettled messages of a consumer")]


@app.command()
def pub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    size: _Size = 256,
    clients: _Clients = 1,
    window: _Window = 256,
) -> None:
    """Send messages. Latency is measured from sending to the receipt."""
    _run(ctx, "pub", destination, msgs, clients, size=size, window=window)


@app.command()
def sub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    clients: _Clients = 1,
    credit: _Credit = 256,
) -> None:
    """Receive and acknowledge messages of `mom bench pub`. Only the rate is measured, no latency."""
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
    """Send and receive concurrently. Latency is measured from sending to receiving."""
    _run(ctx, "e2e", destination, msgs, clients, size=size, window=window, credit=credit)


def _run(
    ctx: typer.Context, workload: str, destination: str, messages: int, clients: int, **sizes: int
) -> None:
    import asyncio

    import uvloop

    from broker_app.cli.messages.load import Load

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
