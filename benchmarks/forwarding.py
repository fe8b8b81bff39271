"""Forwarding: messages produced at one broker and consumed at another, and a queue of one broker alone.

`python -m benchmarks.forwarding` starts two brokers. Each pair of runs has the same producers and consumers,
by turns with a local queue and with a queue that is forwarded over a bridge; the rate is from the first SEND
to the last acknowledgement. The latency added is the difference of the medians at a low rate.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import mom_client
from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator, Raw, faults
from benchmarks.servers import HOST, Mom
from benchmarks.sleeping import cpu_s

BRIDGE = "oslo"
SIZES, FLOWS = (100, 1024), (1, 8)
LEAST_RATIO, MOST_ADDED_MS = 0.6, 5.0
#: seconds that consumers get to subscribe
SUBSCRIBING_S = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """Messages a second from end to end, CPU seconds of all brokers for 100,000, and what went wrong."""

    rate: float
    cpu_s: float
    faults: list[str]


@dataclass(frozen=True, slots=True)
class Case:
    """One size and number of flows: its runs, local and forwarded."""

    size: int
    flows: int
    local: list[Run]
    forwarded: list[Run]

    @property
    def ratio(self) -> float:
        return _rate(self.forwarded) / _rate(self.local)

    @property
    def faults(self) -> list[str]:
        return [fault for run in (*self.local, *self.forwarded) for fault in run.faults]

    @property
    def kept(self) -> bool:
        return self.ratio >= LEAST_RATIO and not self.faults


@dataclass(frozen=True, slots=True)
class Latency:
    """Medians from SEND to MESSAGE, in ms."""

    local: float
    forwarded: float

    @property
    def added(self) -> float:
        return self.forwarded - self.local

    @property
    def kept(self) -> bool:
        return self.added < MOST_ADDED_MS


def _rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.rate for run in runs)


class Two:
    """Two brokers, and a load generator."""

    def __init__(self, home: Mom, away: Mom, generator: Generator) -> None:
        self.home, self.away = home, away
        self._generator = generator
        self._runs = 0

    def run(self, size: int, flows: int, count: int, *, forwarded: bool) -> Run:
        """Move `count` messages through queues that have never been used."""
        self._runs += 1
        queue = f"run-{self._runs}-%d"
        target = self.away if forwarded else self.home
        prefix = f"/bridge/{BRIDGE}/" if forwarded else "/queue/"
        shape = ["--dests", str(flows), "--count", str(count), "--size", str(size), "--persistent", "1"]
        drain = ["--mode", "drain", "-c", str(flows), "--dest", f"/queue/{queue}", "--linger", "30"]
        drain += ["--ack", "client-individual", "--ack-batch", "10", "--any-run"]
        produce = ["--mode", "produce", "-p", str(flows), "--dest", prefix + queue, "--receipts"]
        produce += ["--window", "1000"]
        timeout = 60 + count / 1000
        before = self._cpu_s()
        with ThreadPoolExecutor(1) as pool:
            draining = pool.submit(self._generator.run, [*target.stomp("tcp"), *drain, *shape], timeout)
            time.sleep(SUBSCRIBING_S)
            began = time.monotonic()
            produced = self._generator.run([*self.home.stomp("tcp"), *produce, *shape], timeout)
            drained = draining.result()
            took = time.monotonic() - began
        used_s = (self._cpu_s() - before) * 100_000 / count
        return Run(count / took, used_s, faults(produced) + faults(drained) + _missing(drained, count))

    def _cpu_s(self) -> float:
        return sum(cpu_s(broker.pid) for broker in (self.home, self.away))

    async def latency_ms(self, count: int, rate: int, *, forwarded: bool) -> float:
        """The median from SEND to MESSAGE of 100-byte messages that come singly, `rate` a second."""
        target = self.away if forwarded else self.home
        prefix = f"/bridge/{BRIDGE}/" if forwarded else "/queue/"
        found: list[float] = []
        async with _client(self.home) as sender, _client(target) as receiver:

            async def receive() -> None:
                async with receiver.subscribe("/queue/singly", ack="auto") as messages:
                    async for message in messages:
                        found.append((time.monotonic() - float(message.body)) * 1000)
                        if len(found) == count:
                            return

            receiving = asyncio.create_task(receive())
            await asyncio.sleep(SUBSCRIBING_S)
            for _ in range(count):
                await asyncio.sleep(1 / rate)
                sender.send_nowait(prefix + "singly", b"%-100.6f" % time.monotonic())
            async with asyncio.timeout(30):
                await receiving
        return statistics.median(found)


def _client(broker: Mom) -> mom_client.Client:
    address = f"stomp://{HOST}:{broker.ports[1]}"
    return mom_client.connect(address, login="admin", passcode=broker.password)


def _missing(drained: Raw, count: int) -> list[str]:
    return [] if drained["received"] == count else [f"{drained['received']} of {count} came"]


@contextmanager
def two_brokers(directory: Path) -> Iterator[Two]:
    generator = Generator.build(directory)
    home, away = Mom(directory / "home"), Mom(directory / "away")
    away.ports = (Mom.ports[0] + 1, Mom.ports[1] + 1)
    try:
        home.start()
        away.start()
        home.bridge_to(away, BRIDGE)
        yield Two(home, away, generator)
    finally:
        home.stop()
        away.stop()


def measure(two: Two, runs: int, count: int) -> list[Case]:
    cases = []
    for size in SIZES:
        for flows in FLOWS:
            case = Case(size, flows, [], [])
            for _ in range(runs):
                case.local.append(two.run(size, flows, count, forwarded=False))
                case.forwarded.append(two.run(size, flows, count, forwarded=True))
            progress(f"{size} B, {flows} flows: {case.ratio:.2f} of {_rate(case.local):,.0f}/s {case.faults}")
            cases.append(case)
    return cases


async def measure_latency(two: Two, count: int) -> Latency:
    local = await two.latency_ms(count, 200, forwarded=False)
    return Latency(local, await two.latency_ms(count, 200, forwarded=True))


def row(case: Case) -> str:
    cells = [f"{case.size:,} B, {case.flows} flow{'s' if case.flows > 1 else ''}"]
    for runs in (case.local, case.forwarded):
        rates = [run.rate for run in runs]
        cpu_s = statistics.median(run.cpu_s for run in runs)
        cells += [f"{_rate(runs):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})", f"{cpu_s:.2f}"]
    cells += [f"{case.ratio:.2f}", "pass" if case.kept else "**miss**", "; ".join(case.faults) or "clean"]
    return f"| {' | '.join(cells)} |"


def section(cases: Sequence[Case], latency: Latency, place: machine.Machine, count: int) -> str:
    runs = len(cases[0].local)
    return "\n".join(
        [
            f"## Forwarding, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            f"- {Mom.name} {Mom.version()}",
            (
                f"- {count:,} persistent messages a run, receipts, acknowledgements; medians of {runs} runs "
                "by turns; as many producers and consumers as flows. Two brokers and the generator share the "
                "cores."
            ),
            f"- Promised: at least {LEAST_RATIO:g} of the rate of a local queue.",
            "",
            (
                "| what | local messages/s (min-max) | CPU s per 100,000 | forwarded messages/s (min-max) "
                "| CPU s per 100,000, both | ratio | | checked |"
            ),
            "|---|---|---|---|---|---|---|---|",
            *map(row, cases),
            "",
            (
                f"Latency at 200 messages/s, p50: {latency.local:.2f} ms in a local queue, "
                f"{latency.forwarded:.2f} ms forwarded; {latency.added:.2f} ms added, promised are "
                f"< {MOST_ADDED_MS:g}: {'pass' if latency.kept else '**miss**'}."
            ),
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.forwarding", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="messages of a run (200000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each kind (3)")
    parser.add_argument("--singly", type=int, default=1_000, help="messages for the latency (1000)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        with two_brokers(directory) as two:
            latency = asyncio.run(measure_latency(two, arguments.singly))
            progress(f"latency p50 {latency.local:.2f} ms local, {latency.forwarded:.2f} ms forwarded")
            cases = measure(two, arguments.runs, arguments.count)
    plain: dict[str, object] = {"latency": asdict(latency), "cases": [asdict(case) for case in cases]}
    finish(section(cases, latency, place, arguments.count), arguments.json, plain, arguments.append)
    return int(not (latency.kept and all(case.kept for case in cases)))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
