"""The broker's mind: `decide` turns a run of commands into an outcome. Pure: no I/O, no clock.

Every deed changes memory and writes what must survive into the outcome; after all commands of a run
the queues they touched hand out what they can. The caller lets the outcome out only after its records
are safe, and hands the same records to `recovery` to get the same broker again.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify

from broker_app.core import commands as c
from broker_app.core.facts import DestinationGone
from broker_app.core.limits import Limits
from broker_app.core.marks import SYNC_ADDRESS
from broker_app.core.outcome import DUE, LANE, REPLAY, Outcome
from broker_app.core.peer import Peer
from broker_app.core.policy import Policies
from broker_app.core.queue import Queue
from broker_app.core.stepping import shift_time_limits
from broker_app.core.timers import SLICE_MS, SWEEP_MS
from broker_app.core.unreadable import Unreadable

#: queues that a part of a sweep looks at; so many messages looked at count as one more
SWEEP_WORK, LOOKS = 1_000, 16


class Broker(Unreadable):
    """All destinations, subscriptions and unsettled deliveries of one broker.

    `tag` distinguishes this broker's message ids from others'. `counters` are totals since start.
    """

    def __init__(
        self, *, tag: int = 0, limits: Limits | None = None, policies: Policies | None = None
    ) -> None:
        super().__init__(tag=tag, limits=limits, policies=policies)
        self._deeds |= {
            c.Publish: self._publish,
            c.Subscribe: self._subscribe,
            c.Unsubscribe: self._unsubscribe,
            c.Hand: self._hand,
            c.Forget: self._forget_name,
            c.Settle: self._settle,
            c.Return: self._return,
            c.Extend: self._extend,
            c.Begin: self._begin,
            c.Enlist: self._enlist,
            c.Commit: self._commit,
            c.Abort: self._abort,
            c.Spoil: self._spoil,
            c.Pause: self._pause,
            c.Resume: self._resume,
            c.Answer: self._answer_only,
            c.Disconnect: self._disconnect,
            c.Loaded: self._take_loaded,
            c.Purge: self._purge,
            c.Transfer: self._transfer,
            c.Insert: self._insert,
            c.MeetBridge: self._meet_bridge,
            c.BeginFlow: self._begin_flow,
            c.Forward: self._forward,
            c.BreakFlow: self._break_flow,
            c.ForgetMark: self._forget_mark,
            c.HandMarkOver: self._hand_mark_over,
            c.Reconfigure: self._reconfigure,
            c.MakeQueue: self._make,
            c.RemoveQueue: self._remove,
            c.StoreSpace: self._store_space,
            c.ClockStepped: self._clock_stepped,
        }
        #: queues that the sweep under way has still to look at
        self._unswept: list[Queue] = []
        self._loads = {LANE: self._loaded, DUE: self._publish_due, REPLAY: self._replayed}

    def decide(self, run: Sequence[c.Command], now_us: int, onto: Outcome | None = None) -> Outcome:
        """Carry out `run` in order at the time `now_us` (µs since 1970, UTC) and say what follows.

        `onto` is the outcome of the former call when it was not committed yet: it grows and is returned.
        """
        out = self._out = onto or Outcome(self.next_position, now_us)
        self.now_ms = now_us // 1000
        if self._gauging or self.memory_bytes > self.limits.memory_bytes:
            self._gauge()
        deeds = self._deeds
        for command in run:
            if self._stopped and _comes_too_late(command):
                continue
            deeds[type(command)](command)
        if self.now_ms >= self.next_deadline_ms:
            self._due()
        self._dispatch_dirty()
        if self._outrun:
            self._end_outrun()
        if self.replays:
            self._advance_replays()
        if self._overfull or self._crowded or self._line:
            self._ease()
        if self.parking.changed:
            out.throttles += self.parking.turns()
        self._record_acks()
        if self._marked:
            self._record_marks()
        if out.fanouts:
            self._close_fanouts()
        if out.forwarded:
            self._tell_of_arrivals()
        self.next_position = out.first_position + out.count
        return out

    @property
    def next_deadline_ms(self) -> int:
        """When `decide` wants to be called even without commands."""
        sweep = self.sweep_ms
        return min(self.leases.next_ms or sweep, self.alarms.next_ms or sweep, sweep)

    def _clock_stepped(self, command: c.ClockStepped) -> None:
        shift_time_limits(self, command.by_ms)

    def _take_loaded(self, command: c.Loaded) -> None:
        if command.damaged:
            self._give_up_damaged(command)
        self._loads[command.purpose](command)

    def _due(self) -> None:
        for peer, tag in self.leases.due(self.now_ms):
            held = peer.unsettled.pop(tag, None)
            if held is not None:
                self._came_back(*held)
        self._read_due()
        if self.now_ms >= self.sweep_ms:
            self._give_up_waiting()
            self._look_for_slow_consumers()
            self._sweep()
            self._sweep_histories()

    def _sweep(self) -> None:
        """Drop what expired, queues that nobody uses, and old dedup-ids; of many queues a part at a time."""
        if not self._unswept:
            self._unswept = list(self.queues.values())
            self._forget_old_ids()
        # What is read back only to be looked at must leave memory for what moves.
        room = self.limits.memory_bytes // 2 - self.memory_bytes
        work = SWEEP_WORK
        while self._unswept and work > 0:
            queue = self._unswept.pop()
            if self.queues.get(queue.address) is not queue:
                continue
            work -= 1
            if queue.picking is not None:
                self._tidy_picking(queue)
            if queue.expiring:
                work -= self._expire_waiting(queue) // LOOKS
                for lane in queue.lanes:
                    if room > 0 and lane.paged and not lane.ready:
                        self._fetch(queue, lane)
                        room -= self.limits.fetch_bytes
            self._reap_idle(queue)
        self.sweep_ms = self.now_ms + (SLICE_MS if self._unswept else SWEEP_MS)

    def _reap_idle(self, queue: Queue) -> None:
        if (
            queue.consumers
            or queue.unsettled
            or queue.depth
            or queue.named
            or not queue.durable
            or queue.address in self.schedules
            or queue.address in self.policies.exact
            or queue.address == SYNC_ADDRESS
        ):
            queue.idle_since_ms = 0
        elif not queue.idle_since_ms:
            queue.idle_since_ms = self.now_ms
        elif self.now_ms - queue.idle_since_ms >= self.limits.idle_queue_ms:
            del self.queues[queue.address]
            self._tell_of_destination(DestinationGone(queue.address))

    def _forget_old_ids(self) -> None:
        found = self.duplicates.next_to_sweep()
        if found:
            windows = {address: self.policies.of(address).dedup_window_ms for address in found}
            self.duplicates.sweep(self.now_ms, windows)

    def _expire_waiting(self, queue: Queue) -> int:
        """Take out what expired and is in memory; how many messages were looked at."""
        looked_at = 0
        for lane in queue.lanes:
            looked_at += len(lane.ready) + len(lane.returned)
            expired = [m for m in lane.in_memory() if 0 < m.expires_ms <= self.now_ms]
            if not expired:
                continue
            for message in expired:
                self._remember_body(queue, -message.size)
                self._expire(queue, message)
            alive = [m for m in lane.ready if not 0 < m.expires_ms <= self.now_ms]
            lane.ready.clear()
            lane.ready.extend(alive)
            lane.returned = [entry for entry in lane.returned if not 0 < entry[1].expires_ms <= self.now_ms]
            heapify(lane.returned)
        queue.expiring = any(m.expires_ms for lane in queue.lanes for m in lane.in_memory()) or any(
            lane.paged or lane.loading for lane in queue.lanes
        )
        return looked_at


def _comes_too_late(command: c.Command) -> bool:
    """Whether it was sent behind what ended its connection."""
    peer: Peer | None = getattr(command, "peer", None)
    return peer is not None and peer.stopped and type(command) is not c.Disconnect
