"""The runner of a job: batches of commands to the engine, at its rate, until it is done or stopped.

The intent of a batch is written before it is submitted, and its results before any later command is carried
out. So after a crash it is known how far the job was: a moved position never exists again, and a copy is
found at the target by its id.
"""

from __future__ import annotations

import asyncio
import contextlib
from array import array
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import FileIO
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from broker_app.base.refused import Refused
from broker_app.core.broker import Broker
from broker_app.core.durability.record_reader import Reader
from broker_app.core.inspection import views
from broker_app.core.message import Envelope, Message
from broker_app.core.storage.transfers import REFUSED
from broker_app.engine.client import EngineClient
from broker_app.features.jobs import message_reader
from broker_app.features.jobs.job import CANCELLED, DONE, FAILED, RUNNING, STOPPED, Job
from broker_app.features.jobs.message_reader import JournalRead
from broker_app.features.jobs.store import Store

BATCH = 256
BATCH_BYTES = 1024 * 1024
#: seconds of work in one batch of a job with a rate
PACE_S = 0.2
#: messages that are tried before the ratio of errors counts
MIN_TRIED = 20
#: how long a job waits for room in a full queue, and the interval of retries
MAX_FULL_S = 120.0
FULL_RETRY_S = 0.5
#: refusals of a broker that accepts nothing at present
NO_ROOM = ("queue-full", "store-full", "busy")
#: messages at the target that are searched for moves of a former process
MAX_SEARCHED = 100_000

_encode = msgspec.json.encode


class LineFormat(Protocol):
    """Messages as lines of JSON, written and read."""

    def write(self, message: Message, message_id: bytes) -> Iterator[bytes]:
        """The parts of one line, with its end."""

    def read(self, address: str, line: bytes) -> tuple[Envelope, bytes]:
        """Envelope and body of a message to `address`. Raises Refused."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """Shared by all jobs. `boot` differs from process to process, `now_ms` is the clock."""

    engine_requests: EngineClient
    read: JournalRead
    store: Store
    lines: LineFormat
    boot: str
    now_ms: Callable[[], int]

    @property
    def broker(self) -> Broker:
        return self.engine_requests.engine.broker


class UncertainMessage(NamedTuple):
    """A message that a former process may have moved without recording it: its number in the job, its id, its
    target, and the header lines to remove."""

    number: int
    id: str
    target: str
    lines: str = ""


class MovedMessage(NamedTuple):
    """An uncertain message that was moved, and its new position."""

    message: UncertainMessage
    position: int


class JobRunner:
    """One job in this process: each type of job implements `_run_batches`."""

    def __init__(self, job: Job, context: JobContext) -> None:
        self.job = job
        self.context = context
        self._ended = asyncio.Event()
        self._cancelled = False
        #: messages that a former process had moved without recording it, by number
        self._found: dict[int, MovedMessage] = {}
        self._results: FileIO
        self._due_s = self._full_since_s = 0.0

    async def _run_batches(self) -> None:
        """Process messages from `job.processed` on, while `_goes_on`."""
        raise NotImplementedError

    def _uncertain(self) -> Sequence[UncertainMessage]:
        """The messages behind `job.processed` that may have been moved."""
        return ()

    def stop(self, *, cancel: bool) -> None:
        """Stop after the present batch: for good, or to continue after the next start."""
        self._cancelled = self._cancelled or cancel
        self._ended.set()

    # ------------------------------------------------------------------ after a restart

    async def restore(self) -> None:
        """Find out how far an unfinished job was, when the node starts."""
        job = self.job
        job.processed, job.counts, self._found = 0, {}, {}
        newest = job.began_at
        for line in self.context.store.results(job.id):
            job.count(line["status"], line.get("count", 1))
            newest = max(newest, line.get("new_position", 0))
        uncertain: dict[str, dict[bytes, UncertainMessage]] = {}
        for message in self._uncertain():
            uncertain.setdefault(message.target, {})[message.id.encode()] = message
        for target, by_id in uncertain.items():
            async for message_id, position in self._arrived(target, by_id, newest):
                self._found[by_id[message_id].number] = MovedMessage(by_id[message_id], position)

    async def _arrived(
        self, address: str, ids: Container[bytes], after: int
    ) -> AsyncIterator[tuple[bytes, int]]:
        """(id, position) of messages of a queue behind `after` with one of these ids."""
        queue, read = self.context.broker.destinations.queues.get(address), self.context.read
        reader = Reader(address)
        if queue is None:
            return
        for position in array("Q", islice(views.outside(queue, after), MAX_SEARCHED)):
            async with read.turn((position,)):
                record = await read.repeat(partial(message_reader.record_of, read, position))
            explicit = reader.head(record, position).explicit_id if record is not None else None
            del record  # it may be large
            if explicit is not None and explicit in ids:
                yield explicit, position

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Run until it is done, cancelled, stopped by errors, or the node stops (which changes no state)."""
        job, store = self.job, self.context.store
        if job.state != RUNNING:
            job.state, job.started_ms = RUNNING, self.context.now_ms()
            job.began_at = self.context.broker.turn.next_position
            await asyncio.to_thread(store.save, job)
        with store.open_results(job.id) as self._results:
            try:
                await self._run_batches()
            except Refused as refusal:
                if refusal.code in ("not-active", "store-unavailable"):
                    return  # the node stopped; its next start continues the job
                self._end(FAILED, refusal.detail)
            except OSError as error:
                self._end(FAILED, f"its files cannot be used: {error.strerror}")
        if job.open and self._ended.is_set() and not self._cancelled:
            return
        if job.open:
            self._end(CANCELLED if self._cancelled else DONE)
        await asyncio.to_thread(store.save, job)

    def _end(self, state: str, reason: str = "") -> None:
        self.job.state, self.job.reason, self.job.ended_ms = state, reason, self.context.now_ms()

    def _goes_on(self) -> bool:
        """Wait until the next batch may begin; False if the job is to stop."""
        job = self.job
        refused = job.counts.get(REFUSED, 0)
        if job.processed >= MIN_TRIED and refused >= job.max_error_ratio * job.processed:
            self._end(STOPPED, f"{refused} of {job.processed} messages were refused")
        return job.open and not self._ended.is_set()

    async def _full(self, detail: str) -> bool:
        """Wait before a retry, as the target is full; False if it has waited long enough."""
        now_s = asyncio.get_running_loop().time()
        self._full_since_s = self._full_since_s or now_s
        self.job.reason = f"waiting: {detail}"
        await self._wait(FULL_RETRY_S)
        return now_s - self._full_since_s < MAX_FULL_S

    async def _wait(self, seconds: float) -> None:
        """Wait, or until the job is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _pace(self, count: int) -> None:
        """Wait as long as the rate requires after `count` messages."""
        rate = self.job.rate_per_s
        if not rate:
            return
        now_s = asyncio.get_running_loop().time()
        self._due_s = max(self._due_s, now_s) + count / rate
        await self._wait(self._due_s - now_s)

    def _at_once(self, most: int = BATCH) -> int:
        """The size of the next batch."""
        rate = self.job.rate_per_s
        return max(1, min(most, int(rate * PACE_S))) if rate else most

    def _note(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write results and count them. A line is for one message, or for `count` messages."""
        if lines:
            self.job.reason, self._full_since_s = "", 0.0
        self._results.write(b"".join(_encode(line) + b"\n" for line in lines))
        for line in lines:
            self.job.count(line["status"], line.get("count", 1))
