"""`mom stats` and `mom top`: statistics, once or repeatedly."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from broker_app.base.reply_types import Facts
from broker_app.cli.base import completion, invocation
from broker_app.cli.base.failures import NOT_FOUND, USAGE, Failure
from broker_app.cli.base.options import Span, span
from broker_app.cli.destinations import address
from broker_app.cli.top_screen import SORTS, Row, TopScreen, ordered, pressed_keys, with_states

if TYPE_CHECKING:
    from broker_app.cli.base.output import Output
    from broker_app.cli.base.rest import Rest

NODE = ("time", "in_rate", "out_rate", "connections", "destinations", "memory_bytes", "journal_bytes")
DESTINATION = (
    "time",
    "depth",
    "unsettled",
    "delayed",
    "consumers",
    "in_rate",
    "out_rate",
    "oldest_s",
    "wait_p50_s",
    "wait_p95_s",
    "wait_p99_s",
)
_TOP = ("name", "state", "depth", "in_rate", "out_rate", "oldest_s", "unsettled", "consumers", "delayed")
#: states that stand out, and destinations of them that are asked for
_CONSPICUOUS = "at-limit,no-consumer,growing,paused"
_MOST = 500


def stats(
    ctx: typer.Context,
    queue: Annotated[
        str | None,
        typer.Argument(
            help="a queue, or /topic/<name>",
            show_default="the whole broker",
            autocompletion=completion.destinations,
        ),
    ] = None,
    watch: Annotated[float, typer.Option(parser=span(), help="repeat at this interval, such as 2s")] = 0.0,
) -> None:
    """Show statistics of the broker or of one destination."""
    given = invocation.of(ctx)
    rest = given.rest()
    if not watch:
        given.output.facts(sample(rest, queue))
        return
    repeat(given.output, DESTINATION if queue else NODE, lambda: sample(rest, queue), max(0.1, watch))


def top(
    ctx: typer.Context,
    sort: Annotated[str, typer.Option(help=f"one of {', '.join(SORTS)}")] = "rate",
    lines: Annotated[int, typer.Option("-n", help="number of destinations", min=1)] = 30,
    every: Annotated[float, typer.Option(parser=span(0.2), help="time between updates, such as 2s")] = Span(
        1
    ),
) -> None:
    """Watch the busiest destinations, with totals; without a terminal, print them once.

    Keys: r, d, o and n sort by rate, depth, oldest and name, / filters by name, p pauses, q ends.
    """
    if sort not in SORTS:
        raise Failure(USAGE, f"cannot sort by {sort!r}", fix=f"use one of {', '.join(SORTS)}")
    given = invocation.of(ctx)
    rest = given.rest()
    if given.output.form != "table" or not sys.stdout.isatty():
        given.output.rows(_TOP, ordered(_destinations(rest, rest.get("/stats")), sort)[:lines])
        return
    with contextlib.suppress(KeyboardInterrupt):
        _watch(TopScreen(sort, lines), rest, every)


def _watch(screen: TopScreen, rest: Rest, every_s: float) -> None:
    """Show new figures at each interval, and what keys ask for at once, until it is ended."""
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live, pressed_keys() as pressed:
        while not screen.ended:
            if not screen.paused:
                whole = rest.get("/stats")
                screen.take(whole["time"], whole["node"], _destinations(rest, whole))
            due = time.monotonic() + every_s
            while not screen.ended and (left_s := due - time.monotonic()) > 0:
                live.update(screen.shown(live.console.width), refresh=True)
                for key in pressed(left_s):
                    screen.press(key)
                    live.update(screen.shown(live.console.width), refresh=True)


def _destinations(rest: Rest, whole: Facts) -> list[Row]:
    """The destinations of statistics with their states."""
    queues = rest.get("/queues", state=_CONSPICUOUS, fields="name,state", sort="state", limit=_MOST)["items"]
    conspicuous = {f"/queue/{queue['name']}": queue["state"] for queue in queues}
    return with_states(whole["destinations"], conspicuous)


def repeat(
    output: Output,
    columns: Sequence[str],
    read: Callable[[], Facts],
    every_s: float,
    samples: int = 0,
) -> None:
    """Print a row of figures at each interval: so many `samples`, or until Ctrl-C."""
    if output.form in ("table", "tsv"):
        output.row(columns, {name: name for name in columns})
    for number, _ in enumerate(ticks(every_s), 1):
        output.row(columns, read())
        if number == samples:
            return


def ticks(every_s: float) -> Iterator[None]:
    """Yield at once and then every `every_s` seconds until Ctrl-C. A second Ctrl-C interrupts immediately."""
    stopped = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        stopped.set()

    signal.signal(signal.SIGINT, stop)
    try:
        while not stopped.is_set():
            yield
            stopped.wait(every_s)
    finally:
        signal.signal(signal.SIGINT, before)


def sample(rest: Rest, queue: str | None) -> dict[str, object]:
    """The figures of the broker, or of a destination, in one row. Raises Failure if that is not there."""
    from broker_app.cli.base.rest import destination_path

    if queue is None:
        whole = rest.get("/stats")
        return {"time": whole["time"], **whole["node"]}
    now = rest.get(destination_path(address(queue), "stats"), window_s=1)["now"]
    if now is None:
        raise Failure(
            NOT_FOUND, f"{address(queue)} no longer exists", fix="GET /api/v1/…/stats has its history"
        )
    flat = {name: value for name, value in now.items() if name not in ("wait_s", "hold_s")}
    for of in ("wait", "hold"):
        flat |= {f"{of}_{name}_s": now[f"{of}_s"][name] for name in ("p50", "p95", "p99")}
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **flat}
