"""The worker of a job: batch by batch through the engine, at its rate, until it is done or stopped.

What a batch did is written to the results before anything that follows from it can happen, and what it is
about to do before it is asked for. So whatever kills the node, the next one knows how far the job was: a
position that was moved is gone for ever, and a copy is found by its id at the target.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from broker_app.core import views
from broker_app.core.broker import Broker
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope, Message
from broker_app.core.records import Reader
from broker_app.core.transfers import REFUSED
from broker_app.jobs import message_reader
from broker_app.jobs.engine_requests import EngineRequests
from broker_app.jobs.job import CANCELLED, DONE, FAILED, RUNNING, STOPPED, Job
from broker_app.jobs.message_reader import JournalRead
from broker_app.jobs.store import Store

BATCH = 256
BATCH_BYTES = 1024 * 1024
#: a paced job does so much of a second's work at once
BEAT_S = 0.2
#: so many messages are tried before the ratio of errors counts
TRIED_AT_LEAST = 20
#: how long a job waits for room in a full queue, and how often it tries
PATIENCE_S = 120.0
FULL_BEAT_S = 0.5
#: refusals of a broker that accepts nothing at present
NO_ROOM = ("queue-full", "store-full", "busy")
#: messages at the target that are looked at to find what a killed node had done
MAX_SEARCHED = 100_000

_encode = msgspec.json.encode


class Lines(Protocol):
    """Messages as lines of JSON, written and read."""

    def write(self, message: Message, message_id: bytes) -> bytes:
        """One line, without its end."""

    def read(self, address: str, line: bytes) -> tuple[Envelope, bytes]:
        """Envelope and body of a message to `address`. Raises Refused."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Shared by all jobs. `boot` differs from process to process, `now_ms` is the clock."""

    errands: EngineRequests
    read: JournalRead
    store: Store
    lines: Lines
    boot: str
    now_ms: Callable[[], int]

    @property
    def broker(self) -> Broker:
        return self.errands.engine.broker


class Sought(NamedTuple):
    """A message that a killed node may have moved without writing it down: its number in the job, its id,
    where it was to go, and the header lines that it was to lose."""

    number: int
    id: str
    target: str
    lines: str = ""


class Found(NamedTuple):
    """One that it had moved, and its new position."""

    sought: Sought
    position: int


class Work:
    """One job in this process: what all kinds of work share. Each kind has its `_deed`."""

    def __init__(self, job: Job, tools: Tools) -> None:
        self.job = job
        self.tools = tools
        self._ended = asyncio.Event()
        self._cancelled = False
        #: what a killed node had moved without writing it down, by number
        self._found: dict[int, Found] = {}
        self._results: FileIO
        self._due_s = self._full_since_s = 0.0

    async def _deed(self) -> None:
        """Work from `job.processed` on, for as long as it `_goes_on`."""
        raise NotImplementedError

    def _in_question(self) -> Sequence[Sought]:
        """The messages that may have been moved beyond `job.processed`."""
        return ()

    def stop(self, *, cancel: bool) -> None:
        """End after the batch under way: for good, or to go on after the next start."""
        self._cancelled = self._cancelled or cancel
        self._ended.set()

    # ------------------------------------------------------------------ coming back

    def recall(self) -> None:
        """After a start of the node, before it serves: find out how far a job that had not ended was."""
        job = self.job
        job.processed, job.counts = 0, {}
        newest = job.began_at
        for line in self.tools.store.results(job.id):
            job.count(line["status"], line.get("count", 1))
            newest = max(newest, line.get("new_position", 0))
        wanted: dict[str, dict[bytes, Sought]] = {}
        for sought in self._in_question():
            wanted.setdefault(sought.target, {})[sought.id.encode()] = sought
        for target, by_id in wanted.items():
            for message_id, position in self._at_target(target, by_id, newest):
                self._found[by_id[message_id].number] = Found(by_id[message_id], position)

    def _at_target(self, address: str, wanted: Container[bytes], after: int) -> Iterator[tuple[bytes, int]]:
        """(id, position) of messages that came to a queue behind `after` with one of these ids."""
        queue = self.tools.broker.destinations.queues.get(address)
        reader = Reader(address)
        if queue is None:
            return
        for position in islice(views.outside(queue, after), MAX_SEARCHED):
            record = message_reader.record_of(self.tools.read, position)
            explicit = reader.message(record, position).explicit_id if record is not None else None
            if explicit is not None and explicit in wanted:
                yield explicit, position

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Work until it is done, cancelled, stopped by errors, or the node ends (which changes no state)."""
        job, store = self.job, self.tools.store
        if job.state != RUNNING:
            job.state, job.started_ms = RUNNING, self.tools.now_ms()
            job.began_at = self.tools.broker.turn.next_position
            await asyncio.to_thread(store.save, job)
        with store.open_results(job.id) as self._results:
            try:
                await self._deed()
            except Refused as refusal:
                if refusal.code in ("not-active", "store-unavailable"):
                    return  # the node ended; the next one goes on
                self._end(FAILED, refusal.detail)
            except OSError as error:
                self._end(FAILED, f"its files cannot be used: {error.strerror}")
        if job.open and self._ended.is_set() and not self._cancelled:
            return
        if job.open:
            self._end(CANCELLED if self._cancelled else DONE)
        await asyncio.to_thread(store.save, job)

    def _end(self, state: str, reason: str = "") -> None:
        self.job.state, self.job.reason, self.job.ended_ms = state, reason, self.tools.now_ms()

    def _goes_on(self) -> bool:
        """Wait until the next batch may begin; False if the job is to stop."""
        job = self.job
        refused = job.counts.get(REFUSED, 0)
        if job.processed >= TRIED_AT_LEAST and refused >= job.max_error_ratio * job.processed:
            self._end(STOPPED, f"{refused} of {job.processed} messages were refused")
        return job.open and not self._ended.is_set()

    async def _full(self, detail: str) -> bool:
        """Nothing came in: wait a little before it is tried again; False when it has waited long enough."""
        now_s = asyncio.get_running_loop().time()
        self._full_since_s = self._full_since_s or now_s
        self.job.reason = f"waiting: {detail}"
        await self._wait(FULL_BEAT_S)
        return now_s - self._full_since_s < PATIENCE_S

    async def _wait(self, seconds: float) -> None:
        """Wait, unless it should stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _pace(self, count: int) -> None:
        """Wait as long as the rate asks for after `count` messages."""
        rate = self.job.rate_per_s
        if not rate:
            return
        now_s = asyncio.get_running_loop().time()
        self._due_s = max(self._due_s, now_s) + count / rate
        await self._wait(self._due_s - now_s)

    def _at_once(self, most: int = BATCH) -> int:
        """Messages of the next batch."""
        rate = self.job.rate_per_s
        return max(1, min(most, int(rate * BEAT_S))) if rate else most

    def _note(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write results, and count them. A line stands for one message, or for as many as its `count`."""
        if lines:
            self.job.reason, self._full_since_s = "", 0.0
        self._results.write(b"".join(_encode(line) + b"\n" for line in lines))
        for line in lines:
            self.job.count(line["status"], line.get("count", 1))
