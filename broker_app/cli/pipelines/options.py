"""Options that commands of `mom pipeline` share, each declared once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from broker_app.base import durations
from broker_app.cli.base.failures import USAGE, Failure

Name = Annotated[str | None, typer.Option(help="name of the run")]
State = Annotated[Path | None, typer.Option(help="folder of checkpoints; default: one for each broker")]
Destinations = Annotated[
    str | None, typer.Option("--destinations", help="only these, with commas; patterns such as orders.>")
]
SOURCE = {
    "source": Annotated[
        str | None,
        typer.Option(help="journal to read: https://broker, file:///its/journal …; default: the broker"),
    ],
    "broker": Annotated[str | None, typer.Option(help="name of the broker in the rows")],
    "credential": Annotated[
        str | None,
        typer.Option(help="variable or file with a token or USER:PASSWORD, if that of the broker is another"),
    ],
    "destinations": Destinations,
}
SENDER = {
    "source": Annotated[
        str | None, typer.Option("--sender", help="journal of the broker that forwards; default: the broker")
    ],
    "broker": Annotated[str | None, typer.Option("--sender-name", help="name of that broker")],
    "credential": Annotated[
        str | None, typer.Option("--sender-credential", help="variable or file with its credential")
    ],
}
SPARK = {
    "name": Name,
    "state": State,
    "master": Annotated[str | None, typer.Option(help="where Spark runs: local[2], spark://…, sc://…")],
    "memory": Annotated[str | None, typer.Option(help="memory of Spark's Java here (1g)")],
    "nice": Annotated[
        int | None,
        typer.Option(min=0, max=19, help="how much lower its priority is than that of brokers (10)"),
    ],
    "verbose": Annotated[bool, typer.Option("--verbose", help="show errors with all their lines")],
}
Every = Annotated[
    str | None, typer.Option(metavar="5s", help="stay, and look for more at this interval: 5s, 1m, 1h")
]
AvailableNow = Annotated[bool, typer.Option("--available-now", help="end with what is there now (default)")]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help="begin here: 2026-11-25T03:00Z")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="end before this time")]


def interval(every: str | None, **others: bool) -> int | None:
    """The seconds of `--every`; None without it. Raises Failure when another trigger is given, too."""
    if (every is not None) + sum(others.values()) > 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise Failure(USAGE, "more than one trigger is given", fix=f"use one of --every, {names}")
    if every is None:
        return None
    try:
        found = durations.seconds(every)
    except ValueError:
        found = 0
    if found < 1:
        raise Failure(USAGE, f"--every: {every!r} is no interval", fix="write it like 5s, 1m or 1h")
    return int(found)


def moment(text: str | None, option: str = "--from") -> datetime | None:
    """A time with its zone."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        fix = "write it like 2026-11-25T03:00Z"
        raise Failure(USAGE, f"{option}: {text!r} is no time with a time zone", fix=fix)
    return found.astimezone(UTC)
