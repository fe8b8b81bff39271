"""A broker in a test: clients that send commands, a journal in memory, and a clock that the test sets.

It does with an outcome what the engine does, in the same order: commit, flush, fan-outs, closes, fetches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from broker_app.base.deadline import NEVER, Deadline
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.durability import records
from broker_app.core.durability.recovery import Recovery
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope, Message
from broker_app.core.model import Delivery, Peer, Queue, Subscription
from broker_app.core.outcome import Fetch, Outcome
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.core.reasons import name_of
from broker_app.core.remote.origin import Origin
from broker_app.core.storage.backlog import Backlog

START_US = 1_800_000_000_000_000


class Stored(NamedTuple):
    """One batch as a journal would give it back."""

    destinations: list[str]
    first_position: int
    records: bytes


class Record(NamedTuple):
    """One record of a batch, taken apart."""

    kind: int
    flags: int
    priority: int
    address: str
    position: int
    content: bytes
    #: of a forwarded message: the address of the replication offset, and its position there
    origin: tuple[str, int] | None = None
    #: the address of the client that sent it, or of those of each message, in order; empty for none
    clients: tuple[str, ...] = ()

    @property
    def client(self) -> str:
        """The only client."""
        (client,) = self.clients
        return client

    @property
    def reason(self) -> str:
        """The reason of an ACKED or RETURNED record."""
        return name_of(self.priority)

    @property
    def numbers(self) -> list[int]:
        return list(records.positions(self.content, 0, len(self.content)))

    @property
    def facts(self) -> dict[int, Fact] | None:
        """The facts of an ACKED record by position."""
        found = records.facts(self.content, 0, len(self.content))
        if found is None:
            return None
        rows = map(Fact, *found)
        return dict(zip(self.numbers, rows, strict=True))


class Fact(NamedTuple):
    """The facts of an ACKED record about one message."""

    queue_ms: int
    body_bytes: int
    header_bytes: int
    deliveries: int
    has_own_id: int


class Stage:
    def __init__(
        self,
        *,
        tag: int = 7,
        name: str = "",
        max_attempts: int = 16,
        policy: DestinationPolicy | None = None,
        **limits: int,
    ) -> None:
        self.tag = tag
        self.name = name
        self.limits = replace(Limits(), **limits)
        #: of destinations without a policy of their own
        self.policy = policy or DestinationPolicy(max_attempts=max_attempts)
        self.broker = Broker(tag=tag, name=name, limits=self.limits, policies=Policies(self.policy))
        self.now_us = START_US
        self.batches: list[Stored] = []
        self.bodies: dict[int, bytes] = {}
        self.fetches: list[Fetch] = []
        #: positions whose bodies cannot be read back
        self.damaged: set[int] = set()
        #: when a turn ends before everything is done; the batch is then decided in several
        self.deadline = NEVER
        #: whether bodies that the core asks for are handed in at once
        self.loading = True
        #: bodies that are handed in at a time; the others are left, as if they were too large together
        self.read_at_once = 1 << 30
        #: other brokers that own messages here, and have recorded at once what is reported to them
        self.recording: list[Origin] = []
        self._recorded: dict[Origin, int] = {}

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def client(self, name: str = "") -> Client:
        return Client(self, name)

    def give_policies(self, **policies: DestinationPolicy) -> None:
        """Give queues of these names policies of their own."""
        exact = {f"/queue/{name}": policy for name, policy in policies.items()}
        self.decide(c.Reconfigure(Policies(self.policy, exact)))

    @property
    def queues(self) -> dict[str, Queue]:
        """The broker's queues by address."""
        return self.broker.destinations.queues

    def queue(self, address: str) -> Any:
        return self.broker.destinations.queues[address]

    def decide(self, *run: c.Command) -> Outcome:
        """Carry out `run` and let the outcome out; returns it."""
        if self.deadline is not NEVER:  # the ledger knows the order of a run only
            self.broker.backlog = self.broker.backlog if self.broker.backlog.waiting else InOrder()
        outcome = self.broker.decide(run, self.now_us, None, self.deadline, is_last=False)
        while self.broker.is_behind:
            outcome = self.broker.decide((), self.now_us, outcome, self.deadline, is_last=False)
        self._check_follow_up()
        self._commit(outcome)
        self._let_out(outcome)
        if self.loading:
            self.load()
        for origin in self.recording:
            if origin.question > self._recorded.get(origin, 0):
                self._recorded[origin] = origin.question
                self.decide(c.RemoteRecorded(origin, origin.question))
        return outcome

    def _check_follow_up(self) -> None:
        """Nothing that the end of a turn is for has been forgotten, or would be in the next turn."""
        broker = self.broker
        admission, histories = broker.admission, broker.histories
        assert not (admission.blocked.changed or broker.forwarding.changed_offsets or histories.outrun)
        waits = histories.replays or admission.blocked_queues or admission.blocked_by_alarm
        assert broker.turn.follows_up == bool(waits or admission.paced.queues or broker.store.over_limit)

    def pass_time(self, ms: int) -> None:
        self.now_us += ms * 1000
        self.decide()

    def load(self) -> None:
        """Hand in all bodies that were asked for, and those asked for because of it."""
        while self.fetches:
            fetches, self.fetches = self.fetches, []
            for fetch in fetches:
                self.decide(self.loaded(fetch))

    def loaded(self, fetch: Fetch) -> c.Loaded:
        positions, left = fetch.positions[: self.read_at_once], fetch.positions[self.read_at_once :]
        found = [
            records.damaged(fetch.priority, "the disk lost it", self.now_ms)
            if position in self.damaged
            else self.bodies[position]
            for position in positions
        ]
        damaged = self.damaged.intersection(positions)
        return c.Loaded(fetch.address, fetch.priority, positions, fetch.purpose, found, damaged, left)

    def _commit(self, outcome: Outcome) -> None:
        if not outcome.count:
            assert not outcome.parts
            return
        stored = Stored(outcome.destinations, outcome.first_position, b"".join(outcome.parts))
        self.batches.append(stored)
        count = 0
        for record in read(stored):
            count += 1
            if record.kind == records.PUBLISHED:
                self.bodies[record.position] = record.content
        assert count == outcome.count

    def _let_out(self, outcome: Outcome) -> None:
        for peer in outcome.touched:
            peer.touched = False
            peer.receiver.flush(peer)
        for fanout in outcome.fanouts:
            assert fanout.members and fanout.messages
            for subscription in fanout.members:
                receiver = subscription.peer.receiver
                assert isinstance(receiver, Client)
                receiver.got += [(subscription, 0, message) for message in fanout.messages]
        for subscription, refusal in outcome.ended:
            subscription.peer.receiver.subscription_ended(subscription, refusal)
        for peer, refusal in outcome.closes:
            peer.receiver.close(refusal)
        for peer, on in outcome.throttles:
            peer.receiver.throttle(on)
        self.fetches += outcome.fetches

    def take_snapshot(self) -> bytes:
        return take_snapshot(self.broker)

    def recovered(self, snapshot: bytes | None = None, batches_before: int = 0) -> Broker:
        """A new broker from the journal: from `snapshot`, taken after so many batches, or from the start."""
        broker = self.new_broker()
        recovery = Recovery(broker)
        if snapshot is not None:
            recovery.load(snapshot)
        for batch in self.batches[batches_before:]:
            recovery.apply(*batch)
        recovery.finish(self.broker.turn.next_position, self.broker.turn.now_ms)
        return broker

    def new_broker(self) -> Broker:
        """A broker without any state, with the limits and policies of this one."""
        return Broker(tag=self.tag, name=self.name, limits=self.limits, policies=self.broker.turn.policies)

    def restart(self, broker: Broker | None = None) -> None:
        """The process was killed and came back, or another `broker` takes over: clients are gone, the journal
        is not."""
        self.broker = broker or self.recovered()
        self.fetches = []


class InOrder(Backlog):
    """A backlog in which all peers are one."""

    @staticmethod
    def peer_of(command: c.Command) -> Peer | None:
        return None


def interrupted(seed: int) -> Deadline:
    """A deadline that has passed half of the times when it is asked."""
    chance = Random(seed)
    return Deadline(lambda: chance.random() - 0.5)


def read(stored: Stored) -> Iterator[Record]:
    walk = records.walk(stored.records)
    for position, (kind, flags, priority, destination, start, end) in enumerate(walk, stored.first_position):
        address = stored.destinations[destination]
        content, origin = stored.records[start:end], None
        if kind == records.PUBLISHED and (found := records.origin_of(stored.records, start, flags)):
            origin = stored.destinations[found[0]], found[1]
        yield Record(kind, flags, priority, address, position, content, origin, _clients(stored, start, end))


def _clients(stored: Stored, start: int, end: int) -> tuple[str, ...]:
    content = stored.records
    kind, flags, *_ = next(records.walk(content[start:end]))
    found: Sequence[int] = ()
    if kind == records.PUBLISHED:
        found = (records.client_of(content, start, flags),)
    elif kind in (records.ACKED, records.RETURNED):
        found = records.clients(content, start, end) or ()
    return tuple("" if index == records.NO_CLIENT else stored.destinations[index] for index in found)


class Client:
    """One session. Its methods carry out one command each; they raise what the broker refuses."""

    def __init__(self, stage: Stage, name: str = "") -> None:
        self.stage = stage
        self.peer = Peer(self, user=name, detailed=True)
        #: deliveries in the order in which they came
        self.got: list[Delivery] = []
        self.accepted: list[tuple[Any, Message | None]] = []
        self.refused: list[tuple[Any, Refused]] = []
        self.closed: list[Refused] = []
        self.throttled = self.held = False

    # what the stage calls

    def flush(self, peer: Peer) -> None:
        self.accepted += peer.receipts
        self.refused += peer.refusals
        self.got += peer.deliveries
        for box in (peer.receipts, peer.refusals, peer.deliveries):
            box.clear()

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        raise NotImplementedError("the stage hands fan-outs over unrendered")

    def send(self, part: bytes) -> None:
        raise NotImplementedError("the stage hands fan-outs over unrendered")

    def throttle(self, on: bool) -> None:
        self.throttled = on

    def hold(self, on: bool) -> None:
        self.held = on

    def close(self, refusal: Refused) -> None:
        self.closed.append(refusal)

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        self.closed.append(refusal)

    # what tests call

    def do(self, command: Any) -> Message | None:
        command.receipt = token = object()
        self.stage.decide(command)
        if isinstance(command, c.Enlist) and all(refused is not token for refused, _ in self.refused):
            return None  # it is answered at COMMIT
        return self.answer(token)

    def answer(self, token: object) -> Message | None:
        for refused, refusal in self.refused:
            if refused is token:
                raise refusal
        (message,) = (message for accepted, message in self.accepted if accepted is token)
        return message

    def sending(self, address: str, *bodies: bytes, **facts: Any) -> c.Publish:
        envelope = Envelope(address, **facts)
        return c.Publish(self.peer, [(envelope, body, None) for body in bodies])

    def publish(self, address: str, body: bytes = b"", **facts: Any) -> Message:
        token = object()
        self.stage.decide(c.Publish(self.peer, [(Envelope(address, **facts), body, token)]))
        message = self.answer(token)
        assert message is not None
        return message

    def subscribe(
        self, address: str, ack: str = c.INDIVIDUAL, *, id: str = "1", **facts: Any
    ) -> Subscription:
        self.do(c.Subscribe(self.peer, id, address, ack, **facts))
        return self.peer.subscriptions[id]

    def unsubscribe(self, id: str = "1", **facts: Any) -> None:
        self.do(c.Unsubscribe(self.peer, id, **facts))

    def settle(self, *tags: int, cumulative: bool = False) -> None:
        self.do(c.Settle(self.peer, tags, cumulative))

    def give_back(self, *tags: int, **facts: Any) -> None:
        self.do(c.Return(self.peer, tags, **facts))

    def reject(self, *tags: int, detail: str = "") -> None:
        self.give_back(*tags, dead_reason="REJECTED", detail=detail)

    def purge(self, address: str) -> None:
        self.do(c.Purge(self.peer, address))

    def pause(self) -> None:
        self.stage.decide(c.Pause(self.peer))

    def resume(self) -> None:
        self.stage.decide(c.Resume(self.peer))

    def disconnect(self) -> None:
        self.stage.decide(c.Disconnect(self.peer))

    @property
    def tags(self) -> list[int]:
        """Its unsettled messages, oldest first."""
        return list(self.peer.unsettled)

    def take(self) -> list[bytes]:
        """The bodies that came since the last call."""
        got, self.got = self.got, []
        return [message.body for _, _, message in got]

    def take_attempts(self) -> list[tuple[bytes, int]]:
        """(body, attempts) of what came since the last call."""
        got, self.got = self.got, []
        return [(message.body, message.attempts) for _, _, message in got]


def bodies(messages: Sequence[Message]) -> list[bytes]:
    return [message.body for message in messages]
