"""A deep backlog on one broker: fill with no consumer, restart, drain; memory, rates, seconds to ready."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from benchmarks.generator import Generator, Raw, faults
from benchmarks.servers import SERVERS, Server

SIZE = 1024
MEMORY_LIMIT_MIB = 512
INDEX_LIMIT_BYTES = 64
INDEX_COUNT = 1_000_000  # with fewer messages, caches of a fixed size would be taken for the index
DRAIN_SHARE = 0.5
RESTART_LIMIT_SECONDS = 15
ACKNOWLEDGE = ("--ack", "client-individual")
PERSISTENT = ("--persistent", "1", "--receipts", "--window", "256", "--size", str(SIZE))


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the result: what was measured, what it must be, and whether it is."""

    what: str
    measured: str
    promised: str
    kept: bool

    def row(self) -> str:
        return f"| {self.what} | {self.measured} | {self.promised} | {'pass' if self.kept else '**miss**'} |"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Memory in MiB, rates in messages/s, times in seconds."""

    count: int
    idle_mib: float
    empty_queue_rate: float
    fill: Raw
    disk_mib: float
    stop_seconds: float
    ready_seconds: float
    restarted_mib: float
    drain: Raw
    drained_disk_mib: float

    @property
    def growth_mib(self) -> float:
        """Memory beyond idle, at its highest."""
        peaks = [self.fill["server"]["rss_peak_kib"], self.drain["server"]["rss_peak_kib"]]
        highest: float = max(*(peak / 1024 for peak in peaks), self.restarted_mib)
        return highest - self.idle_mib

    @property
    def kept_bytes(self) -> float:
        """Memory beyond idle after the fill, in bytes for each message."""
        kept_mib = self.fill["server"]["rss_end_kib"] / 1024 - self.idle_mib
        return float(kept_mib * 2**20 / self.count)

    @property
    def wrong(self) -> list[str]:
        """Messages that were lost, repeated or out of order."""
        return faults(self.fill) + faults(self.drain)


def promises(outcome: Outcome) -> list[Promise]:
    """The figures and what the broker promises for a backlog."""
    share = outcome.drain["recv_rate"] / outcome.empty_queue_rate
    found = [
        Promise(
            "memory beyond idle, at its highest",
            f"{outcome.growth_mib:,.0f} MiB (idle {outcome.idle_mib:,.0f})",
            f"≤ {MEMORY_LIMIT_MIB} MiB",
            outcome.growth_mib <= MEMORY_LIMIT_MIB,
        ),
        Promise(
            "drain against producing and consuming on an empty queue",
            f"{outcome.drain['recv_rate']:,.0f}/s against {outcome.empty_queue_rate:,.0f}/s: {share:.2f}x",
            f"≥ {DRAIN_SHARE}x",
            share >= DRAIN_SHARE,
        ),
        Promise(
            "start with the backlog until ready",
            f"{outcome.ready_seconds:.1f} s",
            f"≤ {RESTART_LIMIT_SECONDS} s",
            outcome.ready_seconds <= RESTART_LIMIT_SECONDS,
        ),
        nothing_wrong(outcome),
    ]
    if outcome.count >= INDEX_COUNT:
        found.append(
            Promise(
                "memory beyond idle after the fill, for each message",
                f"{outcome.kept_bytes:,.0f} bytes",
                f"≤ {INDEX_LIMIT_BYTES} bytes",
                outcome.kept_bytes <= INDEX_LIMIT_BYTES,
            )
        )
    return found


def nothing_wrong(outcome: Outcome) -> Promise:
    """The promise that every message came once and in order."""
    return Promise(
        "lost, repeated, out of order", "; ".join(outcome.wrong) or "none", "none", not outcome.wrong
    )


def measure(server: Server, generator: Generator, count: int) -> Outcome:
    """Fill, restart and drain `server`, which must be running and empty. It is running afterwards."""
    patience = 300 + count / 1000
    idle = _resident_mib(server, generator)
    progress("an empty queue, for comparison")
    pair = ["--mode", "pair", "--dest", "/queue/empty", *PERSISTENT, *ACKNOWLEDGE]
    empty = generator.run([*server.stomp("tcp"), *pair, "--warmup", "3", "--duration", "10"], 120)
    progress(f"{empty['recv_rate']:,.0f}/s; filling with {count:,} messages")
    produce = ["--mode", "produce", "-p", "4", "--dest", "/queue/deep", *PERSISTENT, "--count", str(count)]
    fill = generator.run([*server.stomp("tcp"), *produce], patience)
    disk = _disk_mib(server.directory)
    progress(f"{fill['confirm_rate']:,.0f}/s, {disk:,.0f} MiB on disk; restarting")
    stopped = server.stop()
    ready = server.start(timeout=600)
    restarted = _resident_mib(server, generator)
    progress(f"stopped in {stopped:.1f} s, ready in {ready:.1f} s; draining")
    consume = ["--mode", "drain", "-c", "1", "--dest", "/queue/deep", *ACKNOWLEDGE, "--count", str(count)]
    drain = generator.run([*server.stomp("tcp"), *consume], patience)
    return Outcome(
        count=count,
        idle_mib=idle,
        empty_queue_rate=empty["recv_rate"],
        fill=fill,
        disk_mib=disk,
        stop_seconds=stopped,
        ready_seconds=ready,
        restarted_mib=restarted,
        drain=drain,
        drained_disk_mib=_disk_mib(server.directory),
    )


def _resident_mib(server: Server, generator: Generator) -> float:
    """Memory of the server's processes, as mombench counts it, with one connection that does nothing."""
    hold = ["--mode", "idle", "-c", "1", "--dest", "/topic/nothing", "--hold", "2"]
    raw = generator.run([*server.stomp("tcp"), *hold], 60)
    return float(raw["server"]["rss_end_kib"]) / 1024


def _disk_mib(directory: Path) -> float:
    """Space that the files take; one that the server removes meanwhile takes none."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total / 2**20


def _section(outcome: Outcome, server: Server, place: machine.Machine) -> str:
    fill, drain = outcome.fill, outcome.drain
    return "\n".join(
        [
            f"## Backlog, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            f"- {server.name} {server.version()}",
            f"- {outcome.count:,} persistent messages of 1 KiB with no consumer; a restart; one consumer.",
            "",
            "| what | measured | promised | |",
            "|---|---|---|---|",
            *(promise.row() for promise in promises(outcome)),
            "",
            "| step | messages/s | broker CPU s per 100,000 | RSS peak MiB | data directory MiB |",
            "|---|---|---|---|---|",
            _step("fill", fill["confirm_rate"], fill, outcome.disk_mib),
            _step("drain", drain["recv_rate"], drain, outcome.drained_disk_mib),
            "",
            f"Stopped in {outcome.stop_seconds:.1f} s; {outcome.restarted_mib:,.0f} MiB when started again.",
        ]
    )


def _step(name: str, rate: float, raw: Raw, disk_mib: float) -> str:
    server = raw["server"]
    peak_mib = server["rss_peak_kib"] / 1024
    return f"| {name} | {rate:,.0f} | {server['cpu_s_per_100k']:.2f} | {peak_mib:,.0f} | {disk_mib:,.0f} |"


def main(argv: Sequence[str] | None = None) -> int:
    kinds = {kind.name.lower(): kind for kind in SERVERS}
    parser = argparse.ArgumentParser(prog="benchmarks.backlog", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000_000, help="messages (5000000)")
    parser.add_argument("--server", choices=kinds, default="mom", help="which broker (mom)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    with workplace(arguments.work) as directory:
        generator = Generator.build(directory)
        server = kinds[arguments.server](directory / arguments.server)
        place = machine.describe(directory)
        progress(f"{server.name} ready after {server.start():.1f} s")
        try:
            outcome = measure(server, generator, arguments.count)
        finally:
            server.stop()
        section = _section(outcome, server, place)
    plain: dict[str, object] = {"fill": outcome.fill, "drain": outcome.drain, "section": section}
    finish(section, arguments.json, plain, arguments.append)
    return int(not all(promise.kept for promise in promises(outcome)))


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
