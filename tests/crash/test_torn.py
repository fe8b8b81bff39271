"""Promises against the disk: the journal cut at every byte of its last batch, every system call failing once.

A small broker with a file journal runs one script of publishing, receiving and settling. Receipts that
came are promises; after the accident a new broker on the same files must keep them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.engine import Engine
from broker_app.journal.errors import JournalFailed
from broker_app.journal.files import Files
from broker_app.journal.log.segments import SegmentJournal
from tests.support.listener import Listener
from tests.support.samples import sample

SEGMENT_BYTES = 4096
ROUNDS = 12
QUEUE = Envelope("/queue/a", b"n:1\n")
# The calls that change something. Reads fail elsewhere (tests/journal).
CHANGING = ("pwritev", "fdatasync", "fsync", "posix_fallocate", "ftruncate", "rename", "open")


class FailsOnce:
    """`os`, with the n-th changing call failing."""

    def __init__(self, fails: int | None = None) -> None:
        self.calls = 0
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self._fails:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        return call


@dataclass
class Promises:
    """The replies to the clients of one run."""

    published: list[bytes] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    #: acknowledgements that were sent, and those that were confirmed: between the two anything may be true
    settling: set[bytes] = field(default_factory=set)
    settled: set[bytes] = field(default_factory=set)


def journal_in(directory: Path, system: Any = os) -> SegmentJournal:
    return SegmentJournal(directory, segment_bytes=SEGMENT_BYTES, files=Files(directory, system))


async def run_script(journal: SegmentJournal, promises: Promises) -> Engine:
    """Publish, receive and settle for some rounds, or until the engine ends."""
    engine = Engine(Broker(limits=Limits(window=8)), journal, snapshot_bytes=3000)
    engine.recover()
    producer, consumer = Listener(), Listener()
    engine.submit(c.Subscribe(consumer.peer, "1", "/queue/a", c.INDIVIDUAL, credit=5))
    for round_ in range(ROUNDS):
        bodies = [b"%d.%d." % (round_, n) + b"x" * 40 for n in range(5)]
        engine.submit(c.Publish(producer.peer, [(QUEUE, body, body) for body in bodies]))
        await moment(engine)
        promises.published += producer.take_receipts()
        tags = dict(zip(consumer.tags, consumer.bodies, strict=True))
        promises.seen += consumer.bodies
        consumer.tags, consumer.bodies = [], []
        for tag in list(tags)[:3]:
            promises.settling.add(tags[tag])
            engine.submit(c.Settle(consumer.peer, [tag], receipt=tags[tag]))
        await moment(engine)
        promises.settled.update(consumer.take_receipts())
    return engine


async def moment(engine: Engine) -> None:
    """Everything happens in this thread here, so a few turns of the loop are enough."""
    for _ in range(8):
        await asyncio.sleep(0)


async def what_is_left(directory: Path) -> tuple[list[bytes], set[bytes]]:
    """Bodies as a new broker on these files hands them out, and those marked as perhaps repeated."""
    journal = journal_in(directory)
    engine = Engine(Broker(limits=Limits(window=8)), journal)
    engine.recover()
    listener = Listener()
    engine.submit(c.Subscribe(listener.peer, "1", "/queue/a", c.INDIVIDUAL, credit=1000))
    await engine.wait_idle()
    repeats = {message.body for _, message in listener.peer.unsettled.values() if message.attempts}
    journal.close()
    return listener.bodies, repeats


def check(promises: Promises, left: list[bytes], repeats: set[bytes]) -> None:
    """`left` keeps every promise."""
    missing = [body for body in promises.published if body not in promises.settling and body not in left]
    assert not missing, f"promised and gone: {missing[:3]}"
    assert not promises.settled.intersection(left), "settled, confirmed and back"
    assert left == sorted(left, key=order), "the order has changed"
    assert len(left) == len(set(left))
    unmarked = [body for body in left if body in promises.seen and body not in repeats]
    assert not unmarked, f"seen before and not marked: {unmarked[:3]}"


def order(body: bytes) -> tuple[int, int]:
    round_, number, _ = body.split(b".")
    return int(round_), int(number)


@pytest.mark.slow
async def test_the_last_batch_may_be_cut_at_any_byte(tmp_path: Path) -> None:
    journal = journal_in(tmp_path / "journal")
    before_last = Promises()
    engine = await run_script(journal, before_last)
    await engine.wait_idle()
    start = journal.statistics()["bytes_stored"]
    files = {path: path.read_bytes() for path in (tmp_path / "journal").glob("log-*.seg")}
    producer = Listener()
    engine.submit(c.Publish(producer.peer, [(QUEUE, b"99.%d.last" % n, b"r") for n in range(3)]))
    await engine.wait_idle()
    assert journal.statistics()["bytes_stored"] > start
    journal.close()
    changed = [path for path, content in files.items() if path.exists() and path.read_bytes() != content]
    assert len(changed) == 1
    whole = changed[0].read_bytes()
    first = next(at for at, byte in enumerate(whole) if byte != files[changed[0]][at])
    last = max(at for at, byte in enumerate(whole) if byte != files[changed[0]][at])
    places = range(first, last + 1)
    for cut in sample(places, len(places) // 3):
        copy = tmp_path / "cut"
        shutil.copytree(tmp_path / "journal", copy)
        (copy / changed[0].name).write_bytes(whole[:cut] + files[changed[0]][cut:])
        left, repeats = await what_is_left(copy)
        assert not [body for body in left if body.startswith(b"99.")], "part of a batch came back"
        check(before_last, left, repeats)
        shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_any_write_may_fail_once(tmp_path: Path) -> None:
    counting = FailsOnce()
    journal = journal_in(tmp_path / "count", counting)
    await run_script(journal, Promises())
    journal.close()
    ended = 0
    reasons: list[str] = []
    calls = range(1, counting.calls + 1)
    for number in sample(calls, len(calls) // 3):
        directory = tmp_path / f"fail{number}"
        journal = journal_in(directory, FailsOnce(number))
        promises = Promises()
        try:
            engine = await run_script(journal, promises)
            ended += engine.ended is not None
            journal.close()
        except JournalFailed as error:  # it did not even start
            reasons.append(str(error))
            journal.close()
        left, repeats = await what_is_left(directory)
        check(promises, left, repeats)
        shutil.rmtree(directory)
    assert all("No space left on device" in reason for reason in reasons)
    assert ended > 5, "the failures did not reach the commits"
