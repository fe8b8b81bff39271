"""Delivery of chosen messages: a consumer that knows their positions receives them out of their order."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destinations import Destinations
from broker_app.core.durability import records
from broker_app.core.message import Message
from broker_app.core.model import Queue, Subscription
from broker_app.core.remote.sync_queue import check_is_no_sync_queue
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.transfers import DONE, GONE, REFUSED, UNSETTLED, TransferResult
from broker_app.core.turn import Turn

#: the status of a message whose body is in the journal, and whose record was not given
NOT_READ = "not-read"
_GROUPED = "a consumer holds its message group"


class ChosenDelivery:
    """Delivers waiting messages by position, each under a lease."""

    def __init__(
        self,
        turn: Turn,
        destinations: Destinations,
        store: MessageStore,
        dead_letters: DeadLetters,
        selective: SelectiveDelivery,
        unsettled: UnsettledDeliveries,
    ) -> None:
        self._turn = turn
        self._destinations = destinations
        self._store = store
        self._dead_letters = dead_letters
        self._selective = selective
        self._unsettled = unsettled

    def check(self, command: c.DeliverChosen) -> Queue | None:
        """The source queue, None when there is none. Refused while its consumers are paused, or one of them
        is exclusive."""
        check_is_no_sync_queue(command.source)
        queue = self._destinations.queues.get(command.source)
        if queue is None:
            return None
        if queue.consumers_paused:
            raise Refused("paused", f"the consumers of {command.source} are paused")
        if queue.active is not None:
            raise Refused("conflict", f"{command.source} has an exclusive consumer, which receives all")
        if queue.forwarded:
            raise Refused("unsupported", f"{command.source} is forwarded in order; receive without seqs")
        return queue

    def deliver(self, command: c.DeliverChosen, queue: Queue | None = None) -> None:
        """Deliver those of the messages that still wait, each by itself."""
        results = [TransferResult(chosen.position, GONE) for chosen in command.chosen]
        if queue is not None:
            results = self._deliver(command, queue)
        self._turn.accept(command.peer, command.receipt, results)

    def _deliver(self, command: c.DeliverChosen, queue: Queue) -> list[TransferResult]:
        waiting = self._store.waiting(queue, {chosen.position for chosen in command.chosen})
        results: list[TransferResult] = []
        messages: list[Message] = []
        for chosen in command.chosen:
            message = waiting.get(chosen.position)
            if chosen.position in waiting and message is None and chosen.record is not None:
                message = self._read(queue, chosen.position, chosen.record)
            if message is None:
                results.append(
                    TransferResult(chosen.position, NOT_READ if chosen.position in waiting else GONE)
                )
            elif not self._selective.hold_group(queue, message, command):
                results.append(TransferResult(chosen.position, REFUSED, detail=_GROUPED))
            else:
                del waiting[chosen.position]  # a position that is given twice is delivered once
                messages.append(message)
                results.append(TransferResult(chosen.position, DONE, message))
        self._store.take_out(queue, {message.position for message in messages})
        delivered = {message.position for message in self._hand_out(command, queue, messages)}
        if queue.available:  # the next messages may have to be read back
            self._store.mark_dirty(queue)
        results = [_or_gone(result, delivered) for result in results]
        if any(result.status == GONE for result in results):
            held = {holding.message.position for holding in self._unsettled.of(queue)}
            results = [_or_unsettled(result, held) for result in results]
        return results

    def _read(self, queue: Queue, position: int, record: bytes) -> Message:
        """A message whose body is not in memory."""
        message = queue.reader.message(record, position)
        lane = queue.lane(queue.lane_of(message))
        message.attempts = lane.attempts_of(position)
        message.sequence = position + lane.shift
        if queue.limit_usage is not None:
            queue.limit_usage.read_back(position, len(message.body))
        return message

    def _hand_out(self, command: c.DeliverChosen, queue: Queue, messages: list[Message]) -> list[Message]:
        """Deliver messages that were taken out of their lanes; returns those that did not end instead."""
        turn, peer = self._turn, command.peer
        messages = [message for message in messages if not self._ends(queue, message)]
        if not messages:
            return []
        subscription = Subscription(
            *(peer, command.id, queue.address, c.INDIVIDUAL, len(messages), command.lease_ms, None)
        )
        subscription.queue, subscription.since_ms = queue, turn.now_ms
        subscription.client = command.client or peer.client
        subscription.watched = True
        self._unsettled.peers[peer] = None
        begun = []
        for message in messages:
            tag, peer.next_tag = peer.next_tag, peer.next_tag + 1
            peer.unsettled[tag] = (subscription, message)
            if queue.account is not None:
                queue.account.keep(message.size)
            if command.lease_ms:
                self._unsettled.leases.begin(peer, tag, turn.now_ms + command.lease_ms)
            if message.recorded:
                begun.append((message.position, message.attempts + 1))
            peer.deliveries.append((subscription, tag, message))
        if begun:
            destination, client = turn.out.destination(queue.address), turn.out.client(subscription.client)
            turn.out.record(records.returned(destination, begun, clients=client * len(begun)))
        subscription.unsettled = subscription.delivered_directly = len(messages)
        queue.unsettled += len(messages)
        queue.counters.delivered += len(messages)
        queue.counters.fetched += len(messages)
        turn.counters["delivered"] += len(messages)
        turn.counters["redelivered"] += sum(message.attempts > 0 for message in messages)
        queue.samples.wait_ms.append(turn.now_ms - messages[0].time_ms)
        turn.schedule_flush(peer)
        return messages

    def _ends(self, queue: Queue, message: Message) -> bool:
        """Expire a message whose time is over, or dead-letter one that was delivered too often; returns
        whether it was either."""
        if 0 < message.expires_ms <= self._turn.now_ms:
            self._dead_letters.expire(queue, message)
        elif not self._dead_letters.add_if_exhausted(queue, message):
            return False
        self._selective.group_settled(queue, message)
        return True


def _or_gone(result: TransferResult, delivered: set[int]) -> TransferResult:
    """The result of a message; GONE if it was not delivered, since it had expired, or was delivered too
    often."""
    if result.status == DONE and result.position not in delivered:
        return TransferResult(result.position, GONE)
    return result


def _or_unsettled(result: TransferResult, held: set[int]) -> TransferResult:
    """The result of a message; UNSETTLED if it is gone because a consumer holds it."""
    if result.status == GONE and result.position in held:
        return result._replace(status=UNSETTLED)
    return result
