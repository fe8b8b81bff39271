"""What a broker consists of, and the few deeds that every floor above shares: answering, and who is in line.

The floors of the broker's mind, each on the ones before it: state, dispatch, picking, delaying, settling,
remembering, subscribing, publishing, admitting, receiving, transacting, moving, configuring, broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from broker_app.core import commands as c
from broker_app.core.account import Account, UserAccount
from broker_app.core.dedup import Duplicates
from broker_app.core.destination import is_forwarded, parse, tells_of_broker
from broker_app.core.errors import Refused, internal
from broker_app.core.facts import (
    Arrived,
    ConsumerJoined,
    ConsumerLeft,
    ConsumerSlow,
    DeadLetter,
    DestinationFull,
    DestinationGone,
    DestinationMade,
)
from broker_app.core.guard import Guard, Parked
from broker_app.core.history import History
from broker_app.core.limits import Limits
from broker_app.core.marks import SYNC_ADDRESS, Flow, Mark, SyncQueue
from broker_app.core.message import Message, MessageIds
from broker_app.core.named import NamedSubscription
from broker_app.core.outcome import Failure, Outcome
from broker_app.core.parking import Parking
from broker_app.core.peer import Peer
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.core.queue import Queue
from broker_app.core.resting import Resting
from broker_app.core.schedule import Schedule
from broker_app.core.slowness import Slowness
from broker_app.core.strain import GREEN, Strain
from broker_app.core.subscription import Subscription
from broker_app.core.tap import Taps
from broker_app.core.timers import Alarms, Leases
from broker_app.core.topic import Topics

# Messages outside the journal take their positions from here up, so that ids stay unique.
UNRECORDED = 1 << 47
#: the first level of all topics on which the broker tells of itself
SYSTEM = "$mom"


class State:
    """The fields of a broker; see `Broker`."""

    #: stands for queues that are gone: what is sent there is counted and forgotten
    _NOWHERE = Queue("/temp-queue/gone", durable=False)
    _NOWHERE.guarded = Guard(_NOWHERE.policy)  # so that each arrival is looked at

    def __init__(
        self, *, tag: int = 0, limits: Limits | None = None, policies: Policies | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.policies = policies or Policies()
        self.ids = MessageIds(tag)
        self.queues: dict[str, Queue] = {}
        self.topics = Topics()
        #: subscriptions with a name, by the address of their queue
        self.named: dict[str, NamedSubscription] = {}
        #: what topics with retention still know, and the newest position that is forgotten altogether
        self.histories: dict[str, History] = {}
        self.lost_to = 0
        #: subscriptions that read histories, by a key of their own
        self.replays: dict[str, Subscription] = {}
        #: how far other brokers have come, by the marks' addresses, and who forwards now
        self.marks: dict[str, Mark] = {}
        self.flows: dict[str, Flow] = {}
        #: marks that are to be recorded
        self._marked: dict[Mark, None] = {}
        #: apart from the others, so that no wildcard reaches what is private
        self.temporary_topics = Topics()
        #: messages of the topics that were published to lately, the latest last; one that made room for
        #: others is counted from the beginning when it comes again
        self.topic_published: dict[str, int] = {}
        self.next_position = 1
        self.now_ms = 0
        #: bytes of messages whose bodies are in memory and waiting
        self.memory_bytes = 0
        #: bytes that open transactions hold
        self.enlisted_bytes = 0
        #: peers that may hold deliveries
        self.peers: dict[Peer, None] = {}
        #: how many are stopped and have not disconnected yet
        self._stopped = 0
        #: what the connections of each user make the broker keep in memory
        self.users: dict[str, UserAccount] = {}
        self.leases = Leases()
        #: what is not due, by destination, and when the next of each is
        self.schedules: dict[str, Schedule] = {}
        self.alarms: Alarms[str] = Alarms()
        self.resting = Resting(self.limits.resting, self.limits.memory_bytes // 4)
        self.peers[self.resting.peer] = None
        self.duplicates = Duplicates(self.limits.dedup_ids, self.limits.dedup_ids_together)
        self.sweep_ms = 0
        self.counters = {"published": 0, "delivered": 0, "discarded": 0, "refused": 0, "duplicates": 0}
        self.slowness = Slowness()
        #: who watches what comes in
        self.taps = Taps()
        #: what waits for room
        self.parking = Parking(self.limits)
        #: why the broker as a whole takes no messages, None when it does
        self.strain: Strain | None = None
        #: one of MEMORY_LEVELS
        self.memory_level = GREEN
        #: bytes of messages that the journal has space for; None while that is more than enough
        self.store_room: int | None = None
        self._unrecorded = UNRECORDED
        self._dirty: list[Queue] = []
        self._acking: list[Queue] = []
        #: queues with somebody in line, and those that may hold too much
        self._crowded: dict[Queue, None] = {}
        self._overfull: dict[Queue, None] = {}
        #: how many messages have waited in a line
        self._arrivals = 0
        #: queues that were full lately, and when last
        self._full: dict[Queue, int] = {}
        #: what waits because of a strain
        self._line: deque[Parked] = deque()
        #: the answers to those who took their leave while something of theirs waited
        self._farewells: dict[Peer, Any] = {}
        self._topic_guards: dict[str, Guard] = {}
        self._limits_topics = self.policies.limits_topics
        self._retains = self.policies.retains
        self._retentions: dict[str, DestinationPolicy | None] = {}
        self._replays_begun = 0
        #: subscriptions whose history was given up before they had read it, and of which topic
        self._outrun: dict[Subscription, str] = {}
        self._count_again_at = 0
        #: whether there is anything to see to before each run but memory that is full
        self._gauging = self.limits.max_messages > 0 or self.limits.max_bytes > 0
        self._out = Outcome(1, 0)
        self._deeds: dict[type, Callable[[Any], None]] = {}

    def queue(self, address: str, *, durable: bool = True) -> Queue:
        """The queue of `address`, made when it does not exist."""
        queue = self.queues.get(address)
        if queue is None:
            queue = SyncQueue(self.marks) if address == SYNC_ADDRESS else Queue(address, durable=durable)
            queue.forwarded = queue.in_order = is_forwarded(address)
            queue.obey(self.policies.of(address))
            self.queues[address] = queue  # once it is whole
            self._tell_of_destination(DestinationMade(address))
        return queue

    def _account_of(self, peer: Peer) -> Account:
        """The account of a connection, opened when it has none."""
        if peer.account is None:
            of_user = self.users.setdefault(peer.user, UserAccount())
            of_user.connections += 1
            peer.account = Account(of_user)
        return peer.account

    def _close_account(self, peer: Peer) -> None:
        account, peer.account = peer.account, None
        if account is not None:
            account.of_user.connections -= 1
            if not account.of_user.connections:
                del self.users[peer.user]

    def _remember_body(self, queue: Queue, size: int) -> None:
        """Count a message of `queue` that takes so much memory from now on, or (less than 0) no more."""
        self.memory_bytes += size
        if queue.account is not None:
            queue.account.keep(size)

    def _has_room(self, queue: Queue, size: int) -> bool:
        """Whether one more message, which lives in memory only, may wait in a queue."""
        if queue.depth >= self.limits.topic_pending:
            return False
        return queue.account is None or queue.account.has_room(size, self.limits)

    def policy_of(self, queue: Queue) -> DestinationPolicy:
        """What holds for a queue; for that of a durable subscription, what its topic says."""
        return self.policies.of(queue.address, queue.named.terms.filter if queue.named is not None else "")

    def delayed(self, address: str) -> int:
        """How many messages are kept for a destination until they are due."""
        schedule = self.schedules.get(address)
        return 0 if schedule is None else len(schedule)

    def make_declared(self) -> None:
        """Make the queues that have a policy of their own."""
        for address in self.policies.exact:
            if address.startswith("/queue/"):
                self.queue(address)

    # ------------------------------------------------------------------ telling

    @property
    def _listened(self) -> bool:
        """Whether anybody hears what the broker tells of itself."""
        return self.topics.reaches(SYSTEM)

    def _tell_of_destination(self, fact: DestinationMade | DestinationGone | DestinationFull) -> None:
        """Temporary destinations are their owners' affair."""
        if self._listened and not fact.address.startswith("/temp-"):
            self._out.facts.append(fact)

    def _tell_of_consumer(self, fact: ConsumerJoined | ConsumerLeft | ConsumerSlow) -> None:
        """Who listens to the broker is not told of."""
        address = fact.subscription.address
        if self._listened and not address.startswith("/temp-") and not tells_of_broker(parse(address)):
            self._out.facts.append(fact)

    def _tell_of_dead_letter(self, queue: Queue, message: Message, reason: str, detail: str) -> None:
        """One fact a batch for each queue and reason, however many there are."""
        former = self._out.dead_letters.get((queue.address, reason))
        count = former.messages + 1 if former else 1
        fact = DeadLetter(queue.address, reason, count, self.ids.of(message).decode(), detail)
        self._out.dead_letters[queue.address, reason] = fact

    def _tell_of_arrivals(self) -> None:
        """One fact a batch for each queue whose messages wait for a bridge that is not there."""
        for address in self._out.forwarded:
            queue = self.queues.get(address)
            if queue is not None and not queue.consumers and queue.first_lane() is not None:
                self._out.facts.append(Arrived(address))

    # ------------------------------------------------------------------ consumers in line, and answers

    def _touch(self, queue: Queue) -> None:
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)

    def _offer(self, subscription: Subscription) -> None:
        """Let a subscription stand in line for messages when it has credit."""
        if (
            subscription.available
            or subscription.peer.paused
            or subscription.queue.held
            or subscription.unsettled >= subscription.credit
        ):
            return
        if subscription.peer.subscriptions.get(subscription.id) is not subscription:
            return  # it has ended; only its unsettled deliveries were left
        if subscription.queue.active not in (None, subscription):
            return  # an exclusive consumer is served
        subscription.available = True
        subscription.line.append(subscription)
        if subscription.selection is not None and subscription.queue.picking is not None:
            subscription.queue.picking.wake(subscription.selection)
        self._touch(subscription.queue)

    def _withdraw(self, subscription: Subscription) -> None:
        if subscription.available:
            subscription.available = False
            subscription.line.remove(subscription)

    def _answer_only(self, command: c.Answer) -> None:
        self._accept(command.peer, command.receipt)

    def _accept(self, peer: Peer, receipt: Any, answer: object = None) -> None:
        """Say yes; a detailed peer also gets `answer`: the message that was published, or what was moved."""
        if receipt is None:
            return
        peer.receipts.append((receipt, answer) if peer.detailed else receipt)
        if not peer.touched:
            peer.touched = True
            self._out.touched.append(peer)

    def _refuse(self, peer: Peer, receipt: Any, error: Exception) -> None:
        """Refuse a command before anything was changed. A strict peer hears only the first refusal, and is
        stopped by it. An `error` that is no refusal is a fault of the broker: it costs the client its
        connection, where it has one, and nobody else anything."""
        if peer.stopped:
            return
        if not isinstance(error, Refused):
            self._out.failures.append(Failure(peer, error))
            error = internal()
            if peer.connection:
                self._stop(peer)
                self._out.closes.append((peer, error))
                return
        if peer.strict:
            self._stop(peer)
        peer.refusals.append((receipt, error))
        self._rouse(peer)

    def _detail_of(self, peer: Peer, error: Exception) -> str:
        """Why one part of a command is not carried out while the others are. Notes a fault of the broker."""
        if isinstance(error, Refused):
            return error.detail
        self._out.failures.append(Failure(peer, error))
        return internal().detail

    def _stop(self, peer: Peer) -> None:
        """Carry out nothing more of a peer, until it disconnects."""
        peer.stopped = True
        if not peer.gone:
            self._stopped += 1

    def _rouse(self, peer: Peer) -> None:
        """Let a peer look into its mailbox after the commit."""
        if not peer.touched:
            peer.touched = True
            self._out.touched.append(peer)
