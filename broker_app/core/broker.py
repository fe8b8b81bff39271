"""The broker as a pure function: `decide` turns a run of commands into an outcome. No I/O, no clock.

Every command changes memory and adds records of its durable changes to the outcome; after all commands of a
run, the queues that they touched deliver messages. The caller sends what the outcome contains only after its
records are durable; `recovery` makes the same broker of the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from broker_app.base.deadline import NEVER, Deadline
from broker_app.core import commands as c
from broker_app.core.accounts import Accounts
from broker_app.core.administration import Administration
from broker_app.core.delivery.chosen_delivery import ChosenDelivery
from broker_app.core.delivery.consumers import Consumers
from broker_app.core.delivery.deliveries import Deliveries
from broker_app.core.delivery.dispatcher import Dispatcher
from broker_app.core.delivery.local_preference import LocalPreference
from broker_app.core.delivery.unsettled import UnsettledDeliveries
from broker_app.core.destinations import Destinations
from broker_app.core.half_open import HalfOpenConnections
from broker_app.core.limits import Limits
from broker_app.core.model import Peer
from broker_app.core.outcome import DEAD, DUE, LANE, REPLAY, Outcome
from broker_app.core.policy import Policies
from broker_app.core.publishing.admission import Admission
from broker_app.core.publishing.bulk_publishing import BulkPublishing
from broker_app.core.publishing.destination_limits import DestinationLimits
from broker_app.core.publishing.publisher import Publisher
from broker_app.core.publishing.resource_alarms import ResourceAlarms
from broker_app.core.remote.cluster_usage import ClusterUsage
from broker_app.core.remote.inbound_forwarding import InboundForwarding
from broker_app.core.remote.interest import Interest
from broker_app.core.remote.offset import Offset
from broker_app.core.remote.remote_messages import RemoteMessages
from broker_app.core.remote.remote_receipts import RemoteReceipts
from broker_app.core.selective.delivery import SelectiveDelivery
from broker_app.core.storage.backlog import Backlog
from broker_app.core.storage.damaged_messages import DamagedMessages
from broker_app.core.storage.dead_letters import DeadLetters
from broker_app.core.storage.message_store import MessageStore
from broker_app.core.storage.scheduler import Scheduler
from broker_app.core.storage.sweeper import Sweeper
from broker_app.core.storage.transfers import Transfers
from broker_app.core.subscriptions import Subscriptions
from broker_app.core.temporary_queues import TemporaryQueues
from broker_app.core.topics.durable_subscriptions import DurableSubscriptions
from broker_app.core.topics.histories import Histories
from broker_app.core.topics.topic import Topics
from broker_app.core.topics.topic_delivery import TopicDelivery
from broker_app.core.transactions import Transactions
from broker_app.core.turn import Turn

#: carries out a command; gets what its check returned as well, unless that is None. Returns the rest of a
#: command that takes longer than a turn
Apply = Callable[..., "c.Command | None"]
Check = Callable[[Any], Any]
#: commands that are carried out between two looks at the clock, less one: a mask
_COMMANDS = 3


class Broker:
    """All destinations, subscriptions and unsettled deliveries of one broker, each with its owner.

    Each component owns its state, and uses those that are built before it. `tag` distinguishes this broker's
    message ids from others'; `name` is in its dead letters.
    """

    def __init__(
        self,
        *,
        tag: int = 0,
        name: str = "",
        limits: Limits | None = None,
        policies: Policies | None = None,
    ) -> None:
        topics, offsets = Topics(), dict[str, Offset]()
        turn = self.turn = Turn(tag=tag, limits=limits, policies=policies, topics=topics)
        self.unsettled = UnsettledDeliveries(turn)
        self.accounts = Accounts()
        half_open = HalfOpenConnections(turn, self._end_all)
        destinations = self.destinations = Destinations(turn, topics, offsets)
        store = self.store = MessageStore(turn)
        self.scheduler = Scheduler(turn)
        self.histories = Histories(turn, store)
        dead_letters = DeadLetters(turn, destinations, store, name)
        selective = self.selective = SelectiveDelivery(turn, store)
        self.remote = RemoteMessages(turn, destinations, store, selective, self.unsettled.leases)
        self.remote_receipts = RemoteReceipts(turn)
        self.dispatcher = Dispatcher(
            turn, destinations, store, dead_letters, selective, self.unsettled.leases, self.remote
        )
        topic_delivery = TopicDelivery(turn, destinations, store, selective, self.histories)
        self.local_preference = LocalPreference(turn, store)
        consumers = Consumers(store, selective, self.local_preference)
        self.deliveries = Deliveries(
            turn, store, dead_letters, selective, consumers, self.unsettled, self.remote_receipts
        )
        self.durables = DurableSubscriptions(
            turn, self.accounts, destinations, store, consumers, self.unsettled
        )
        self.temporary_queues = TemporaryQueues(turn, self.accounts, destinations, store)
        self.subscriptions = Subscriptions(
            *(turn, self.accounts, destinations, store, self.temporary_queues, topic_delivery, consumers),
            *(self.unsettled, self.deliveries, self.histories, self.durables, half_open),
        )
        self.publisher = Publisher(
            turn, destinations, store, self.scheduler, selective, self.histories, topic_delivery
        )
        self.cluster_usage = ClusterUsage()
        self.destination_limits = DestinationLimits(
            *(turn, destinations, store, self.scheduler, dead_letters, self.unsettled, half_open),
            self.cluster_usage,
        )
        self.resource_alarms = ResourceAlarms(turn, destinations, store)
        self.admission = Admission(
            *(turn, destinations, store, self.dispatcher, self.publisher),
            *(self.destination_limits, self.resource_alarms),
        )
        self._paced = self.admission.paced
        self.interest = Interest(turn)
        self.subscriptions.on_begin += (self.admission.subscription_changed, self.interest.begin)
        self.subscriptions.on_end += (
            *(self.admission.subscription_changed, self.interest.end),
            *(self.remote.consumer_left, self.temporary_queues.consumer_left),
        )
        self.subscriptions.on_credit.append(self.interest.credit_changed)
        self.forwarding = InboundForwarding(
            *(turn, destinations, store, consumers, self.subscriptions, self.publisher),
            *(self.destination_limits, self.resource_alarms, offsets),
        )
        self.bulk = BulkPublishing(
            turn, destinations, store, self.publisher, self.admission, self.resource_alarms
        )
        self.transactions = Transactions(
            *(turn, self.accounts, destinations, self.deliveries, self.admission, self.remote_receipts),
            self._execute,
        )
        transfers = Transfers(
            *(turn, destinations, store, self.scheduler, selective, self.unsettled),
            *(self.destination_limits, self.resource_alarms),
        )
        chosen = ChosenDelivery(turn, destinations, store, dead_letters, selective, self.unsettled)
        administration = self.administration = Administration(
            *(turn, destinations, store, self.scheduler, consumers, self.unsettled),
            *(self.histories, self.destination_limits, self.resource_alarms, self.admission, self.remote),
        )
        damaged = DamagedMessages(
            turn, destinations, store, self.scheduler, dead_letters, self.histories, transfers
        )
        damaged.readers |= {
            LANE: self.dispatcher.loaded,
            DUE: self.publisher.publish_due,
            REPLAY: self.histories.replayed,
            DEAD: self.deliveries.body_read,
        }
        self.sweeper = Sweeper(
            *(turn, destinations, store, self.scheduler, dead_letters, selective, self.deliveries),
            *(self.histories, self.publisher.dedup_windows, self.unsettled),
            (
                self.admission.refuse_overdue,
                self.subscriptions.check_slow_consumers,
                self.destination_limits.check_shared,
                self.temporary_queues.remove_overdue,
            ),
            self.cluster_usage,
        )
        self._commands = self._table(transfers, chosen, administration, damaged)
        #: commands that were left when the deadline had passed
        self.backlog = Backlog()
        #: whether the deadline left something to do: `decide` has to be called even without commands
        self.is_behind = False

    def _table(
        self,
        transfers: Transfers,
        chosen: ChosenDelivery,
        administration: Administration,
        damaged: DamagedMessages,
    ) -> dict[type, tuple[Check | None, Apply]]:
        """The check of each command, and the method that carries it out. A check changes nothing but what
        ends in any case, so that its errors, expected or not, affect only the client."""
        deliveries, subscriptions = self.deliveries, self.subscriptions
        forwarding, bulk, transactions = self.forwarding, self.bulk, self.transactions
        return {
            c.Publish: (None, self.admission.publish),
            c.Subscribe: (subscriptions.check_subscribe, subscriptions.subscribe),
            c.SetInnerAck: (None, subscriptions.set_inner_ack),
            c.Unsubscribe: (subscriptions.check_unsubscribe, subscriptions.unsubscribe),
            c.SetCredit: (subscriptions.check_credit, subscriptions.set_credit),
            c.DeliverTo: (None, subscriptions.deliver_to),
            c.DeliverRemote: (None, self.remote.deliver),
            c.PublishRemote: (None, self.publisher.publish_remote),
            c.ReturnRemote: (None, self.remote.give_back_old),
            c.EndOrigin: (None, self._end_origin),
            c.RemoteRecorded: (None, self.remote_receipts.recorded),
            c.CreateSubscription: (self.durables.check_create, self.durables.create),
            c.DeleteSubscription: (subscriptions.check_delete_durable, subscriptions.delete_durable),
            c.Settle: (deliveries.check_tags, deliveries.settle),
            c.Return: (deliveries.check_tags, deliveries.return_),
            c.RetryDelayed: (None, deliveries.retry_delayed),
            c.Extend: (deliveries.check_tags, deliveries.extend),
            c.Begin: (transactions.check_begin, transactions.begin),
            c.Enlist: (None, transactions.enlist),
            c.Commit: (None, transactions.commit),
            c.Abort: (transactions.check_abort, transactions.abort),
            c.MarkRollbackOnly: (None, transactions.mark_rollback_only),
            c.Pause: (None, subscriptions.pause),
            c.Resume: (None, subscriptions.resume),
            c.Answer: (None, self._answer),
            c.Refuse: (None, self._refuse),
            c.Disconnect: (None, self._disconnect),
            c.Loaded: (None, damaged.loaded),
            c.Purge: (administration.check_purge, administration.purge),
            c.Transfer: (transfers.check_transfer, transfers.transfer),
            c.DeliverChosen: (chosen.check, chosen.deliver),
            c.Insert: (transfers.check_insert, transfers.insert),
            c.BridgeConnected: (None, forwarding.bridge_connected),
            c.BeginFlow: (forwarding.check_begin_flow, forwarding.begin_flow),
            c.Forward: (None, forwarding.forward),
            c.BreakFlow: (None, forwarding.break_flow),
            c.DeleteOffset: (forwarding.check_unused, forwarding.delete_offset),
            c.ReassignOffset: (forwarding.check_unused, forwarding.reassign_offset),
            c.PublishBulk: (None, bulk.publish),
            c.Parts: (None, self.turn.in_parts),
            c.Steps: (None, self.turn.in_parts),
            c.DeleteBulkProducer: (bulk.check_delete, bulk.delete),
            c.Reconfigure: (None, administration.reconfigure),
            c.CreateQueue: (administration.check_create, administration.create_queue),
            c.DeleteQueue: (administration.check_delete, administration.delete_queue),
            c.MarkRepeat: (None, self.publisher.mark_repeat),
            c.DeleteUnused: (None, self.sweeper.delete_unused),
            c.StoreSpace: (None, self.resource_alarms.store_space),
            c.ClockStepped: (None, self._clock_stepped),
        }

    @property
    def holds(self) -> bool:
        """True while commands are held that are carried out in a moment, though nothing else may come."""
        return self._paced.held_bytes > 0

    def decide(
        self,
        run: Sequence[c.Command],
        now_us: int,
        onto: Outcome | None = None,
        deadline: Deadline = NEVER,
        *,
        is_last: bool = True,
    ) -> Outcome:
        """Carry out `run` in order at the time `now_us` (µs since 1970, UTC) and return the outcome.

        `onto` is the outcome of the former call when it is not committed yet: it is extended and returned.
        When `deadline` has passed, the rest is left for the next call (`is_behind`), where peers take turns.
        While `backlog.in_steps`, the outcome must not be committed: the next call extends it.
        Queues deliver after all commands, or when the batch ends with this call (`is_last`).
        """
        # Conditions are here, not in the methods they guard: most turns are short, and a call costs more.
        turn, store = self.turn, self.store
        out = turn.begin(now_us, onto, deadline)
        backlog = self.backlog
        if (
            self.resource_alarms.checked_each_turn or store.memory_bytes > turn.limits.memory_bytes
        ) and not backlog.in_steps:
            self.resource_alarms.check()
        left = backlog.waiting
        if left:
            backlog.add(run)
            self._catch_up()
        else:
            commands = self._commands
            for at, command in enumerate(run, 1):
                if turn.stopped_peers and _is_ignored(command):
                    continue
                check, apply = commands[type(command)]
                rest = apply(command) if check is None else self._check_and_apply(command, check, apply)
                if rest is not None or (at & _COMMANDS == 0 and deadline.passed):
                    if rest is not None:
                        backlog.put_back(rest)
                    backlog.add(run[at:])
                    if not deadline.passed:
                        self._catch_up()
                    break
        if backlog.in_steps:
            self.is_behind = True
            return out
        delivers = is_last or not left
        if delivers:
            if turn.now_ms >= turn.next_call_ms:
                self._run_due()
            if left or len(run) > _COMMANDS:
                deadline.begin()  # deliveries have their time whatever the commands have taken
            if store.dirty:
                self.dispatcher.run()
        if turn.follows_up:
            self._follow_up(delivers)
        if store.acknowledging:
            store.record_acks()
        if out.fanouts:
            out.close_fanouts()
        if out.forwarded:
            self.destinations.emit_arrivals()
        self.is_behind = bool(left or store.dirty)
        turn.next_position = out.first_position + out.count
        return out

    def _run_due(self) -> None:
        """Do what is due at this time, and find out when something is due next. Paced producers report that
        themselves: they are reviewed in each turn while some wait."""
        self.sweeper.run_due()
        self.local_preference.run_due()
        sweep_ms = self.sweeper.sweep_ms
        self.turn.next_call_ms = min(
            self.unsettled.leases.alarms.next_ms or sweep_ms,
            self.scheduler.alarms.next_ms or sweep_ms,
            self.local_preference.alarms.next_ms or sweep_ms,
            sweep_ms,
        )

    def _follow_up(self, delivers: bool) -> None:
        """Do what few turns have left at their end: `Turn.follows_up`, which stays set where the next turn
        has to look again."""
        admission, histories = self.admission, self.histories
        if histories.outrun:
            self.subscriptions.end_outrun()
        if histories.replays:
            histories.advance_replays()
        if self._paced.next_ms and admission.end_waits() and delivers:
            self.dispatcher.run()
        if delivers and (self.store.over_limit or admission.blocked_queues or admission.blocked_by_alarm):
            admission.admit_blocked()
        if admission.blocked.changed:
            self.turn.out.throttles += admission.blocked.turns()
        if self.forwarding.changed_offsets:
            self.forwarding.record_offsets()
        self.turn.follows_up = bool(
            histories.outrun
            or histories.replays
            or self.store.over_limit
            or admission.blocked_queues
            or admission.blocked_by_alarm
            or self._paced.next_ms
        )

    def _catch_up(self) -> None:
        """Carry out commands that were left, until none is or the deadline has passed."""
        backlog, deadline = self.backlog, self.turn.deadline
        for at in count(1):
            if not backlog.waiting:
                return
            command = backlog.take()
            if not (self.turn.stopped_peers and _is_ignored(command)):
                check, apply = self._commands[type(command)]
                rest = apply(command) if check is None else self._check_and_apply(command, check, apply)
                if rest is not None:
                    backlog.put_back(rest)
                if (rest is not None or at & _COMMANDS == 0) and deadline.passed:
                    return

    def _execute(self, command: c.Command) -> Iterator[None]:
        """Carry out a command of a transaction, in steps."""
        left: c.Command | None = command
        while left is not None:
            check, apply = self._commands[type(left)]
            left = apply(left) if check is None else self._check_and_apply(left, check, apply)
            yield

    def _check_and_apply(self, command: Any, check: Check, apply: Apply) -> c.Command | None:
        """Carry out a command whose check passes; an error of the check is answered to its peer."""
        try:
            checked = check(command)
        except Exception as error:
            self.turn.refuse(command.peer, command.receipt, error)
            return None
        return apply(command) if checked is None else apply(command, checked)

    # ------------------------------------------------------------------ commands of several components

    def _answer(self, command: c.Answer) -> None:
        self.turn.accept(command.peer, command.receipt)

    def _refuse(self, command: c.Refuse) -> None:
        self.turn.refuse(command.peer, command.receipt, command.refusal)

    def _disconnect(self, command: c.Disconnect) -> c.Disconnect | None:
        peer, receipt = command.peer, command.receipt
        if not command.goes_on:
            self.transactions.end_all(peer)
            receipt = self.admission.disconnect(command)
            self.turn.forget(peer)
        if not self.subscriptions.end_all(peer):
            return c.Disconnect(peer, receipt, command.abandon, goes_on=True)
        self.remote_receipts.disconnect(c.Disconnect(peer, receipt, command.abandon))
        return None

    def _end_origin(self, command: c.EndOrigin) -> c.Steps | None:
        def steps() -> Iterator[None]:
            yield from self.remote.end_origin(command.origin)
            self.remote_receipts.origin_ended(command.origin)

        return self.turn.in_parts(c.Steps(command.origin.peer, steps()))

    def _end_all(self, peer: Peer) -> None:
        """End all that a peer has, at once."""
        self.transactions.end_all(peer)
        while not self.subscriptions.end_all(peer):
            """It may take longer than a turn."""

    def _clock_stepped(self, command: c.ClockStepped) -> None:
        """Shift time limits in memory (waits, leases, sweeps, idle times) as if the clock had not been set.
        Times that are stored, or that users give as times of day, follow the clock."""
        for owner in (
            self.sweeper,
            self.deliveries,
            self.subscriptions,
            self.temporary_queues,
            self.admission,
            self._paced,
            self.local_preference,
            self.destination_limits,
            self.resource_alarms,
        ):
            owner.shift_time_limits(command.by_ms)
        self.turn.next_call_ms = 0  # all that is due has another time now


def _is_ignored(command: c.Command) -> bool:
    """Return whether a command was sent after its connection was stopped."""
    peer: Peer | None = getattr(command, "peer", None)
    return peer is not None and peer.stopped and type(command) not in (c.Disconnect, c.Parts, c.Steps)
