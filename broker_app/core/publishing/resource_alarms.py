"""The resource alarms of a broker: it accepts no messages while memory, disk space or totals are at their
limit."""

from __future__ import annotations

from broker_app.core import commands as c
from broker_app.core.destinations import Destinations
from broker_app.core.message import OVERHEAD_BYTES
from broker_app.core.publishing.resource_alarm import (
    BROKER_FULL,
    GREEN,
    MEMORY_ORANGE,
    MEMORY_RED,
    ORANGE,
    RED,
    STORE_FULL,
    ResourceAlarm,
    memory_level,
)
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.turn import Turn


class ResourceAlarms:
    """Watches memory, the journal's space and the totals of the broker."""

    def __init__(self, turn: Turn, destinations: Destinations, store: MessageStore) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        #: the alarm that is raised, None for none
        self.alarm: ResourceAlarm | None = None
        #: when there was room last, in ms since 1970; used during an alarm
        self.since_ms = 0
        #: one of MEMORY_LEVELS
        self.memory_level = GREEN
        #: bytes of messages that the journal has space for; None while there is plenty
        self.store_room: int | None = None
        self._count_again_at = 0
        #: whether more than full memory has to be checked in each turn
        self.checked_each_turn = turn.limits.max_messages > 0 or turn.limits.max_bytes > 0

    def check(self) -> None:
        """Raise or clear the alarm by memory, disk space and totals."""
        before = self.alarm
        level = self.memory_level = memory_level(
            self._store.memory_bytes - self._turn.limits.memory_bytes, self._turn.limits.transient_bytes
        )
        if self.store_room is not None and self.store_room <= 0:
            self.alarm = STORE_FULL
        elif level is RED:
            self.alarm = MEMORY_RED
        elif level is ORANGE:
            self.alarm = MEMORY_ORANGE
        else:
            self.alarm = BROKER_FULL if self._total_is_reached() else None
        if before is None:
            self.since_ms = self._turn.now_ms
        limits = self._turn.limits
        counting = limits.max_messages > 0 or limits.max_bytes > 0
        self.checked_each_turn = counting or self.store_room is not None or level is not GREEN

    def shift_time_limits(self, by_ms: int) -> None:
        """Shift since when an alarm lasts, because the clock was set."""
        self.since_ms += by_ms

    def limits_changed(self) -> None:
        """Check at once against other limits of the broker."""
        self._count_again_at = 0
        self.check()

    def _total_is_reached(self) -> bool:
        limits = self._turn.limits
        if not (limits.max_messages or limits.max_bytes):
            return False
        published = self._turn.counters["published"]
        if published >= self._count_again_at:
            self._count_again_at = published + self._total_room()
        return published >= self._count_again_at

    def _total_room(self) -> int:
        """The number of messages that can be accepted before all are counted again."""
        limits = self._turn.limits
        messages = sum(queue.depth + queue.unsettled for queue in self._destinations.queues.values())
        rooms = [limits.max_messages - messages] if limits.max_messages else []
        if limits.max_bytes:
            bytes_ = self._store.memory_bytes + sum(
                queue.paged_bytes for queue in self._destinations.queues.values()
            )
            average = max(OVERHEAD_BYTES, bytes_ // max(1, messages))
            rooms.append((limits.max_bytes - bytes_) // average)
        return max(0, min(rooms))

    def take_space(self, size: int) -> None:
        """Count admitted bytes while the journal has little space."""
        if self.store_room is not None:
            self.store_room -= size

    def store_space(self, command: c.StoreSpace) -> None:
        """Set how much space the journal has."""
        self.store_room = command.room
        self.check()

    def check_alarm(self, *, adds: bool) -> None:
        """Refused during an alarm. Where nothing is added, only that of disk space counts."""
        if self.alarm is not None and (adds or self.alarm is STORE_FULL):
            raise self.alarm.refusal
