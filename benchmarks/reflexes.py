"""The cost of reflexes: W1 on a queue that no reflex is asked about, beside reflexes of other queues.

`python -m benchmarks.reflexes` starts one broker and runs W1 in pairs, each case next to the one that it is
compared with, because a machine is seldom equally fast for a minute. In the first three cases another client
publishes messages to a second queue all the time:

- without: there is no reflex, anywhere;
- honest: each message of the second queue goes through a function that computes for a while;
- hostile: the function never returns, so its process is killed again and again;
- alone: there is neither a reflex nor a second client;
- declared: as before, but reflexes of arrivals and deliveries are declared for other queues;
- filtered: W1 itself goes through a function that accepts at once.

Honest and hostile are compared with `without`, declared and filtered with `alone`.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, workloads
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.child import ServerFailed
from benchmarks.generator import Generator
from benchmarks.measurement import Length, Measurement, measure
from benchmarks.servers import HOST, Mom
from benchmarks.workloads import Workload

WORKLOAD = "w1-256-100"
BUSY = "/queue/busy"
#: messages a second of the second client
RATE = 200
#: the least ratio that is promised, beside other reflexes and with declared ones
LEAST, LEAST_DECLARED = 0.95, 0.99
LIBRARY = """
def honest(message):
    return sum(number * number for number in range(5_000)) >= 0

def hostile(message):
    while True:
        pass

def quick(message):
    return 1
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its reflexes by name, whether there is a second client, and the least promised ratio."""

    name: str
    reflexes: dict[str, dict[str, object]]
    busy: bool = True
    least: float = 0.0


def _of(function: str, service: str, kind: str = "arrival") -> dict[str, object]:
    return {
        "kind": kind, "service": service, "library": "bench", "function": function, "on_failure": "accept",
    }  # fmt: skip


WITHOUT = Case("without", {})
ALONE = Case("alone", {}, busy=False)
#: each case, and the one that it is compared with
PAIRS = (
    (Case("honest", {"r": _of("honest", "busy")}, least=LEAST), WITHOUT),
    (Case("hostile", {"r": _of("hostile", "busy")}, least=LEAST), WITHOUT),
    (
        Case(
            "declared",
            {
                f"r{number}": _of("quick", f"other.{number}.>", kind)
                for number, kind in enumerate(("arrival", "delivery"))
            },
            busy=False,
            least=LEAST_DECLARED,
        ),
        ALONE,
    ),
    (Case("filtered", {"r": _of("quick", "w1*")}, busy=False), ALONE),
)


class Filtering(Mom):
    """A broker whose libraries are in a directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory.mkdir(parents=True)
        (self.directory / "bench.py").write_text(LIBRARY)
        self.options = ("--reflex-path", str(self.directory))

    def request(self, method: str, path: str, body: object = None, **headers: str) -> dict[str, object]:
        """A request of the administrator. Raises `ServerFailed`."""
        credentials = base64.b64encode(f"admin:{self.password}".encode()).decode()
        request = urllib.request.Request(
            f"http://{HOST}:{self.ports[0]}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"authorization": f"Basic {credentials}", "content-type": "application/json", **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return dict(json.loads(reply.read() or b"{}"))
        except urllib.error.HTTPError as error:
            with error:
                raise ServerFailed(f"{method} {path}: {error.read().decode()}") from error

    def declare(self, reflexes: dict[str, dict[str, object]]) -> None:
        """Have exactly these reflexes."""
        found = self.request("GET", "/reflexes")["items"]
        assert isinstance(found, list)
        for row in found:
            self.request("DELETE", f"/reflexes/{row['name']}", **{"if-match": f'"{row["version"]}"'})
        for name, spec in reflexes.items():
            self.request("PUT", f"/reflexes/{name}", spec, **{"if-none-match": "*"})


@contextmanager
def second_client(generator: Generator, server: Mom, seconds: float) -> Iterator[None]:
    """Publishes `RATE` messages a second to the second queue."""
    options = [
        "--mode",
        "produce",
        "-p",
        "1",
        "--dest",
        BUSY,
        "--persistent",
        "1",
        "--size",
        "100",
        "--receipts",
    ]
    options += ["--window", "256", "--rate", str(RATE), "--duration", str(seconds)]
    command = [str(generator.program), *server.stomp("tcp"), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        yield
        client.terminate()


def run(
    case: Case, workload: Workload, server: Filtering, generator: Generator, length: Length, round_number: int
) -> Measurement:
    """One run of W1 in one case."""
    server.declare(case.reflexes)
    if not case.busy:
        return measure(workload, server, generator, length, round_number)
    with second_client(generator, server, length.warmup + length.seconds + 30):
        return measure(workload, server, generator, length, round_number)


def table(rates: dict[str, list[tuple[float, float]]]) -> tuple[list[str], bool]:
    """The rows of the table, and whether all promises are kept. `rates` are of each case, and of the one that
    it is compared with."""
    rows = ["| case | messages/s | compared with | ratio (min-max of pairs) | promised |"]
    rows.append("|---|---|---|---|---|")
    kept = True
    for case, other in PAIRS:
        ratios = [own / reference for own, reference in rates[case.name]]
        ratio = statistics.median(ratios)
        promised = f"≥ {case.least:g}" if case.least else ""
        kept = kept and ratio >= case.least
        own, reference = (statistics.median(run) for run in zip(*rates[case.name], strict=True))
        shown = f"{ratio:.3f} ({min(ratios):.2f}-{max(ratios):.2f})"
        rows.append(f"| {case.name} | {own:,.0f} | {other.name}: {reference:,.0f} | {shown} | {promised} |")
    return rows, kept


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.reflexes", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="pairs of each case (5)")
    parser.add_argument("--duration", type=float, default=10.0, help="measured seconds of a run (10)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    (workload,) = workloads.chosen([WORKLOAD])
    length = Length(arguments.duration)
    rates: dict[str, list[tuple[float, float]]] = {case.name: [] for case, _ in PAIRS}
    done: list[Measurement] = []
    with workplace(arguments.work) as directory:
        generator = Generator.build(directory)
        server = Filtering(directory / "mom")
        progress(f"{server.version()} ready after {server.start():.1f} s")
        try:
            place = machine.describe(directory)
            for number in range(arguments.runs + 1):  # the first ones warm up
                for pair in PAIRS:
                    figures = {}
                    for case in pair if number % 2 else reversed(pair):
                        one = run(case, workload, server, generator, length, len(done))
                        done.append(one)
                        figures[case.name] = one.figures["rate"]
                        progress(f"{number}/{arguments.runs} {case.name}: {one.figures} {one.faults}")
                    if number:
                        rates[pair[0].name].append((figures[pair[0].name], figures[pair[1].name]))
        finally:
            server.stop()
    rows, kept = table(rates)
    lines = [
        f"## Reflexes, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        f"- Machine: {place.line()}",
        f"- {workload.title}; {arguments.runs} pairs of each case, each run {length.seconds:g} s.",
        f"- A second client publishes {RATE} messages/s to another queue, except where W1 is alone;",
        "  `benchmarks/reflexes.py` describes all cases.",
        "",
        *rows,
        "",
        f"All kept: {'yes' if kept else '**no**'}.",
    ]
    plain: dict[str, object] = {"machine": asdict(place), "measurements": [one.plain() for one in done]}
    finish("\n".join(lines), arguments.json, plain, arguments.append)
    return int(not kept or any(one.faults for one in done))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
