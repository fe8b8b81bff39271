"""`make bench`: the workloads W1 to W8 on MOM and the installed peers, by turns, with the table of ratios."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime

from benchmarks import machine, report, workloads
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement, measure
from benchmarks.servers import PEERS, Mom, Server
from benchmarks.workloads import WORKLOADS, Workload


def measure_all(
    servers: Sequence[Server], chosen: Sequence[Workload], generator: Generator, length: Length, runs: int
) -> list[Measurement]:
    """Each workload `runs` times on each server that can do it, by turns; who is first changes each round."""
    done = []
    for number in range(1, runs + 1):
        for workload in chosen:
            first = number % len(servers)
            for server in (*servers[first:], *servers[:first]):
                if not can_do(server, workload):
                    continue
                measurement = measure(workload, server, generator, length, number)
                done.append(measurement)
                progress(_progress_line(workload, measurement, runs))
    return done


def can_do(server: Server, workload: Workload) -> bool:
    """Return whether a server has the interfaces of a workload."""
    return (
        workload.protocol in server.protocols
        and workload.batch in server.batches
        and workload.consumer in server.consumers
    )


def _progress_line(workload: Workload, measurement: Measurement, runs: int) -> str:
    figures = ", ".join(
        f"{workloads.MEASURES[name].title} {value:,.{workloads.MEASURES[name].digits}f}"
        for name, value in measurement.figures.items()
    )
    faults = "".join(f"  !! {fault}" for fault in measurement.faults)
    return f"{measurement.round}/{runs}  {workload.title}  {measurement.server}: {figures}{faults}"


def warm_up(server: Server, generator: Generator, seconds: float) -> None:
    """Let a just-in-time compiler do its work before the first figure counts."""
    if seconds > 0:
        progress(f"warming up {server.name} for {seconds:g} s")
        measure(WORKLOADS[0], server, generator, Length(seconds, warmup=0), round_number=0)


def _section(
    place: machine.Machine,
    servers: Sequence[Server],
    chosen: Sequence[Workload],
    done: Sequence[Measurement],
    length: Length,
) -> str:
    names = [server.name for server in servers]
    peers = [name for name in names if name != Mom.name]
    summaries = report.summarise(done)
    found = report.verdicts(chosen, summaries, Mom.name, peers)
    counted = [verdict for verdict in found if verdict.reached is not None]
    passed = sum(verdict.reached is True for verdict in counted)
    lines = [
        f"## Workloads, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        *(f"- {server.name} {server.version()}" for server in servers),
        f"- Each run {length.seconds:g} s after {length.warmup:g} s; {length.backlog:,} messages in W6.",
    ]
    if not peers:
        lines.append("- **No peer was measured**, so there are no ratios; `make bench-peers` installs them.")
    if Mom.name in names:
        lines.append(f"- Floors reached: {passed} of {len(counted)} judged.")
        lines += ["", report.floors_table(found)]
    lines += ["", "All medians:", "", report.figures_table(chosen, summaries, names)]
    return "\n".join(lines)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=5, help="rounds; the medians are of these (5)")
    add("--only", default="", help="groups or names of workloads, e.g. W1,W3 or w1-256-100")
    add("--duration", type=float, default=workloads.DEFAULT_SECONDS, help="measured seconds of a run (7)")
    add("--backlog", type=int, default=workloads.DEFAULT_BACKLOG, help="messages in W6 (1000000)")
    add("--server-warmup", type=float, default=20, help="seconds of load before the first run (20)")
    add("--no-peers", action="store_true", help="MOM alone")
    add("--no-mom", action="store_true", help="the peers alone")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    try:
        arguments.chosen = workloads.chosen(arguments.only.split(",")) if arguments.only else WORKLOADS
    except ValueError as unknown:
        parser.error(str(unknown))
    return arguments


def _chosen_servers(arguments: argparse.Namespace) -> list[type[Server]]:
    chosen: list[type[Server]] = [] if arguments.no_mom else [Mom]
    for peer in () if arguments.no_peers else PEERS:
        if peer.installed():
            chosen.append(peer)
        else:
            progress(f"{peer.name} is not installed and not measured; `make bench-peers` installs it")
    if not chosen:
        raise ServerFailed("there is no server to measure")
    if chosen == [Mom]:
        progress("measuring MOM alone: there will be no ratios")
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    length = Length(arguments.duration, backlog=arguments.backlog)
    begin = time.monotonic()
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        servers = []
        for kind in _chosen_servers(arguments):
            server = kind(directory / kind.name.lower())
            progress(f"{server.name} ready after {server.start():.1f} s")
            running.callback(server.stop)
            servers.append(server)
        place = machine.describe(directory)
        for server in servers:
            warm_up(server, generator, arguments.server_warmup)
        done = measure_all(servers, arguments.chosen, generator, length, arguments.runs)
        section = _section(place, servers, arguments.chosen, done, length)
    progress(f"took {(time.monotonic() - begin) / 60:.0f} minutes")
    plain: dict[str, object] = {
        "machine": asdict(place),
        "versions": {server.name: server.version() for server in servers},
        "measurements": [measurement.plain() for measurement in done],
    }
    finish(section, arguments.json, plain, arguments.append)
    return int(any(run.faults for run in done if run.server == Mom.name))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
