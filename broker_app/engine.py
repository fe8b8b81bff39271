"""The engine: the one task that moves messages. Inbox → decide → commit → act, one batch at a time.

While a batch is being written the next one gathers in the inbox, so one fsync serves all who waited.
Receipts and deliveries leave after the commit, never before. A failed commit ends the engine: memory
is then ahead of the journal, and the only honest continuation is a restart and a replay. So does an error in
the middle of a change, after which memory cannot be trusted. All other errors are contained: one before the
change costs the client its connection, and one at the letting out as well (`internal_errors`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from broker_app.broker_recovery import rebuild
from broker_app.busy_poll import BusyPoll
from broker_app.core.broker import Broker
from broker_app.core.commands import ClockStepped, Command, Disconnect, Loaded, StoreSpace
from broker_app.core.errors import Refused, internal
from broker_app.core.message import DEFAULT_PRIORITY
from broker_app.core.model import Fanout, Peer
from broker_app.core.outcome import Event, Fetch, Outcome
from broker_app.core.records import damaged as damaged_record
from broker_app.core.recovery import live_positions
from broker_app.core.snapshot import SnapshotBuilder, take_snapshot
from broker_app.internal_errors import EventListeners, internal_errors
from broker_app.journal.errors import Busy
from broker_app.journal.port import Batch, Damaged, Journal

log = logging.getLogger(__name__)

MIB = 1024 * 1024
#: how long messages wait to be read when their file cannot be read, seconds
BUSY_S = 0.1
#: how long records that nobody waits for (plain acknowledgements) may stay in memory, to share a commit
HOLD_S = 0.005
#: a difference of so many seconds between the clock and the steady one, from one turn to the next, is a step
STEP_S = 1.0
#: so many bytes may come before the journal is asked again for the room it has, and a turn counts as so many
UNASKED_BYTES, TURN_BYTES = 256 * 1024, 1024


class Waiting(Protocol):
    """A source of commands that was asked to wait because the inbox was full."""

    def relieved(self) -> None: ...


class Relief:
    """Lets tasks wait while the engine has as much to do as it takes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._event: asyncio.Event | None = None

    async def wait(self) -> None:
        while self._engine.full and self._engine.ended is None:
            if self._event is None:
                self._event = asyncio.Event()
                self._engine.tell_when_relieved(self)
            await self._event.wait()

    def relieved(self) -> None:
        """There is room again, or there will never be any."""
        event, self._event = self._event, None
        if event is not None:
            event.set()


def now_us() -> int:
    return time.time_ns() // 1000


class Engine:
    """Owns the broker's state and the commit in flight.

    Commands are handed in by `submit` from the event loop's thread. `inbox_bytes` is a bound that
    sessions keep by asking `full` after each submit and waiting for `relieved` when it says so.
    """

    def __init__(
        self,
        broker: Broker,
        journal: Journal,
        *,
        clock: Callable[[], int] = now_us,
        steady: Callable[[], float] = time.monotonic,
        inbox_bytes: int = 8 * MIB,
        snapshot_bytes: int = 64 * MIB,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.broker = broker
        #: hear what happened, each batch's facts together
        self.listeners: EventListeners[[list[Event]]] = EventListeners("the engine's listeners")
        self._journal = journal
        self._clock = clock
        self._steady = steady
        #: by how many seconds the clock is ahead of the steady one, which nobody can set
        self._ahead_s = clock() / 1_000_000 - steady()
        #: hear of the clock being set: by how many seconds forward
        self.clock_listeners: EventListeners[[float]] = EventListeners("the clock's listeners")
        self._loop = asyncio.get_running_loop()
        self._attention = BusyPoll(self._loop)
        self._failed = failed
        self._inbox: list[Command] = []
        self._inbox_bytes = 0
        self._inbox_limit = inbox_bytes
        self._waiting: list[Waiting] = []
        self._scheduled = False
        self._committing = False
        self._ended: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._idle: list[asyncio.Future[None]] = []
        #: decided and not committed, because nobody waits for it; the next batch takes it along
        self._held: Outcome | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._snapshot_every = snapshot_bytes
        self._since_snapshot = 0
        self._snapshot_due = snapshot_bytes
        self._snapshot_running = False
        #: bytes that may still be stored by decision of the administrator, None where there is no such bound
        self.store_left: int | None = None
        #: beyond so much space nobody has to look at it: more than one turn can take
        self._plenty = 4 * inbox_bytes + broker.turn.limits.blocked_bytes
        self._scarce = False
        self._unasked = 0
        #: a snapshot that contains what is not committed yet
        self._early: SnapshotBuilder | None = None

    # ------------------------------------------------------------------ start

    def recover(self) -> list[str]:
        """Open the journal and rebuild the broker from it. Returns lines for the log."""
        opened = rebuild(self.broker, self._journal)
        self._journal.retain(live_positions(self.broker))
        return opened.report

    # ------------------------------------------------------------------ commands

    def submit(self, command: Command, size: int = 0) -> None:
        """Take a command; `size` is about how many bytes it holds in memory."""
        self._inbox.append(command)
        self._inbox_bytes += size
        if self._attention.awake:
            self._attention.came()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    @property
    def full(self) -> bool:
        return self._inbox_bytes > self._inbox_limit

    def tell_when_relieved(self, source: Waiting) -> None:
        self._waiting.append(source)

    @property
    def ended(self) -> BaseException | None:
        """Why no command is carried out any more, None while all is well."""
        return self._ended

    async def wait_idle(self) -> None:
        """Wait until everything submitted so far is decided, committed and let out, or never will be."""
        if self._held is not None and not self._committing:
            self._commit_held()
        if self._busy:
            future = self._loop.create_future()
            self._idle.append(future)
            await future

    @property
    def _busy(self) -> bool:
        return self._ended is None and bool(
            self._inbox or self._committing or self._held is not None or self._snapshot_running
        )

    # ------------------------------------------------------------------ the turn

    def _turn(self) -> None:
        self._scheduled = False
        if self._committing or self._ended is not None:
            return
        try:
            self._decide()
        except Exception as error:  # a bug: what is in memory cannot be trusted any more
            self._end(error)

    def _decide(self) -> None:
        run, self._inbox = self._inbox, []
        size, self._inbox_bytes = self._inbox_bytes, 0
        self._unasked -= size + TURN_BYTES
        if self._scarce or self._unasked < 0:
            run = self._with_room(run, size)
        now_us = self._clock()
        step_s = now_us / 1_000_000 - self._steady() - self._ahead_s
        self._ahead_s += step_s
        if not -STEP_S < step_s < STEP_S:
            run = self._after_step(run, step_s)
        outcome = self.broker.decide(run, now_us, self._held)
        if not outcome.count:
            self._act(outcome)
            self._see_to_snapshot()
        elif outcome.quiet:
            self._hold(outcome)
        else:
            self._commit(outcome)

    def _after_step(self, run: list[Command], step_s: float) -> list[Command]:
        """The run, after what is to be known of the clock, which was set."""
        log.warning(
            "the clock was set %s by %.0f s: waits, leases and idle times go on as they were, expiry and "
            "delays follow the clock",
            "forward" if step_s > 0 else "back",
            abs(step_s),
        )
        if self._timer is not None:  # its time is one of the former clock
            self._timer.cancel()
            self._timer = None
        self.clock_listeners(step_s)
        return [ClockStepped(round(1000 * step_s)), *run]

    def _with_room(self, run: list[Command], size: int) -> list[Command]:
        """The run, after what is to be known of the space for it."""
        room, was_scarce = self._room(), self._scarce
        self._scarce = room < self._plenty
        self._unasked = UNASKED_BYTES
        if not (self._scarce or was_scarce):
            return run
        # Records are longer than what is known of their messages here.
        return [StoreSpace(max(0, room - 2 * size) if self._scarce else None), *run]

    def _room(self) -> int:
        """Bytes of messages that may still be stored."""
        room = self._journal.room()
        return room if self.store_left is None else max(0, min(room, self.store_left))

    def _hold(self, outcome: Outcome) -> None:
        self._held = outcome
        if self._hold_timer is None:
            self._hold_timer = self._loop.call_later(HOLD_S, self._hold_ends)
        self._act(outcome)

    def _hold_ends(self) -> None:
        self._hold_timer = None
        if not self._committing and self._ended is None:
            self._commit_held()

    def _commit_held(self) -> None:
        if self._held is not None:
            self._commit(self._held)

    def _commit(self, outcome: Outcome) -> None:
        self._committing = True
        self._held = None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        written = sum(map(len, outcome.parts))
        self._since_snapshot += written
        if self.store_left is not None:
            self.store_left -= written
        self._journal.commit(_batch(outcome), partial(self._committed, outcome))

    def _committed(self, outcome: Outcome, error: BaseException | None) -> None:
        self._committing = False
        if error is not None:
            self._end(error)
            return
        try:
            self._act(outcome)
        except Exception as failure:  # a bug, or a journal that cannot be read
            self._end(failure)
            return
        self._see_to_snapshot()

    def _see_to_snapshot(self) -> None:
        """All that was decided is committed: begin a snapshot if one is due, or write the one that waited."""
        if self._early is not None:
            self._write_snapshot(self._early)
        due = self._since_snapshot >= self._snapshot_due or self._journal.wants_snapshot
        if due and not self._snapshot_running:
            self.snapshot()

    def _act(self, outcome: Outcome) -> None:
        """Let out what was decided, then see to the next turn. What fails at one client costs nobody else
        anything: all is decided and committed."""
        for peer in outcome.touched:
            peer.touched = False
            try:
                peer.receiver.flush(peer)
            except Exception as error:
                self._give_up(peer, error)
        for fanout in outcome.fanouts:
            self._fan_out(fanout)
        for peer, refusal in outcome.closes:
            try:
                peer.receiver.close(refusal)
            except Exception as error:
                self._give_up(peer, error)
        for peer, on in outcome.throttles:
            try:
                peer.receiver.throttle(on)
            except Exception as error:
                self._give_up(peer, error)
        if outcome.failures:
            for failure in outcome.failures:
                internal_errors.note("a command", failure.error, _who(failure.peer))
        for fetch in outcome.fetches:
            self._load(fetch)
        events = outcome.take_events()
        if events:
            self.listeners(events)
        if self._waiting:
            self._relieve()
        if self._inbox:
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._turn)
        elif self._idle:
            self._settle_idle()
        elif outcome.touched:
            self._attention.stay()
        self._set_timer()

    def _load(self, fetch: Fetch) -> None:
        """Read back what the broker asked for."""
        try:
            found = self._journal.read(fetch.positions)
        except Busy as error:
            log.warning("messages of %s are read %g s later: %s", fetch.address, BUSY_S, error)
            self._loop.call_later(BUSY_S, self._load_again, fetch)
            return
        damaged = [record for record in found if isinstance(record, Damaged)]
        for record in damaged:
            log.error("position %d of %s is given up: %s", record.position, fetch.address, record.why)
        records = [_or_damage(record, fetch.priority) for record in found]
        self.submit(Loaded(*fetch, records, {record.position for record in damaged}))

    def _load_again(self, fetch: Fetch) -> None:
        if self._ended is not None:
            return
        try:
            self._load(fetch)
        except Exception as error:  # a bug: what is in memory cannot be trusted any more
            self._end(error)

    def read(self, positions: Sequence[int]) -> list[bytes]:
        """PUBLISHED records, to be looked at only; of a damaged one, a record that says so. Raises Refused
        while files cannot be read."""
        try:
            found = self._journal.read(positions)
        except Busy as error:
            raise Refused("busy", "the broker cannot read its files now; try again in a moment") from error
        return [_or_damage(record, DEFAULT_PRIORITY) for record in found]

    def _fan_out(self, fanout: Fanout) -> None:
        sample = fanout.members[0]
        try:
            data = sample.peer.receiver.render(sample, fanout.messages)
        except Exception as error:  # all of them would miss these messages
            for subscription in fanout.members:
                self._give_up(subscription.peer, error)
            return
        for subscription in fanout.members:
            try:
                subscription.peer.receiver.send(data)
            except Exception as error:
                self._give_up(subscription.peer, error)

    def _give_up(self, peer: Peer, error: Exception) -> None:
        """A client could not be given what is its own: end it, so that it comes again and gets the rest."""
        internal_errors.note("sending to a client", error, _who(peer))
        peer.receipts, peer.refusals, peer.deliveries = [], [], []
        if not peer.connection:
            return  # it is within the node, and is asked for anew by whoever it serves
        try:
            peer.receiver.close(internal())
        except Exception as failure:
            internal_errors.note("closing a client", failure, _who(peer))
            self.submit(Disconnect(peer))

    def _relieve(self) -> None:
        """Let go on who waited for room in the inbox."""
        waiting, self._waiting = self._waiting, []
        for source in waiting:
            try:
                source.relieved()
            except Exception as error:
                internal_errors.note("going on with a client", error)

    def _settle_idle(self) -> None:
        """Nothing is left to decide: those who wait for that go on, when what is held is committed too."""
        if self._held is not None:
            self._loop.call_soon(self._hold_ends)
            return
        if self._snapshot_running:
            return  # its end comes here again
        self._release_idle()

    def _release_idle(self) -> None:
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)

    def _set_timer(self) -> None:
        deadline = self.broker.next_deadline_ms
        if self._timer is not None:
            if self._timer_ms <= deadline:
                return  # it rings early enough, and is set anew then
            self._timer.cancel()
        delay = max(0.0, deadline / 1000 - self._clock() / 1_000_000)
        self._timer_ms = deadline
        self._timer = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._unasked = 0
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _end(self, error: BaseException) -> None:
        self._ended = error
        self._release_idle()
        if self._failed is not None:
            self._failed(error)

    # ------------------------------------------------------------------ snapshots and end

    def snapshot(self) -> None:
        """Keep the state so that recovery reads little and old segments may go. Only between batches."""
        self._snapshot_running = True
        self._since_snapshot = 0
        self._loop.call_soon(self._freeze, SnapshotBuilder(self.broker))

    def _freeze(self, freezing: SnapshotBuilder) -> None:
        """A few milliseconds of making a snapshot."""
        if self._ended is not None:
            return
        try:
            complete = freezing.step()
        except Exception as error:  # a bug: what is in memory cannot be trusted any more
            self._end(error)
            return
        if not complete:
            self._loop.call_soon(self._freeze, freezing)
        elif self._committing or self._held is not None:
            self._early = freezing
        else:
            self._write_snapshot(freezing)

    def _write_snapshot(self, freezing: SnapshotBuilder) -> None:
        self._early = None
        parts = freezing.parts()
        # A large state is written more rarely, so that snapshots stay a fraction of all writing.
        self._snapshot_due = max(self._snapshot_every, 4 * sum(map(len, parts)))
        self._journal.snapshot(freezing.position, parts, self._snapshot_done)

    def _snapshot_done(self, error: BaseException | None) -> None:
        self._snapshot_running = False
        if error is not None:  # the former one stands; recovery will read more
            log.warning("the snapshot of the broker's state was not written: %s", error)
        if not (self._inbox or self._committing):
            self._settle_idle()

    def _tell_of_loss(self) -> None:
        """Log what the end of this process loses: messages that nobody asked to keep."""
        for queue in self.broker.destinations.queues.values():
            if queue.durable and (lost := queue.unrecorded):
                log.warning("%d messages of %s are not persistent and lost by this stop", lost, queue.address)

    async def stop(self) -> None:
        """Carry out what is in the inbox, keep a snapshot, and carry out nothing more."""
        while self._busy:  # more may come while the former is waited for
            await self.wait_idle()
        if self._ended is None:
            self._tell_of_loss()
            self._ended = RuntimeError("the engine was stopped")
            done = self._loop.create_future()
            self._journal.snapshot(
                self.broker.turn.next_position, [take_snapshot(self.broker)], done.set_result
            )
            self._ended = await done or self._ended
        if self._timer is not None:
            self._timer.cancel()


def _or_damage(record: bytes | Damaged, priority: int) -> bytes:
    """The record, or what stands for one that is damaged."""
    if isinstance(record, Damaged):
        return damaged_record(priority, record.why, record.time_us // 1000)
    return record


def _who(peer: Peer) -> str:
    """A peer, for the log."""
    return f"user {peer.user}, connection {peer.connection}" if peer.connection else peer.user


def _batch(outcome: Outcome) -> Batch:
    batch = Batch(outcome.first_position, outcome.time_us)
    batch.destinations = outcome.destinations
    batch.parts = outcome.parts
    batch.count = outcome.count
    batch.published = outcome.published
    batch.freed = outcome.freed
    return batch
