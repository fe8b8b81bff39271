"""One unconsumed message among millions that were acknowledged: what stays on the disk, and who has to wait.

An engine and its journal run in this process. Producers send to a queue and a consumer acknowledges, as fast
as the loop allows, while one message waits in another queue, and `--backlog` further ones in a third. A
timer of the loop measures how long nothing else could happen; each batch's commit is timed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from benchmarks import machine
from benchmarks.bench import add_output_options, finish, progress, run_or_explain, workplace
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.journal.log.segments import SegmentJournal

MIB = 1024 * 1024
BODY = b"x" * 100
BATCH = 64  # messages in one run of a producer, and acknowledgements in one run of a consumer
PRODUCERS = 8
PAUSE_LIMIT_MS = 50
DISK_LIMIT_MIB = 64
SETTLE_S = 60


class Producer(InnerReceiver):
    """Sends `count` messages, the next run when the former is confirmed."""

    def __init__(self, engine: Engine, address: str, count: int) -> None:
        self.peer = Peer(self)
        self._engine = engine
        self._envelope = Envelope(address)
        self.left = count
        self.done = asyncio.get_running_loop().create_future()

    def publish(self) -> None:
        if not self.left:
            self.done.set_result(None)
            return
        run = min(BATCH, self.left)
        self.left -= run
        entries = [(self._envelope, BODY, None)] * (run - 1) + [(self._envelope, BODY, 1)]
        self._engine.submit(c.Publish(self.peer, entries), run * len(BODY))

    def flush(self, peer: Peer) -> None:
        assert not peer.refusals, peer.refusals
        confirmed = bool(peer.receipts)
        peer.receipts.clear()
        if confirmed:
            self.publish()


class Consumer(InnerReceiver):
    """Acknowledges what it gets; `done` after `count` messages."""

    def __init__(self, engine: Engine, address: str, count: int) -> None:
        self.peer = Peer(self)
        self._engine = engine
        self._count = count
        self.done = asyncio.get_running_loop().create_future()
        engine.submit(c.Subscribe(self.peer, "1", address, c.INDIVIDUAL, credit=16 * BATCH))

    def flush(self, peer: Peer) -> None:
        tags = [tag for _, tag, _ in peer.deliveries]
        peer.deliveries.clear()
        if tags:
            self._engine.submit(c.Settle(peer, tags))
            self._count -= len(tags)
            if not self._count:
                self.done.set_result(None)


@dataclass
class Pauses:
    """The delays of a 1 ms timer of the loop, in ms, the longest first."""

    late: array[float] = field(default_factory=lambda: array("d"))

    async def watch(self) -> None:
        while True:
            since = time.perf_counter()
            await asyncio.sleep(0.001)
            self.late.append(1e3 * (time.perf_counter() - since) - 1)

    def longest(self) -> float:
        return max(self.late, default=0.0)

    def share_above(self, limit_ms: float) -> float:
        """Percent of the time in pauses longer than this."""
        return 100 * sum(late for late in self.late if late > limit_ms) / sum(1 + late for late in self.late)


class TimedJournal(SegmentJournal):
    """A journal that notes how long each commit takes, in ms."""

    commit_ms: array[float] = array("d")

    def commit(self, batch, done):  # type: ignore[no-untyped-def]
        since = time.perf_counter()

        def timed(error: BaseException | None) -> None:
            self.commit_ms.append(1e3 * (time.perf_counter() - since))
            done(error)

        super().commit(batch, timed)


@dataclass(frozen=True, slots=True)
class Outcome:
    count: int
    backlog: int
    rate: float
    longest_pause_ms: float
    pauses_over_10_ms: int
    commit_p50_ms: float
    commit_p99_ms: float
    commit_longest_ms: float
    snapshots: int
    segments_copied: int
    bytes_written: int
    peak_bytes: int
    settled_bytes: int
    settle_s: float

    def kept(self) -> bool:
        disk = self.settled_bytes < DISK_LIMIT_MIB * MIB or self.backlog > 0
        return disk and self.longest_pause_ms < PAUSE_LIMIT_MS


def disk_bytes(directory: Path) -> int:
    """The disk usage as of `du`; a file that is deleted meanwhile counts nothing."""
    total = 0
    for path in directory.iterdir():
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


async def measure(
    directory: Path, count: int, backlog: int, segment_bytes: int, enough_bytes: int = 0
) -> Outcome:
    """Publish and acknowledge `count` messages next to one that waits; then let the journal come to rest, or
    to fewer than `enough_bytes`."""
    loop = asyncio.get_running_loop()
    journal = TimedJournal(
        directory, segment_bytes=segment_bytes, call_soon_threadsafe=loop.call_soon_threadsafe
    )
    engine = Engine(Broker(), journal)
    engine.recover()
    await _publish(engine, "/queue/old", 1)
    await _publish(engine, "/queue/deep", backlog)
    gc.collect()
    gc.freeze()
    journal.commit_ms = array("d")
    before = journal.statistics()
    pauses, peak = Pauses(), 0
    watching = asyncio.create_task(pauses.watch())
    begun = time.perf_counter()
    shares = [count // PRODUCERS + (number < count % PRODUCERS) for number in range(PRODUCERS)]
    producers = [Producer(engine, "/queue/busy", share) for share in shares]
    consumer = Consumer(engine, "/queue/busy", count)
    for producer in producers:
        producer.publish()
    while not consumer.done.done():
        await asyncio.wait([consumer.done], timeout=0.5)
        peak = max(peak, await loop.run_in_executor(None, disk_bytes, directory))
    took = time.perf_counter() - begun
    progress(f"{count / took:,.0f}/s, {peak / MIB:,.0f} MiB at most; waiting for the space to come back")
    settled, settle_s = await _settle(directory, enough_bytes)
    watching.cancel()
    after = journal.statistics()
    commits = sorted(journal.commit_ms)
    await engine.stop()
    journal.close()
    return Outcome(
        count=count,
        backlog=backlog,
        rate=count / took,
        longest_pause_ms=pauses.longest(),
        pauses_over_10_ms=sum(late > 10 for late in pauses.late),
        commit_p50_ms=commits[len(commits) // 2],
        commit_p99_ms=commits[int(len(commits) * 0.99)],
        commit_longest_ms=commits[-1],
        snapshots=after["snapshots"] - before["snapshots"],
        segments_copied=after["segments_copied"] - before["segments_copied"],
        bytes_written=after["bytes_written"] - before["bytes_written"],
        peak_bytes=peak,
        settled_bytes=settled,
        settle_s=settle_s,
    )


async def _publish(engine: Engine, address: str, count: int) -> None:
    if count:
        producer = Producer(engine, address, count)
        producer.publish()
        await producer.done


async def _settle(directory: Path, enough_bytes: int) -> tuple[int, float]:
    """Bytes on disk once they are fewer than `enough_bytes` or have not changed for twelve seconds, and the
    seconds until that was so."""
    begun = changed = time.perf_counter()
    size = disk_bytes(directory)
    while (now := time.perf_counter()) - changed < 12 and now - begun < SETTLE_S and size >= enough_bytes:
        await asyncio.sleep(0.25)
        if (found := disk_bytes(directory)) != size:
            size, changed = found, time.perf_counter()
    return size, changed - begun


def _section(outcomes: Sequence[Outcome], place: machine.Machine, segment_bytes: int) -> str:
    rows = [
        f"| {o.count:,} and 1, {o.backlog:,} waiting | {o.rate:,.0f} | {o.longest_pause_ms:.0f} |"
        f" {o.pauses_over_10_ms} |"
        f" {o.commit_p50_ms:.1f} / {o.commit_p99_ms:.1f} / {o.commit_longest_ms:.0f} |"
        f" {o.snapshots} / {o.segments_copied} | {o.bytes_written / MIB:,.0f} | {o.peak_bytes / MIB:,.0f} |"
        f" {o.settled_bytes / MIB:,.1f} after {o.settle_s:.0f} s | {'pass' if o.kept() else '**miss**'} |"
        for o in outcomes
    ]
    size = f"segments of {segment_bytes // MIB} MiB"
    promise = f"below {DISK_LIMIT_MIB} MiB on disk afterwards, unless more waits"
    promise += f"; no pause of the loop above {PAUSE_LIMIT_MS} ms"
    head = "| messages | /s | longest pause ms | pauses > 10 ms | commit ms p50 / p99 / longest |"
    head += " snapshots / segments copied | MiB written | MiB on disk, most | MiB on disk afterwards | |"
    return "\n".join(
        [
            f"## Compaction, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"- Machine: {place.line()}",
            f"- Engine and journal in one process, {size}, 100-byte messages; one is never consumed.",
            f"- Promised: {promise}.",
            "",
            head,
            "|---" * 10 + "|",
            *rows,
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compaction", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000_000, help="messages acknowledged (5000000)")
    parser.add_argument("--backlog", type=int, default=0, help="messages that wait meanwhile (0)")
    parser.add_argument("--segment-mib", type=int, default=16, help="size of a segment (16)")
    add_output_options(parser)
    arguments = parser.parse_args(argv)
    segment_bytes = arguments.segment_mib * MIB
    sys.setswitchinterval(0.0005)
    with workplace(arguments.work) as directory:
        place = machine.describe(directory)
        outcome = uvloop.run(
            measure(directory / "journal", arguments.count, arguments.backlog, segment_bytes)
        )
    section = _section([outcome], place, segment_bytes)
    finish(section, arguments.json, {"section": section}, arguments.append)
    return int(not outcome.kept())


if __name__ == "__main__":
    sys.exit(run_or_explain(main))
