"""Millions of delayed messages pending: memory for each, and how late those are that become due meanwhile.

Broker, engine and segment journal in one process, without sockets. `python -m benchmarks.delays` fills a
queue with messages whose times are spread evenly at random, then watches those that become due arrive at a
consumer. Late is the time between the millisecond asked for and the delivery after its commit.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import uvloop

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.journal.log.segments import SegmentJournal

QUEUE = "/queue/delayed"
RUN = 2_000
LATE_MS, INDEX_BYTES = 100, 64
BODY_BYTES = 100


class Watch(InnerReceiver):
    """A consumer that settles at once and notes how late each message came; its time begins the body."""

    def __init__(self) -> None:
        self.peer = Peer(self)
        self.late_ms: list[float] = []
        self.engine: Engine

    def flush(self, peer: Peer) -> None:
        now_ms = time.time_ns() / 1e6
        self.late_ms += [now_ms - int(message.body[:13]) for _, _, message in peer.deliveries]
        tags = [tag for _, tag, _ in peer.deliveries]
        for box in (peer.deliveries, peer.receipts, peer.refusals):
            box.clear()
        if tags:
            self.engine.submit(c.Settle(peer, tags))


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise OSError("the system does not report the resident memory")


async def measure(directory: Path, count: int, spread_s: float, watch_s: float) -> dict[str, float]:
    """Fill with `count` messages due within `spread_s` after the filling, and watch for `watch_s`."""
    random = Random(1)
    loop = asyncio.get_running_loop()
    journal = SegmentJournal(directory / "journal", call_soon_threadsafe=loop.call_soon_threadsafe)
    watch = Watch()
    engine = watch.engine = Engine(Broker(), journal)
    engine.recover()
    engine.submit(c.Subscribe(watch.peer, "1", QUEUE, c.INDIVIDUAL, 10_000))
    await fill(engine, watch.peer, random, 20_000, time.time_ns() // 1_000_000 + 7_200_000, 1)
    before = resident_kib()
    began = time.perf_counter()
    first_ms = time.time_ns() // 1_000_000 + 1_000 + count // 30
    await fill(engine, watch.peer, random, count, first_ms, round(spread_s * 1000))
    took = time.perf_counter() - began
    grown = (resident_kib() - before) * 1024
    progress(f"{count / took:,.0f}/s filled, {grown / count:.0f} bytes a message")
    await asyncio.sleep(max(0.0, first_ms / 1000 - time.time()))
    watch.late_ms.clear()
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.sleep(watch_s)
    busy = (time.process_time() - cpu) / (time.perf_counter() - wall)
    late = sorted(watch.late_ms)
    await engine.stop()
    journal.close()
    return {
        "fill_rate": count / took,
        "bytes": grown / count,
        "watched": len(late),
        "rate": len(late) / watch_s,
        "busy": busy,
        "p50_ms": late[len(late) // 2],
        "p99_ms": late[int(len(late) * 0.99)],
        "max_ms": late[-1],
    }


async def fill(engine: Engine, peer: Peer, random: Random, count: int, first_ms: int, spread_ms: int) -> None:
    padding = b"." * (BODY_BYTES - 13)
    for start in range(0, count, RUN):
        entries: list[c.Entry] = []
        for _ in range(min(RUN, count - start)):
            due_ms = first_ms + random.randrange(spread_ms)
            entries.append(
                (
                    Envelope(QUEUE, options=DeliveryOptions(due_ms=due_ms)),
                    b"%d" % due_ms + padding,
                    None,
                )
            )
        engine.submit(c.Publish(peer, entries), RUN * BODY_BYTES)
        await engine.wait_idle()


def section(figures: dict[str, float], count: int, spread_s: float, place: machine.Machine) -> str:
    kept = figures["max_ms"] <= LATE_MS and figures["bytes"] <= INDEX_BYTES
    return "\n".join(
        [
            f"## Delayed messages, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            (
                f"- {count:,} persistent messages of {BODY_BYTES} bytes to one queue, due at random within "
                f"{spread_s:,.0f} s; broker, engine and journal in one process, without sockets."
            ),
            "",
            "| what | measured | promised |",
            "|---|---|---|",
            f"| memory for each pending message | {figures['bytes']:.0f} bytes | ≤ {INDEX_BYTES} bytes |",
            (
                f"| late, p50 / p99 / most | {figures['p50_ms']:.1f} / {figures['p99_ms']:.1f} / "
                f"{figures['max_ms']:.1f} ms | ≤ {LATE_MS} ms |"
            ),
            (
                f"| due and delivered | {figures['rate']:,.0f}/s, {figures['watched']:,.0f} in all, "
                f"one core {figures['busy']:.0%} busy | |"
            ),
            f"| filled at | {figures['fill_rate']:,.0f}/s | |",
            "",
            f"All kept: {'yes' if kept else '**no**'}.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.delays", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000_000, help="messages (2000000)")
    parser.add_argument(
        "--spread", type=float, default=3_600, help="seconds within which they are due (3600)"
    )
    parser.add_argument("--watch", type=float, default=20, help="seconds to watch (20)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    with workplace(arguments.work) as directory:
        figures = uvloop.run(measure(directory, arguments.count, arguments.spread, arguments.watch))
        text = section(figures, arguments.count, arguments.spread, machine.describe(directory))
    finish(text, arguments.json, dict(figures), arguments.append)
    return int(figures["max_ms"] > LATE_MS or figures["bytes"] > INDEX_BYTES)


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
