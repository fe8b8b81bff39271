"""A deep backlog with the journal in each store that brokers share, beside one with files of its own.

`python -m benchmarks.store_backlog` starts the servers of the tests for the stores. Each broker is filled
without a consumer, restarted and drained. The memory is that of the broker alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from benchmarks import machine
from benchmarks.backlog import INDEX_COUNT, Outcome, Promise, measure, nothing_wrong
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator
from benchmarks.servers import Mom
from benchmarks.stores import Files, Stored
from tests.support.stores import STORES

_COUNT = 1_000_000
PEAK_LIMIT_MIB = 200
KEPT_LIMIT_BYTES = 130
READY_LIMIT_S = 8


def promises(outcome: Outcome) -> list[Promise]:
    """The figures of one broker, and what it promises for a backlog of a million messages."""
    found = [
        Promise(
            "memory beyond idle, at its highest",
            f"{outcome.growth_mib:,.0f} MiB (idle {outcome.idle_mib:,.0f})",
            f"< {PEAK_LIMIT_MIB} MiB",
            outcome.growth_mib < PEAK_LIMIT_MIB,
        ),
        Promise(
            "start with the backlog until ready",
            f"{outcome.ready_seconds:.1f} s",
            f"≤ {READY_LIMIT_S} s",
            outcome.ready_seconds <= READY_LIMIT_S,
        ),
        nothing_wrong(outcome),
    ]
    if outcome.count >= INDEX_COUNT:
        kept = Promise(
            "memory beyond idle after the fill, for each message",
            f"{outcome.kept_bytes:,.0f} bytes",
            f"≤ {KEPT_LIMIT_BYTES} bytes",
            outcome.kept_bytes <= KEPT_LIMIT_BYTES,
        )
        found.insert(1, kept)
    return found


def section(outcomes: Sequence[tuple[str, Outcome]], place: machine.Machine, count: int, remark: str) -> str:
    """The tables of RESULTS.md."""
    about = f"{count:,} persistent messages of 1 KiB with no consumer; a restart; one consumer."
    lines = [
        f"## A backlog in stores, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- MOM {Mom.version()}",
        f"- {about} Memory is that of the broker, with its caches.",
    ]
    if remark:
        lines.append(f"- {remark}")
    lines += ["", "| journal | what | measured | promised | |", "|---|---|---|---|---|"]
    lines += [f"| {name} {promise.row()}" for name, outcome in outcomes for promise in promises(outcome)]
    lines += [
        "",
        "| journal | fill, messages/s | drain, messages/s | stopped, s | MiB when started again |",
        "|---|---|---|---|---|",
    ]
    lines += [_rates(name, outcome) for name, outcome in outcomes]
    return "\n".join(lines)


def _rates(name: str, outcome: Outcome) -> str:
    fill, drain = outcome.fill["confirm_rate"], outcome.drain["recv_rate"]
    rest = f"{outcome.stop_seconds:.1f} | {outcome.restarted_mib:,.0f}"
    return f"| {name} | {fill:,.0f} | {drain:,.0f} | {rest} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.store_backlog", description=__doc__)
    parser.add_argument("--count", type=int, default=_COUNT, help=f"messages ({_COUNT})")
    parser.add_argument("--remark", default="", help="a sentence about this run, for the section")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    outcomes: list[tuple[str, Outcome]] = []
    with workplace(arguments.work) as directory:
        generator = Generator.build(directory)
        place = machine.describe(directory)
        for name in (Files.name, *STORES):
            with ExitStack() as running:
                server: Mom = Files(directory / "own")
                if name in STORES:
                    url = running.enter_context(STORES[name]()).url()
                    server = Stored(directory / name, name, url, Mom.ports)
                progress(f"{server.name} ready after {server.start():.1f} s")
                running.callback(server.stop)
                outcomes.append((name, measure(server, generator, arguments.count)))
    text = section(outcomes, place, arguments.count, arguments.remark)
    plain: dict[str, object] = {name: {"fill": one.fill, "drain": one.drain} for name, one in outcomes}
    finish(text, arguments.json, plain, arguments.append)
    return int(not all(promise.kept for _, outcome in outcomes for promise in promises(outcome)))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
