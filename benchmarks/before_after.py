"""This checkout and an older one, by turns in one run.

`python -m benchmarks.before_after CHECKOUT` starts the broker of both, each with the interpreter of its own
`.venv`, and runs each workload on one after the other; who is first changes each round. The ratio of a
measure is taken within each round, so that what slows the machine for minutes slows both; the table has the
median of these ratios and their range.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement
from benchmarks.report import summarise
from benchmarks.run import measure_all, warm_up
from benchmarks.servers import Mom
from benchmarks.workloads import MEASURES, MeasureName, Workload

SHOWN: tuple[MeasureName, ...] = ("rate", "latency_p50", "confirm_p50", "cpu", "memory")


def older(checkout: Path) -> type[Mom]:
    """The broker of another checkout, on ports of its own. Raises `ServerFailed` where there is none."""
    interpreter = checkout / ".venv/bin/python"
    for needed in (checkout / "manage.py", interpreter):
        if not needed.exists():
            raise ServerFailed(f"{needed} does not exist; run `make build` in {checkout}")

    class Before(Mom):
        name = "before"
        ports = (8132, 61715)
        repository = checkout
        python = str(interpreter)

    return Before


def ratios(done: Sequence[Measurement], workload: str, measure: MeasureName, before: str) -> list[float]:
    """After divided by before, for each round in which both have the measure."""
    rounds: dict[int, dict[bool, float]] = {}
    for run in done:
        if run.workload == workload and measure in run.figures:
            rounds.setdefault(run.round, {})[run.server == before] = run.figures[measure]
    return [pair[False] / pair[True] for pair in rounds.values() if len(pair) == 2 and pair[True]]


def table(chosen: Sequence[Workload], done: Sequence[Measurement], before: str, after: str) -> str:
    """Medians of both and the ratio of each measure, with the faults of either."""
    summaries = summarise(done)
    rows = ["| workload | measure | before | after | ratio (min-max of rounds) |", "|---|---|---|---|---|"]
    for workload in chosen:
        pair = [summaries.get((workload.name, name)) for name in (before, after)]
        for measure in SHOWN:
            spreads = [summary.spreads.get(measure) if summary else None for summary in pair]
            found = ratios(done, workload.name, measure, before)
            if not found or None in spreads:
                continue
            cells = [f"{spread.median:,.{MEASURES[measure].digits}f}" for spread in spreads if spread]
            ratio = f"{statistics.median(found):.3f} ({min(found):.2f}-{max(found):.2f})"
            rows.append(f"| {workload.title} | {MEASURES[measure].title} | {' | '.join(cells)} | {ratio} |")
        rows += [
            f"| {workload.title} | faults, {name} | | | {'; '.join(summary.faults)} |"
            for name, summary in zip((before, after), pair, strict=True)
            if summary and summary.faults
        ]
    return "\n".join(rows)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.before_after", description=__doc__)
    add = parser.add_argument
    add("checkout", type=Path, help="the older checkout, installed with `make build`")
    add("--runs", type=int, default=5, help="rounds (5)")
    add("--only", default="", help="groups or names of workloads, e.g. W1,W3 or w1-256-100")
    add("--duration", type=float, default=workloads.DEFAULT_SECONDS, help="measured seconds of a run (7)")
    add("--backlog", type=int, default=workloads.DEFAULT_BACKLOG, help="messages in W6 (1000000)")
    add("--server-warmup", type=float, default=5, help="seconds of load before the first run (5)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    try:
        arguments.chosen = (
            workloads.chosen(arguments.only.split(",")) if arguments.only else workloads.WORKLOADS
        )
    except ValueError as unknown:
        parser.error(str(unknown))
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    length = Length(arguments.duration, backlog=arguments.backlog)
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        servers = [older(arguments.checkout.resolve())(directory / "before"), Mom(directory / "after")]
        for server in servers:
            progress(f"{server.name} {server.version()} ready after {server.start():.1f} s")
            running.callback(server.stop)
        place = machine.describe(directory)
        for server in servers:
            warm_up(server, generator, arguments.server_warmup)
        done = measure_all(servers, arguments.chosen, generator, length, arguments.runs)
    before, after = servers
    lines = [
        f"## Before and after, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- Before: {before.version()}. After: {after.version()}.",
        f"- {arguments.runs} rounds by turns, each run {length.seconds:g} s after {length.warmup:g} s.",
        "",
        table(arguments.chosen, done, before.name, after.name),
    ]
    plain: dict[str, object] = {
        "machine": asdict(place),
        "versions": {server.name: server.version() for server in servers},
        "measurements": [measurement.plain() for measurement in done],
    }
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(any(run.faults for run in done if run.server == after.name))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
