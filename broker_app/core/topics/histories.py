"""The histories of topics: retained messages, and subscriptions that replay them.

A message of a topic with retention is recorded once, under the address of the topic. A subscription that
begins in the past reads the history in pages, messages published meanwhile included. When it has read
everything, it receives new messages like any other: without a gap, and without repeats."""

from __future__ import annotations

from collections.abc import Iterable

from broker_app.base.large_record import bytes_of
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.destination import (
    Destination,
    is_reserved,
)
from broker_app.core.durability import records
from broker_app.core.durability.record import Record
from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.snapshot_format import LOST, LoadedSection
from broker_app.core.message import (
    DEFAULT_PRIORITY,
    Envelope,
    Message,
)
from broker_app.core.model import Subscription
from broker_app.core.outcome import REPLAY, Fetch
from broker_app.core.policy import DestinationPolicy
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.topics.history import History, fits
from broker_app.core.topics.replay import FIRST, LAST, NOW, SEQ, TIME, HistoryRead, Replay, Start
from broker_app.core.turn import Turn

#: histories from which on empty ones are dropped, and topics whose retention is cached
MAX_HISTORIES = 10_000


class Histories:
    """Histories by topic, and the subscriptions that read them."""

    def __init__(self, turn: Turn, store: MessageStore) -> None:
        self._turn = turn
        self._store = store
        #: by topic, and the newest position of all histories that were dropped
        self.histories: dict[str, History] = {}
        self.lost_to = 0
        #: subscriptions that replay history, by the key of their replay
        self.replays: dict[str, Subscription] = {}
        #: subscriptions whose history was trimmed before they had read it, and the topic
        self.outrun: dict[Subscription, str] = {}
        self.retains = turn.policies.retains
        self._retentions: dict[str, DestinationPolicy | None] = {}
        self._replays_begun = 0
        self._readers: dict[str, Reader] = {}

    def policies_changed(self) -> None:
        """Apply other policies."""
        self.retains = self._turn.policies.retains
        self._retentions.clear()

    def retention_of(self, address: str) -> DestinationPolicy | None:
        """The policy of a topic with retention, None for other topics."""
        try:
            return self._retentions[address]
        except KeyError:
            policy = self._turn.policies.of(address)
            name = address.removeprefix("/topic/")
            kept = policy.retains and name != address and not is_reserved(name)
            if len(self._retentions) >= MAX_HISTORIES:
                self._retentions.clear()
            self._retentions[address] = found = policy if kept else None
            return found

    def retain(self, envelope: Envelope, body: bytes, explicit_id: bytes | None, source: bytes) -> Message:
        """Record a message under the address of its topic."""
        out, address = self._turn.out, envelope.address
        message = Message(envelope, body, out.first_position + out.count, self._turn.now_ms, True)
        message.explicit_id = explicit_id
        parts = records.published(message, out.destination(address), address, 0, source)
        out.parts += parts
        out.count += 1
        out.published.append(message.position)
        self.history(address).append(message.position, self._turn.now_ms, sum(map(len, parts)))
        return message

    def history(self, address: str) -> History:
        """The history of a topic, created when there is none."""
        history = self.histories.get(address)
        if history is None:
            if len(self.histories) >= MAX_HISTORIES:
                self._drop_empty()
            history = self.histories[address] = History(address)
        return history

    def _drop_empty(self) -> None:
        """Drop histories without messages; remember up to where they were trimmed."""
        for address in [address for address, history in self.histories.items() if not history.blocks]:
            self.lost_to = max(self.lost_to, self.histories.pop(address).trimmed_to)

    def trim(self, history: History, policy: DestinationPolicy | None) -> None:
        """Trim a history to its retention."""
        if policy is None:
            positions = history.overdue(1 << 62, 0)
        else:
            before_ms = self._turn.now_ms - policy.retention_ms if policy.retention_ms else 0
            positions = history.overdue(before_ms, policy.retention_bytes)
        if not positions:
            return
        history.trim(positions)
        out = self._turn.out
        out.record(records.acked(out.destination(history.address), records.TRIMMED, positions))
        out.freed += positions
        for subscription in list(self.replays.values()):
            replay = subscription.replay
            if replay is not None and replay.tail is None and _misses(replay, history):
                self._end_outrun(subscription, history)

    def sweep(self) -> None:
        """Trim all histories to their retention."""
        for history in self.histories.values():
            if history.blocks:
                self.trim(history, self.retention_of(history.address))

    def begin_replay(self, subscription: Subscription, start: Start, destination: Destination) -> None:
        """Begin a subscription of a topic at `start`. Refused when that was trimmed."""
        subscription.queue.in_order = True
        subscription.render_key = None
        if start.kind == NOW:
            return
        if len(self.replays) >= self._turn.limits.replays:
            most = self._turn.limits.replays
            raise Refused("too-many", f"{most} subscriptions are already replaying history, the limit")
        histories = list(self._matching(destination.name))
        end = self._turn.out.first_position + self._turn.out.count
        cursor, ahead = end, list[HistoryRead]()
        if start.kind == FIRST:
            cursor = min((history.first for history in histories if history.blocks), default=end)
        elif start.kind == LAST:
            ahead = sorted(HistoryRead(history.last, history) for history in histories if history.blocks)
        elif start.kind == SEQ:
            if start.number > end:
                raise Refused(
                    "invalid",
                    f"from is seq:{start.number}, which is beyond the end; the next message is seq:{end}",
                )
            self._check_kept(start.number, destination, histories)
            cursor = start.number
        elif start.kind == TIME:
            since = (history.since(start.number) for history in histories)
            cursor = min((position for position in since if position), default=end)
        self._replays_begun += 1
        key = f"replay {self._replays_begun}"
        not_before_ms = start.number if start.kind == TIME else 0
        subscription.replay = Replay(key, destination.name, cursor, not_before_ms, ahead, self._turn.limits)
        self.replays[key] = subscription
        self._turn.follows_up = True

    def _matching(self, pattern: str) -> Iterable[History]:
        exact = self.histories.get(f"/topic/{pattern}")
        if exact is not None:
            return (exact,)
        return (
            history
            for address, history in self.histories.items()
            if fits(pattern, address.removeprefix("/topic/"))
        )

    def _check_kept(self, number: int, destination: Destination, histories: list[History]) -> None:
        """Refused when messages from this position on were trimmed."""
        complete = destination.address in self.histories
        lost = max((history.trimmed_to for history in histories), default=0)
        lost = lost if complete else max(lost, self.lost_to)
        if number <= lost:
            first = min((history.first for history in histories if history.blocks), default=0)
            begins = f"it begins at seq {first}" if first else "it is empty"
            raise Refused(
                "history-gone",
                f"the history of {destination.address} no longer reaches back to seq {number}; {begins}",
            )

    def advance_replays(self) -> None:
        """Request further pages where there is room; subscriptions that have read everything go live."""
        for subscription in list(self.replays.values()):
            replay = subscription.replay
            assert replay is not None
            waiting = subscription.queue.depth
            if replay.loading or subscription.peer.paused or waiting > replay.run // 2:
                continue
            page = replay.next_page(self._matching(replay.filter))
            if page:
                positions = [one.position for one in page]
                self._turn.out.fetches.append(Fetch(replay.key, 0, positions, REPLAY))
            else:
                self.finish_replay(subscription)

    def finish_replay(self, subscription: Subscription) -> None:
        """End the replay of a subscription, if it has one."""
        replay, subscription.replay = subscription.replay, None
        if replay is not None:
            del self.replays[replay.key]

    def replayed(self, command: c.Loaded) -> None:
        """Deliver a page of history whose bodies were read."""
        subscription = self.replays.get(command.address)
        if subscription is None or subscription.replay is None:
            return  # it has ended
        replay = subscription.replay
        page, replay.loading = replay.loading, []
        if command.left:
            page = self._read_later(replay, page, command)
        for one, record in zip(page, command.records, strict=True):
            message = self._reader(one.history.address).message(record, one.position)
            if message.time_ms >= replay.not_before_ms and self._wants(subscription, message):
                self.follow(subscription, message)
        for message in replay.tail or ():
            self.follow(subscription, message)
        if replay.tail is not None:
            self.finish_replay(subscription)
        replay.average_bytes = bytes_of(command.records) // max(1, len(command.records))

    @staticmethod
    def _read_later(replay: Replay, page: list[HistoryRead], command: c.Loaded) -> list[HistoryRead]:
        """Have what was left be read next; returns the pages that were read."""
        left = set(command.left)
        replay.ahead[:0] = [one for one in page if one.position in left]
        replay.tail = None  # what was published meanwhile is found in the history behind them
        return [one for one in page if one.position not in left]

    def _reader(self, address: str) -> Reader:
        reader = self._readers.get(address)
        if reader is None:
            if len(self._readers) >= MAX_HISTORIES:
                self._readers.clear()
            reader = self._readers[address] = Reader(address)
        return reader

    def postpone(self, subscription: Subscription, replay: Replay, message: Message) -> None:
        """Keep a new message for a subscription that replays, unless it will find it in the history."""
        if replay.tail is None:
            return
        replay.tail.append(message)
        if len(replay.tail) > replay.MESSAGES:
            replay.tail = None
            for history in self._matching(replay.filter):
                if _misses(replay, history):
                    self._end_outrun(subscription, history)

    def _end_outrun(self, subscription: Subscription, history: History) -> None:
        """Have a subscription ended at the end of this turn, whose history was trimmed before it was read."""
        self.outrun[subscription] = history.address
        self._turn.follows_up = True

    def _wants(self, subscription: Subscription, message: Message) -> bool:
        if 0 < message.expires_ms <= self._turn.now_ms:
            return False
        selector = subscription.selector
        return selector is None or selector.accepts(
            header_block.headers(message.envelope.block), message, self._turn.ids
        )

    def follow(self, subscription: Subscription, original: Message) -> None:
        """Queue a message for a subscription that receives in the order of the journal."""
        queue = subscription.queue
        message = Message(original.envelope, original.body, original.position, original.time_ms, False)
        message.expires_ms = original.expires_ms
        message.explicit_id = self._turn.ids.of(original)
        queue.counters.published += 1
        message.sequence = queue.counters.published
        self._store.append(queue, queue.lane(DEFAULT_PRIORITY), message)
        self._store.mark_dirty(queue)

    # ------------------------------------------------------------------ recovery and following

    def apply(self, record: Record) -> None:
        """Apply a record to the history of a topic."""
        history = self.history(record.address)
        if record.kind == records.PUBLISHED:
            history.append(record.position, record.time_ms, record.size)
        else:
            history.trim(record.positions)

    def load(self, section: LoadedSection) -> None:
        """Restore the history of a section of a snapshot."""
        if section.address == LOST:
            self.lost_to = section.history[0]
        elif section.history:
            self.history(section.address).load(section.history, section.kept)


def _misses(replay: Replay, history: History) -> bool:
    """Return whether messages that the replay has not read were trimmed."""
    name = history.address.removeprefix("/topic/")
    return replay.cursor <= history.trimmed_to and fits(replay.filter, name)
