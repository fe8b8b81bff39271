"""`mom broker metrics`, and those of queues and topics: figures repeatedly, by the types of imqcmd."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import USAGE, Failure
from broker_app.cli.base.options import span
from broker_app.cli.destinations import own_name
from broker_app.cli.top import DESTINATION, NODE, repeat, sample

#: the columns of each type of figures, by the name that imqcmd has for it
_OF_BROKER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ttl": ("time", "published", "delivered", "discarded", "backlog", "unsettled", "dead"),
        "rts": ("time", "in_rate", "out_rate"),
        "cxn": ("time", "connections", "stomp", "json", "rest", "memory_bytes", "memory_level"),
    }
)
_OF_DESTINATION: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ttl": (
            "time", "published", "delivered", "acknowledged", "dead", "expired", "depth", "unsettled",
            "delayed",
        ),
        "rts": ("time", "in_rate", "out_rate", "acked_rate", "dead_rate", "expired_rate"),
        "con": ("time", "consumers", "unsettled", "oldest_s", "hold_p50_s", "hold_p95_s", "hold_p99_s"),
    }
)  # fmt: skip
#: seconds between two lines, as imqcmd has them
_INTERVAL_S: Final = 5.0

_Every = Annotated[
    float, typer.Option("--interval", "-int", parser=span(0.1), help="time between two lines, such as 2s")
]
_Samples = Annotated[int, typer.Option("--samples", "-msp", min=0, help="number of lines; 0: until Ctrl-C")]
_KindOfDestination = Annotated[
    str | None, typer.Option("--type", "-m", help="ttl: totals, rts: rates a second, con: consumers")
]


def of_broker(
    ctx: typer.Context,
    kind: Annotated[
        str | None,
        typer.Option("--type", "-m", help="ttl: totals, rts: rates a second, cxn: connections and memory"),
    ] = None,
    every: _Every = _INTERVAL_S,
    samples: _Samples = 0,
) -> None:
    """Show figures of the broker every 5 s until Ctrl-C: the main ones, or those of a type.

    Totals are since the broker started. Figures of all types at once, and more: `mom stats`, `/metrics`.
    """
    given = invocation.of(ctx)
    rest = given.rest()
    columns = NODE if kind is None else _columns(_OF_BROKER, kind)

    def read() -> Facts:
        clients = rest.get("/broker")["clients"] if kind == "cxn" else {}
        return {**sample(rest, None), **clients}

    repeat(given.output, columns, read, every, samples)


def of_queue(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="name of the queue", autocompletion=completion.queues)],
    kind: _KindOfDestination = None,
    every: _Every = _INTERVAL_S,
    samples: _Samples = 0,
) -> None:
    """Show figures of a queue every 5 s until Ctrl-C: the main ones, or those of a type."""
    _of_destination(ctx, f"/queue/{own_name('queue', queue)}", kind, every, samples)


def of_topic(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="name of the topic", autocompletion=completion.topics)],
    kind: _KindOfDestination = None,
    every: _Every = _INTERVAL_S,
    samples: _Samples = 0,
) -> None:
    """Show figures of a topic every 5 s until Ctrl-C: the main ones, or those of a type."""
    _of_destination(ctx, f"/topic/{own_name('topic', topic)}", kind, every, samples)


def _of_destination(ctx: typer.Context, address: str, kind: str | None, every: float, samples: int) -> None:
    if kind == "dsk":
        raise Failure(
            USAGE,
            "there are no figures of the disk for one destination: all are in one journal",
            fix="`mom stats` has journal_bytes, and `mom journal` commands show what is in it",
        )
    given = invocation.of(ctx)
    rest = given.rest()
    columns = DESTINATION if kind is None else _columns(_OF_DESTINATION, kind)
    repeat(given.output, columns, lambda: sample(rest, address), every, samples)


def _columns(types: Mapping[str, tuple[str, ...]], kind: str) -> tuple[str, ...]:
    """The columns of a type. Raises Failure for one that there is not."""
    if kind not in types:
        raise Failure(USAGE, f"{kind!r} is no type of metrics", fix=f"use -m {', '.join(types)}")
    return types[kind]
