"""Messages that the journal cannot read back: each is dead-lettered, and its queue continues."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.core import commands as c
from broker_app.core.destination import (
    QUEUE,
    parse,
)
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.durability.record_reader import Reader
from broker_app.core.header_block import headers
from broker_app.core.message import Message
from broker_app.core.model import Queue
from broker_app.core.outcome import DEAD, DUE, REPLAY
from broker_app.core.reasons import DAMAGED
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.storage.transfers import Transfers
from broker_app.core.topics.histories import Histories
from broker_app.core.turn import Turn


class DamagedMessages:
    """Removes damaged messages from their queues, and passes the bodies that could be read on."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        scheduler: Scheduler,
        dead_letters: DeadLetters,
        histories: Histories,
        transfers: Transfers,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._scheduler = scheduler
        self._dead_letters = dead_letters
        self._histories = histories
        self._transfers = transfers
        #: by purpose, what takes the bodies that could be read
        self.readers: dict[int, Callable[[c.Loaded], None]] = {}

    def loaded(self, command: c.Loaded) -> None:
        """Pass bodies that were read back to the component that asked for them."""
        if command.damaged and command.purpose != DEAD:
            self.dead_letter(command)
        self.readers[command.purpose](command)

    def dead_letter(self, command: c.Loaded) -> None:
        """Dead-letter damaged messages; the command then contains only those that could be read."""
        read = Reader(command.address).message
        lost, kept, left = [], [], []
        for position, record in zip(command.positions, command.records, strict=True):
            if position in command.damaged:
                lost.append(read(record, position))
            else:
                kept.append(position)
                left.append(record)
        if command.purpose == REPLAY:
            self._skip_in_replay(command)
        elif command.purpose == DUE:
            self._dead_letter_scheduled(command.address, lost)
        elif (queue := self._destinations.queues.get(command.address)) is not None:
            self._dead_letter_waiting(queue, command, lost, kept)
        command.positions, command.records = kept, left

    def _skip_in_replay(self, command: c.Loaded) -> None:
        subscription = self._histories.replays.get(command.address)
        if subscription is not None and (replay := subscription.replay) is not None:
            replay.loading = [one for one in replay.loading if one.position not in command.damaged]

    def _dead_letter_scheduled(self, address: str, lost: list[Message]) -> None:
        schedule = self._scheduler.schedules.get(address)
        if schedule is None:
            return  # purged meanwhile
        lost = [message for message in lost if schedule.loading.pop(message.position, 0)]
        self._scheduler.end(address, [message.position for message in lost], records.DEAD_LETTERED, DAMAGED)
        if parse(address).kind != QUEUE:
            self._turn.counters["discarded"] += len(lost)
            return
        queue = self._destinations.queue(address)
        for message in lost:
            self._to_dead_letters(queue, message)

    def _dead_letter_waiting(
        self, queue: Queue, command: c.Loaded, lost: list[Message], kept: list[int]
    ) -> None:
        lane = queue.lane(command.priority)
        if lane.scan is not None and lane.scan.reading == [*command.positions, *command.left]:
            lane.scan.reading = [*kept, *command.left]
        present = self._store.waiting(queue, {message.position for message in lost})
        lost = [message for message in lost if message.position in present]
        for message in lost:
            message.attempts = lane.attempts_of(message.position)
        self._transfers.remove(queue, set(present), records.DEAD_LETTERED, {}, DAMAGED)
        queue.counters.removed -= len(present)  # they count as dead-lettered
        for message in lost:
            self._to_dead_letters(queue, message)
        self._store.mark_dirty(queue)

    def _to_dead_letters(self, queue: Queue, message: Message) -> None:
        message.recorded = False  # its record was ended already
        self._dead_letters.add(queue, message, DAMAGED, headers(message.envelope.block)["damaged"])
