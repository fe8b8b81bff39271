"""The engine: the one task that moves messages. Inbox → decide → commit → send, one batch at a time.

While a batch is being written, the next one gathers in the inbox, so one fsync serves all commands that
waited. Receipts and deliveries leave after the commit, never before.

What takes longer than a turn of the loop is decided, or sent, in several, between which the loop serves
sockets and other tasks. What is left after `TURNS` of them goes into the next batch, where peers take turns;
who has sent it waits until it is carried out (`must_wait`).

A failed commit ends the engine: memory is then ahead of the journal, and only a restart with recovery is
correct. So does an error in the middle of a change of state, after which memory cannot be trusted. All other
errors are contained (`internal_errors`): one before the change, or while data is sent, closes the client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, cast

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import EventListeners, internal_errors
from broker_app.core.broker import Broker
from broker_app.core.commands import ClockStepped, Command, Loaded
from broker_app.core.durability.recovery import live_positions
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.model import Delivery, Peer
from broker_app.core.outcome import DEAD, Event, Fetch, Outcome
from broker_app.engine.busy_poll import BusyPoll
from broker_app.engine.clock import EngineClock, now_us
from broker_app.engine.interceptors import CommandInterceptor, DeliveryInterceptor
from broker_app.engine.journal_space import SpaceCheck
from broker_app.engine.output import Output
from broker_app.engine.read_budget import READ_BYTES, ReadBudget
from broker_app.engine.record_reader import RecordReader, or_damage
from broker_app.engine.snapshots import Snapshots
from broker_app.journal.errors import Busy, JournalFailed, NoSuchPosition
from broker_app.journal.port import Damaged, Journal, Run
from broker_app.storage.recovery import rebuild

log = logging.getLogger(__name__)

MIB = 1024 * 1024
#: how long messages wait to be read when their file cannot be read, seconds
BUSY_S = 0.1
#: how long records without a receipt (plain acknowledgements) may stay in memory, to share a commit
HOLD_S = 0.005
#: turns of the loop in which a batch is decided; what is left then goes into the next one, unless it belongs
#: together
TURNS = 4
#: positions that are remembered as freed while a read of them waited
_MOST_GONE = 10_000
_EXPIRED = (
    "the lease of the journal expired before it could be renewed: "
    "its store did not answer in time, or this process was paused or too busy"
)


class WritableListener(Protocol):
    """A source of commands that waits because the inbox is full."""

    def writable(self) -> None: ...


class Backpressure:
    """Lets tasks wait while the inbox of the engine is full, or commands of their peer are left."""

    def __init__(self, engine: Engine, peer: Peer) -> None:
        self._engine = engine
        self._peer = peer
        self._event: asyncio.Event | None = None

    async def wait(self) -> None:
        """Wait until a command may be submitted, or the engine has ended."""
        engine = self._engine
        while engine.must_wait(self._peer) and engine.ended is None:
            if self._event is None:
                self._event = asyncio.Event()
                self._engine.notify_when_writable(self)
            await self._event.wait()

    def writable(self) -> None:
        """There is room again, or there will never be any."""
        event, self._event = self._event, None
        if event is not None:
            event.set()


class Engine:
    """Owns the broker's state and the commit in flight.

    Commands are submitted from the event loop's thread. `inbox_bytes` is a limit that sessions keep: after
    each `submit` they check `full`, and then wait for `writable`.
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
        #: called with the events of each batch, after its commit and before what it sends
        self.listeners: EventListeners[[list[Event]]] = EventListeners("the engine's listeners")
        self.command_interceptors: tuple[CommandInterceptor, ...] = ()
        self._read_budget = ReadBudget()
        #: of it, what those messages have that were read for commands in the inbox, and for the batch that is
        #: decided, committed or sent: however long a commit takes, no more of them are in memory
        self._loaded_bytes = self._used_bytes = 0
        #: positions that were freed while a read of them waited; one that is asked for again is lost
        self._gone: set[int] = set()
        #: for the API and for jobs
        self.records = RecordReader(journal, self._read_budget)
        self._journal = journal
        self._clock = EngineClock(clock, steady)
        self._loop = asyncio.get_running_loop()
        self._busy_poll = BusyPoll(self._loop)
        self._failed = failed
        self._inbox: list[Command] = []
        self._inbox_bytes = 0
        self._inbox_limit = inbox_bytes
        self._waiting: list[WritableListener] = []
        self._scheduled = False
        self._deadline = Deadline(steady)
        #: what was decided of the batch so far, and in how many turns
        self._unfinished: Outcome | None = None
        self._turns = 1
        self._committing = False
        #: True while what was committed is being sent
        self._sending = False
        self._ended: BaseException | None = None
        self._idle: list[asyncio.Future[None]] = []
        #: decided and not committed, since no client waits for it; the next batch takes it along
        self._held: Outcome | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._output = Output(self.submit)
        self._space = SpaceCheck(journal, 4 * inbox_bytes + broker.turn.limits.blocked_bytes)
        self._snapshots = Snapshots(
            broker, journal, snapshot_bytes, self._is_committed, self._end, self._snapshot_finished
        )

    @property
    def clock_listeners(self) -> EventListeners[[float]]:
        """Called when the clock was set, with the seconds that it was set forward."""
        return self._clock.listeners

    @property
    def store_left(self) -> int | None:
        """Bytes that may still be stored by a limit of the administrator; None without a limit."""
        return self._space.store_left

    @store_left.setter
    def store_left(self, size: int | None) -> None:
        self._space.store_left = size

    # ------------------------------------------------------------------ start

    def recover(self) -> list[str]:
        """Open the journal and rebuild the broker from it. Returns lines for the log."""
        opened = rebuild(self.broker, self._journal)
        self._journal.set_live_positions(live_positions(self.broker))
        return opened.report

    def adopt(self) -> None:
        """Go on with a broker that was rebuilt from the journal, which is open."""
        self._journal.set_live_positions(live_positions(self.broker))

    # ------------------------------------------------------------------ commands

    def submit(self, command: Command, size: int = 0) -> None:
        """Take a command; `size` is about how many bytes it holds in memory."""
        for interceptor in self.command_interceptors:
            if interceptor.takes(command, size):
                return
        self._enter(command, size)

    def resume(self, interceptor: CommandInterceptor, command: Command, size: int = 0) -> None:
        """Take a command that `interceptor` has held, or one in place of it."""
        at = self.command_interceptors.index(interceptor)
        for behind in self.command_interceptors[at + 1 :]:
            if behind.takes(command, size):
                return
        self._enter(command, size)

    def deliver(self, interceptor: DeliveryInterceptor, peer: Peer, deliveries: list[Delivery]) -> None:
        """Send deliveries that `interceptor` has held."""
        self._output.deliver(interceptor, peer, deliveries)

    def intercept(
        self, commands: Sequence[CommandInterceptor] = (), deliveries: Sequence[DeliveryInterceptor] = ()
    ) -> None:
        """Have these see commands, and deliveries, from now on, in their order."""
        self.command_interceptors = tuple(commands)
        self._output.interceptors = tuple(deliveries)

    @property
    def delivery_interceptors(self) -> tuple[DeliveryInterceptor, ...]:
        """Those that see deliveries now."""
        return self._output.interceptors

    def _enter(self, command: Command, size: int = 0) -> None:
        self._inbox.append(command)
        self._inbox_bytes += size
        if self._busy_poll.awake:
            self._busy_poll.hit()
        if not self._scheduled:
            self._schedule()

    @property
    def full(self) -> bool:
        """True if sources of commands have to wait for memory."""
        return self._inbox_bytes > self._inbox_limit

    def must_wait(self, peer: Peer) -> bool:
        """True if a peer has to wait for memory, or until what it sent is carried out."""
        return self._inbox_bytes > self._inbox_limit or peer in self.broker.backlog.waiting

    def notify_when_writable(self, source: WritableListener) -> None:
        self._waiting.append(source)

    @property
    def ended(self) -> BaseException | None:
        """The reason why no command is carried out any more; None while the engine runs."""
        self._check_lease()
        return self._ended

    def _check_lease(self) -> None:
        """End when another broker may have taken the journal over, as after a pause of this process."""
        if self._ended is None and not self._journal.is_held:
            self._end(JournalFailed(_EXPIRED))

    async def wait_idle(self) -> None:
        """Wait until everything submitted so far is decided, committed and sent, or never will be."""
        if self._held is not None and not self._committing:
            self._commit_held()
        if self._busy:
            future = self._loop.create_future()
            self._idle.append(future)
            await future

    @property
    def _busy(self) -> bool:
        return self._ended is None and bool(
            self._has_work or self._held is not None or self._snapshots.is_running
        )

    @property
    def _has_work(self) -> bool:
        """True if a batch is being decided, committed or sent, or the next one has begun to gather."""
        return bool(
            self._inbox
            or self._committing
            or self._sending
            or self._unfinished is not None
            or self.broker.is_behind
            or self.broker.holds
        )

    # ------------------------------------------------------------------ the turn

    def _turn(self) -> None:
        self._scheduled = False
        self._check_lease()
        if self._committing or self._sending or self._ended is not None:
            return
        try:
            outcome = self._decide()
            if self.broker.is_behind and (self._turns < TURNS or self.broker.backlog.in_steps):
                self._turns = min(self._turns + 1, TURNS)
                self._unfinished = outcome
                self._schedule()
            else:
                self._decided(outcome)
        except Exception as error:  # a bug: what is in memory cannot be trusted any more
            self._end(error)

    def _schedule(self) -> None:
        """Have the next turn soon."""
        self._scheduled = True
        self._loop.call_soon(self._turn)

    def _decide(self) -> Outcome:
        """Decide for one turn what has come, and what was left."""
        run, self._inbox = self._inbox, []
        size, self._inbox_bytes = self._inbox_bytes, 0
        if self._loaded_bytes:
            self._used_bytes, self._loaded_bytes = self._used_bytes + self._loaded_bytes, 0
        if self._space.is_due(size):
            space = self._space.check(size)
            if space is not None:
                run = [space, *run]
        now_us, step_s = self._clock.read()
        if step_s:
            self._clock.stepped(step_s)
            run = [ClockStepped(round(1000 * step_s)), *run]
        onto, self._held = self._unfinished or self._held, None
        self._deadline.begin(self._clock.steady_s)
        return self.broker.decide(run, now_us, onto, self._deadline, is_last=self._turns == TURNS)

    def _decided(self, outcome: Outcome) -> None:
        """Commit a batch, or let it out at once when it has no records."""
        if self._unfinished is not None:
            self._unfinished, self._turns = None, 1
        if self._waiting and not self.full:
            self._notify_waiting()
        if not outcome.count:
            self._act(outcome)
        elif outcome.quiet:
            self._hold(outcome)
        else:
            self._commit(outcome)

    def _hold(self, outcome: Outcome) -> None:
        self._held = outcome
        if self._hold_timer is None:
            self._hold_timer = self._loop.call_later(HOLD_S, self._hold_ends)
        self._act(outcome)

    def _hold_ends(self) -> None:
        self._hold_timer = None
        if not (self._committing or self._sending) and self._ended is None:
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
        self._snapshots.count(written)
        self._space.written(written)
        self._journal.commit(outcome, partial(self._committed, outcome))

    def _committed(self, outcome: Outcome, error: BaseException | None) -> None:
        self._committing = False
        if error is not None:
            self._end(error)
            return
        # Another broker may have taken over while this process waited for the answer, and have delivered it.
        self._check_lease()
        if self._ended is not None:
            return
        try:
            self._act(outcome)
        except Exception as failure:  # a bug, or a journal that cannot be read
            self._end(failure)

    def _act(self, outcome: Outcome) -> None:
        """Report what has happened and send what was decided, then schedule the next turn."""
        # Listeners come first: a request must not reach another broker before the interest in its reply, or
        # the reply is dropped as one to a client that has left.
        if outcome.events or outcome.arrived or outcome.dead_letters:
            self.listeners(outcome.take_events())
        steps = self._output.send(outcome)
        if steps is None:
            self._sent(outcome)
        else:
            self._deadline.begin()
            self._send(outcome, steps)

    def _send(self, outcome: Outcome, steps: Iterator[None]) -> None:
        for _ in steps:
            if self._deadline.passed:
                self._sending = True
                self._loop.call_soon(self._send_on, outcome, steps)
                return
        self._sending = False
        self._sent(outcome)

    def _send_on(self, outcome: Outcome, steps: Iterator[None]) -> None:
        """Go on to send, in a later turn of the loop."""
        if self._ended is not None:
            return
        self._deadline.begin()
        try:
            self._send(outcome, steps)
        except Exception as failure:  # a bug, or a journal that cannot be read
            self._end(failure)

    def _sent(self, outcome: Outcome) -> None:
        if self._used_bytes:
            used, self._used_bytes = self._used_bytes, 0
            self._read_budget.give_back(used)
        for fetch in outcome.fetches:
            self._load(fetch)
        if self._inbox or self.broker.is_behind:
            if not self._scheduled:
                self._schedule()
        elif self._idle and not self.broker.holds:
            self._settle_idle()
        elif outcome.touched:
            self._busy_poll.start()
        if self._clock.rings_ms != self.broker.turn.next_call_ms:
            self._clock.ring_at(self.broker.turn.next_call_ms, self._ring)
        if self._held is None:
            self._snapshots.check()

    def _load(self, fetch: Fetch) -> None:
        """Read messages back that the broker needs, as many as may be in memory at a time."""
        if not fetch.positions:
            self._enter(Loaded(*fetch, []))
            return
        run = self._journal.measure(fetch.positions, READ_BYTES)
        self._read_budget.take(run.size, partial(self._read, fetch, run))

    def _read(self, fetch: Fetch, run: Run) -> None:
        self._journal.read(fetch.positions[: run.length], partial(self._loaded, fetch, run))

    def _loaded(
        self, fetch: Fetch, run: Run, found: list[bytes | Damaged] | None, error: Exception | None
    ) -> None:
        if self._ended is not None:
            return
        if found is None:
            assert error is not None
            self._read_budget.give_back(run.size)
            self._load_failed(fetch, error)
            return
        self._loaded_bytes += run.size
        damaged = [record for record in found if isinstance(record, Damaged)]
        for record in damaged:
            log.error(
                "position %d of %s is damaged, and becomes a dead letter: %s",
                record.position,
                fetch.address,
                record.why,
            )
        records = cast(list[bytes], found)
        if damaged:
            records = [or_damage(record, fetch.priority) for record in found]
        read, left = fetch.positions[: run.length], fetch.positions[run.length :]
        lost = {record.position for record in damaged}
        self._enter(Loaded(fetch.address, fetch.priority, read, fetch.purpose, records, lost, left))

    def _load_failed(self, fetch: Fetch, error: Exception) -> None:
        if isinstance(error, NoSuchPosition) and error.position not in self._gone:
            if len(self._gone) >= _MOST_GONE:
                self._gone.clear()  # one that is still asked for is only asked for once more
            self._gone.add(error.position)
            self._enter(_without_gone(fetch, error))
            return
        if not isinstance(error, Busy):  # a bug: what is in memory cannot be trusted any more
            self._end(error)
            return
        log.warning("messages of %s will be read %g s later: %s", fetch.address, BUSY_S, error)
        self._loop.call_later(BUSY_S, self._load, fetch)

    def _notify_waiting(self) -> None:
        """Resume the sources that waited for room in the inbox."""
        waiting, self._waiting = self._waiting, []
        for source in waiting:
            try:
                source.writable()
            except Exception as error:
                internal_errors.note("resuming a client", error)

    def _settle_idle(self) -> None:
        """Nothing is left to decide: release the tasks that wait for that, once everything is committed."""
        if self._held is not None:
            self._loop.call_soon(self._hold_ends)
            return
        if self._snapshots.is_running:
            return  # when it is finished, this is called again
        self._release_idle()

    def _release_idle(self) -> None:
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)

    def _ring(self) -> None:
        self._space.check_soon()
        if not self._scheduled:
            self._schedule()

    def _end(self, error: BaseException) -> None:
        self._ended = error
        self._snapshots.stop()
        self._release_idle()
        if self._failed is not None:
            self._failed(error)

    # ------------------------------------------------------------------ snapshots and end

    def snapshot(self) -> None:
        """Begin a snapshot. Only between batches."""
        self._snapshots.begin()

    def _is_committed(self) -> bool:
        return not self._committing and self._held is None and self._unfinished is None

    def _snapshot_finished(self) -> None:
        if not self._has_work:
            self._settle_idle()

    def _log_loss(self) -> None:
        """Log how many messages the stop loses: those that are not persistent."""
        for queue in self.broker.destinations.queues.values():
            if queue.durable and (lost := queue.unrecorded):
                log.warning(
                    "%d messages of %s are not persistent, and are lost by this stop", lost, queue.address
                )

    async def stop(self, *, snapshot: bool = True) -> None:
        """Carry out what is in the inbox, write a snapshot, and carry out nothing more."""
        while self._busy:  # more may be submitted meanwhile
            await self.wait_idle()
        if self._ended is None:
            self._log_loss()
            self._ended = RuntimeError("the engine was stopped")
            if snapshot:
                self._ended = await self._last_snapshot() or self._ended
        self._clock.stop()

    async def _last_snapshot(self) -> BaseException | None:
        done: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._journal.snapshot(self.broker.turn.next_position, [take_snapshot(self.broker)], done.set_result)
        return await done


def _without_gone(fetch: Fetch, error: NoSuchPosition) -> Loaded:
    """The answer to a fetch of which a message was deleted or moved while the read waited. The core asks for
    the others again; the body of a single dead letter is given up, since its queue was deleted."""
    if fetch.purpose != DEAD:
        return Loaded(*fetch[:2], [], fetch.purpose, [], left=fetch.positions)
    damage = or_damage(Damaged(error.position, str(error), now_us()), fetch.priority)
    return Loaded(*fetch, [damage], {error.position})
