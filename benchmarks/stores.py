"""The same broker with its own journal files, and with each of the stores that brokers can share, by turns.

`python -m benchmarks.stores` starts the servers of the tests for the stores, which sync each commit to the
same disk as the files are on. Ratios are taken within each round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.before_after import ratios, table
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import Child
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement
from benchmarks.run import measure_all, warm_up
from benchmarks.servers import Mom
from benchmarks.workloads import Workload
from tests.support.stores import STORES

_OWN = "own files"
_DATABASES = ("postgres", "redis")
#: the least share of the rate with own files that a database promises, by workload
_SHARES = {"w1-256-100": 0.60, "w1-256-1024": 0.40, "w2-one-100": 0.60, "w2-one-1024": 0.40}
_DEFAULT = ",".join(_SHARES)


class Files(Mom):
    name = _OWN


class Stored(Mom):
    """A broker whose journal is in a store."""

    def __init__(self, directory: Path, name: str, url: str, ports: tuple[int, int]) -> None:
        super().__init__(directory)
        self.name = name  # type: ignore[misc]
        self.ports = ports
        self._url = url

    def _child(self, command: list[str], environment: dict[str, str]) -> Child:
        return super()._child(command, {**environment, "MOM_JOURNAL": self._url})


def shares(chosen: Sequence[Workload], done: Sequence[Measurement], store: str) -> list[str]:
    """Sentences that compare the median share of the rate of each workload with the least one."""
    found = []
    for workload in chosen:
        least = _SHARES.get(workload.name)
        of_rounds = ratios(done, workload.name, "rate", _OWN)
        if least is None or not of_rounds:
            continue
        share = statistics.median(of_rounds)
        verdict = "kept" if share >= least else "missed"
        found.append(f"- {store}, {workload.title}: {share:.2f} of the rate, at least {least:.2f}: {verdict}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.stores", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds (5)")
    parser.add_argument("--only", default=_DEFAULT, help=f"names of workloads ({_DEFAULT})")
    parser.add_argument("--duration", type=float, default=4, help="measured seconds of a run (4)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    chosen, length = workloads.chosen(arguments.only.split(",")), Length(arguments.duration, backlog=0)
    with workplace(arguments.work) as directory, ExitStack() as running:
        generator = Generator.build(directory)
        servers: list[Mom] = [Files(directory / "own")]
        for number, (name, make) in enumerate(STORES.items()):
            url = running.enter_context(make()).url()
            servers.append(Stored(directory / name, name, url, (8140 + number, 61720 + number)))
        for server in servers:
            progress(f"{server.name} ready after {server.start():.1f} s")
            running.callback(server.stop)
        place = machine.describe(directory)
        for server in servers:
            warm_up(server, generator, 5)
        done = measure_all(servers, chosen, generator, length, arguments.runs)
    lines = [
        f"## Journals in files and in stores, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {Mom.version()}; {arguments.runs} rounds by turns, each run {length.seconds:g} s.",
    ]
    for server in servers[1:]:
        pair = [run for run in done if run.server in (_OWN, server.name)]
        lines += ["", f"Before: {_OWN}. After: {server.name}.", "", table(chosen, pair, _OWN, server.name)]
        if server.name in _DATABASES:
            lines += ["", *shares(chosen, pair, server.name)]
    plain: dict[str, object] = {"measurements": [measurement.plain() for measurement in done]}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(any(run.faults for run in done))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
