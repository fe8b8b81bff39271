"""The speed of the journal alone: commits and records a second, synced inline and in the thread.

    python benchmarks/journal.py [--directory DIR] [--seconds 1.0]

Each row commits batches of N records one after the other, as the engine does: the next one when the
former is durable. "loop free" is the share of time in which the event loop could have done other work.
"""

import argparse
import asyncio
import tempfile
import time
from array import array
from pathlib import Path

from broker_app.core.outcome import Outcome
from broker_app.journal import codec
from broker_app.journal.log.segments import SegmentJournal

SIZES = (100, 1024)
BATCHES = (1, 8, 64, 256, 1024)


def next_batch(first: int, record: bytes, count: int) -> Outcome:
    """`count` PUBLISHED records, each in three parts as the core makes them; the batch before is freed."""
    batch = Outcome(first, time.time_ns() // 1000)
    batch.destinations = ["/queue/bench"]
    batch.parts = [record[:32], record[32:90], record[90:]] * count
    batch.count = count
    batch.published = list(range(first, first + count))
    batch.freed = list(range(max(1, first - count), first))
    return batch


async def commit_for(
    seconds: float, directory: Path, record: bytes, count: int, inline_sync_bytes: int
) -> tuple[int, float, list[float]]:
    """Commits done, seconds in which the loop was busy, and the time of each commit (s)."""
    loop = asyncio.get_running_loop()
    journal = SegmentJournal(
        directory, inline_sync_bytes=inline_sync_bytes, call_soon_threadsafe=loop.call_soon_threadsafe
    )
    position = journal.open().next_position
    journal.set_live_positions([])
    times: list[float] = []
    busy = 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        batch = next_batch(position, record, count)
        durable: asyncio.Future[None] = loop.create_future()

        def done(error: BaseException | None, durable: asyncio.Future[None] = durable) -> None:
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        begun = time.perf_counter()
        journal.commit(batch, done)
        busy += time.perf_counter() - begun
        await durable
        times.append(time.perf_counter() - begun)
        position += count
    journal.close()
    return len(times), busy, times


def read_back(directory: Path, record: bytes, count: int, total: int) -> float:
    """Records a second, read in runs of 256 in order from a log of `total` records."""
    journal = SegmentJournal(directory, inline_sync_bytes=1 << 40)
    position = journal.open().next_position
    journal.set_live_positions([])
    for first in range(position, position + total, count):
        batch = next_batch(first, record, count)
        batch.freed = []
        journal.commit(batch, lambda error: None)
    wanted = array("Q", range(1, total + 1))
    started = time.perf_counter()
    for at in range(0, total, 256):
        journal.read(wanted[at : at + 256], lambda found, error: None)
    rate = total / (time.perf_counter() - started)
    journal.close()
    return rate


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--directory", type=Path, help="where to write (default: a temporary directory)")
    options.add_argument("--seconds", type=float, default=1.0, help="for each row")
    chosen = options.parse_args()
    print("record  batch    sync     commits/s   records/s   p50 ms   p99 ms  loop free")
    for size in SIZES:
        record = codec.encode_record(codec.PUBLISHED, bytes(size))
        for count in BATCHES:
            for name, threshold in (("inline", 1 << 40), ("thread", 0)):
                with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
                    commits, busy, times = asyncio.run(
                        commit_for(chosen.seconds, Path(directory), record, count, threshold)
                    )
                times.sort()
                p50, p99 = times[len(times) // 2] * 1e3, times[int(len(times) * 0.99)] * 1e3
                rate = commits / sum(times)
                free = 1 - busy / sum(times)
                print(f"{size:6} {count:6}   {name} {rate:12.0f} {rate * count:11.0f}", end="")
                print(f" {p50:8.2f} {p99:8.2f} {free:9.0%}")
        for count in (1, 256):
            total = 100_000 if count > 1 else 5_000
            with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
                rate = read_back(Path(directory), record, count, total)
            print(f"{size:6} {count:6}   read back   {rate:12.0f} records/s")


if __name__ == "__main__":
    main()
