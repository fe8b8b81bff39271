"""The cost of reflexes: W1 on a queue that no reflex is asked about, beside reflexes of other queues.

`python -m benchmarks.reflexes` starts one broker, keeps W1 running on it, and changes the rest every few
seconds. The rate of each phase is compared with that of the phases before and behind it, because a machine is
seldom equally fast for a minute. In the first four cases a second client publishes to a queue with a reflex,
and between them to a queue without one:

- honest: the function computes for a while;
- slow: it waits for a while;
- dead: it ends its process, each time it is called;
- hostile: it never returns, so its process is killed again and again.

In the others there is no second client, and between them there are no reflexes either:

- declared: reflexes of arrivals and deliveries are declared for other queues;
- filtered: W1 itself goes through a function that accepts at once.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.background_load import BackgroundLoad
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator
from benchmarks.measurement import Length, options
from benchmarks.servers import Mom

WORKLOAD = "w1-256-100"
#: messages a second of the second client
RATE = 200
#: the least ratio that is promised, beside bad reflexes and with declared ones
LEAST, LEAST_DECLARED = 0.95, 0.99
#: seconds of a phase before it is measured
SETTLE_S = 1.5
LIBRARY = """
import os
import time

def honest(message):
    return sum(number * number for number in range(5_000)) >= 0

def slow(message):
    time.sleep(0.2)
    return 1

def dead(message):
    os._exit(1)

def hostile(message):
    while True:
        pass

def quick(message):
    return 1
"""

Reflexes = dict[str, dict[str, object]]


def _of(function: str, service: str, kind: str = "arrival", library: str = "bench") -> dict[str, object]:
    return {
        "kind": kind, "service": service, "library": library, "function": function, "on_failure": "accept",
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """The reflexes by name, and the queue of the second client, empty for none."""

    reflexes: Reflexes
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A state, the one that it is compared with, and the least promised ratio."""

    name: str
    state: State
    other: State
    least: float = 0.0


#: functions that a second client has called, each of a library of its own, whose process it may end
CALLED = ("honest", "slow", "dead", "hostile")
_REFLEXES: Reflexes = {name: _of(name, name, library=f"bench_{name}") for name in CALLED}
_DECLARED: Reflexes = {
    "arrivals": _of("quick", "other.1.>"),
    "deliveries": _of("quick", "other.2.>", "delivery"),
}
PLAIN = State(_REFLEXES, "plain")
ALONE = State({})
CASES = (
    Case("honest", State(_REFLEXES, "honest"), PLAIN),
    *(Case(name, State(_REFLEXES, name), PLAIN, LEAST) for name in CALLED[1:]),
    Case("declared", State(_DECLARED), ALONE, LEAST_DECLARED),
    Case("filtered", State({"r": _of("quick", "w1*")}), ALONE),
)


class Filtering(Mom):
    """A broker whose libraries are in a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory.mkdir(parents=True)
        for library in ("bench", *(f"bench_{name}" for name in CALLED)):
            (self.directory / f"{library}.py").write_text(LIBRARY)
        self.options = ("--reflex-path", str(self.directory))
        self._reflexes: Reflexes = {}

    def declare(self, reflexes: Reflexes) -> None:
        """Have exactly these reflexes."""
        if reflexes == self._reflexes:
            return
        for row in self.ask("GET", "reflexes")["items"]:
            self.ask("DELETE", f"reflexes/{row['name']}", **{"if-match": f'"{row["version"]}"'})
        for name, spec in reflexes.items():
            self.ask("PUT", f"reflexes/{name}", spec, **{"if-none-match": "*"})
        self._reflexes = reflexes


@contextmanager
def second_client(generator: Generator, server: Mom, queue: str) -> Iterator[None]:
    """Publishes `RATE` messages a second to a queue."""
    words = ("--mode", "produce", "-p", "1", "--dest", f"/queue/{queue}", "--persistent", "1")
    more = ("--size", "100", "--receipts", "--window", "256", "--rate", str(RATE), "--duration", "600")
    command = [str(generator.program), *server.stomp("tcp"), *words, *more]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        try:
            yield
        finally:
            client.kill()


@dataclass(frozen=True, slots=True)
class Bench:
    """Measures cases in phases of so many seconds, all on one broker."""

    server: Filtering
    generator: Generator
    seconds: float

    def rates(self, case: Case, rounds: int, number: int) -> list[tuple[float, float]]:
        """The rate of each round, and the mean of the phases without around it."""
        (workload,) = workloads.chosen([WORKLOAD])
        phases = 2 * rounds + 1
        # Declarations take a part of a second.
        length = Length((SETTLE_S + self.seconds + 1) * phases)
        load = BackgroundLoad(self.generator, options(workload, self.server, length, number))
        queue = workload.destination.format(round=number).removeprefix("/queue/")
        with load:
            measured = [
                self._rate(case.state if phase % 2 else case.other, load, queue) for phase in range(phases)
            ]
        before, during, behind = measured[:-2:2], measured[1::2], measured[2::2]
        return [(rate, (one + two) / 2) for rate, one, two in zip(during, before, behind, strict=True)]

    def _rate(self, state: State, load: BackgroundLoad, queue: str) -> float:
        self.server.declare(state.reflexes)
        if not state.queue:
            return self._measured(load, queue)
        with second_client(self.generator, self.server, state.queue):
            return self._measured(load, queue)

    def _measured(self, load: BackgroundLoad, queue: str) -> float:
        time.sleep(SETTLE_S)
        return load.rate(lambda: self.server.published(queue), self.seconds)


def table(rates: dict[str, list[tuple[float, float]]]) -> tuple[list[str], bool]:
    """The rows of the table, and whether all promises are kept. `rates` are of each case, and of what it is
    compared with."""
    rows = ["| case | messages/s | without | ratio (quartiles) | promised |"]
    rows.append("|---|---|---|---|---|")
    kept = True
    for case in CASES:
        ratios = [own / other for own, other in rates[case.name]]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        promised = f"≥ {case.least:g}" if case.least else ""
        kept = kept and ratio >= case.least
        own, other = (statistics.median(rate) for rate in zip(*rates[case.name], strict=True))
        shown = f"{ratio:.3f} ({low:.2f}-{high:.2f})"
        rows.append(f"| {case.name} | {own:,.0f} | {other:,.0f} | {shown} | {promised} |")
    return rows, kept


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.reflexes", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="phases of each case, 2 or more (10)")
    parser.add_argument("--duration", type=float, default=3.0, help="measured seconds of a phase (3)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    (workload,) = workloads.chosen([WORKLOAD])
    rates: dict[str, list[tuple[float, float]]] = {}
    with workplace(arguments.work) as directory:
        server = Filtering(directory / "mom")
        bench = Bench(server, Generator.build(directory), arguments.duration)
        progress(f"{server.version()} ready after {server.start():.1f} s")
        try:
            place = machine.describe(directory)
            for number, case in enumerate(CASES):
                rates[case.name] = bench.rates(case, arguments.runs, number)
                shown = " ".join(f"{own:,.0f}/{other:,.0f}" for own, other in rates[case.name])
                progress(f"{case.name}: {shown}")
        finally:
            server.stop()
    rows, kept = table(rates)
    lines = [
        f"## Reflexes, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {workload.title} all the time; {arguments.runs} phases of {arguments.duration:g} s of each case,",
        "  each compared with those before and behind it, which are without.",
        f"- A second client publishes {RATE} messages/s to another queue, except where W1 is alone;",
        "  `benchmarks/reflexes.py` describes all cases.",
        "",
        *rows,
        "",
        f"All kept: {'yes' if kept else '**no**'}.",
    ]
    plain: dict[str, object] = {"machine": asdict(place), "rates": rates}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
