"""An independent model of everything a broker does, and the laws that the broker must keep.

The ledger does not know lanes, fan-out groups or offsets. It follows the accepted commands and the outcomes,
run by run, and compares the result with the state of the broker:

- nothing lost: every recorded message waits or is unsettled, or its end is recorded, once, with the right
cause - nothing twice: a message that is delivered again has the number of its former deliveries - order: per
queue and priority as accepted; per topic subscription and priority as published - limits: credit, pending
messages, memory, attempts; a consumer that can receive a message gets one if there is any - policies: paused
clients receive or send nothing; queues that have a policy of their own exist - time: a delayed message is
published when it is due, not before, under its id - delayed redelivery: such a message is neither lost nor
delivered before its delay ends - deduplication: within its window, a dedup-id is stored and delivered once,
also after a restart - forwarding: messages of another broker are stored once, in order, and its replication
offset is right - batches: each batch of a producer is published once, all of its rows, in its turn - facts:
the records of messages that are gone show how long they waited, how large they were and how often clients
received them; each failed delivery has a record, and each forwarded message names where it came from -
clients: records name the client that sent, received or acknowledged a message, and the reason why a delivery
failed or a message was removed - recovery: the records, from the start or from a snapshot in between, give
the same broker
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core import client_address
from broker_app.core import commands as c
from broker_app.core.account import Account
from broker_app.core.destination import QUEUE, TOPIC, is_forwarded, parse
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.limits import Limits
from broker_app.core.message import OVERHEAD_BYTES, Envelope, Message
from broker_app.core.model import Delivery, Peer, Queue, Subscription
from broker_app.core.outcome import (
    DUE,
    Arrived,
    ConsumerJoined,
    ConsumerLeft,
    DeadLetter,
    DestinationCreated,
    DestinationDeleted,
    Event,
    Outcome,
)
from broker_app.core.publishing.bulk_producer import is_bulk_producer
from broker_app.core.reasons import CONSUMER_LEFT, EXPIRED, LEASE_ENDED, MAX_ATTEMPTS, NACKED, REJECTED
from broker_app.core.remote.offset import address_of
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from broker_app.core.storage import dead_letter_headers
from broker_app.core.storage.scheduler import RUNS
from broker_app.core.storage.transfers import DONE, FULL, UNSETTLED, TransferResult
from broker_app.core.turn import UNRECORDED
from tests.core import choices
from tests.core.bulk_producers import Part, Producer
from tests.core.home_brokers import Home, SenderFlow
from tests.core.stage import Client, Fact, Record, Stage, read

#: causes of messages that are in memory when they end, and of those that are not
KNOWN = (records.ACKNOWLEDGED, records.EXPIRED, records.DEAD_LETTERED, records.MOVED)
UNREAD = (records.DUE, records.TRIMMED)


def matches(pattern: str, address: str) -> bool:
    """Return whether the topic filter `pattern` matches: level by level, in the simplest way."""
    if address.startswith("/temp-topic/") or pattern.startswith("/temp-topic/"):
        return pattern == address
    wanted, levels = pattern.removeprefix("/topic/").split("."), address.removeprefix("/topic/").split(".")
    if levels[0].startswith("$") and wanted[0] != levels[0]:
        return False
    if wanted[-1] in (">", "#"):
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(a in ("*", b) for a, b in zip(wanted, levels, strict=True))


def serial_of(body: bytes) -> int:
    """Every message of a storm has a number of its own at the front of its body."""
    return int(body.partition(b":")[0])


def has_expired(expires_ms: int, now_ms: int) -> bool:
    return 0 < expires_ms <= now_ms


class Name:
    """A named subscription in the ledger's eyes: `copies` is how many messages came to it in this life."""

    def __init__(self, command: c.Subscribe) -> None:
        self.filter, self.durable, self.shared = command.address, command.durable, command.shared
        kind = "topic-subscription" if command.durable else "shared-subscription"
        self.address = f"/{kind}/{command.name}"
        self.selector = command.selector
        self.copies = 0


def dead_letters_of(address: str, filters: set[str]) -> set[str]:
    """The queues of dead letters of an address; for a durable subscription, those below its topics."""
    name = address.removeprefix("/topic-subscription/")
    if name == address:
        return {f"{address}.dead"}
    return {f"/queue/$topic-subscription/{topic.removeprefix('/topic/')}/{name}.dead" for topic in filters}


def weight_of(actions: Sequence[c.Command]) -> int:
    """The memory that commands use until their transactions end."""
    entries = [entry for action in actions for entry in getattr(action, "entries", ())]
    tags = [getattr(action, "tags", ()) for action in actions if not isinstance(action, c.Publish)]
    return sum(len(body) + len(envelope.block) + OVERHEAD_BYTES for envelope, body, _ in entries) + sum(
        OVERHEAD_BYTES + 8 * len(some) for some in tags
    )


class Interest:
    """A subscription in the ledger's eyes."""

    def __init__(self, command: c.Subscribe, name: Name | None) -> None:
        self.address, self.credit = command.address, command.credit
        #: the largest credit that it had; it may still hold as many
        self.most_credit = command.credit
        self.is_auto = command.ack == c.AUTO
        #: whether a part of the node settles what the client needs not
        self.inner_ack = command.inner_ack and self.is_auto
        self.lease_ms = command.lease_ms
        self.selector = command.selector
        self.name = name
        self.is_topic = name is None and not parse(command.address).is_queue
        #: the address of its client
        self.client = command.peer.client
        #: whether it gets what is retained in the order of the journal, and what of that is still to come
        self.in_order = bool(command.start) and command.address.startswith("/topic/")
        self.to_come: deque[int] = deque()
        #: what was given up in the run in which it began
        self.excused: set[int] = set()
        #: the newest message of each topic, if it began with them: it gets those that are still retained
        self.latest: set[int] = set()
        #: serials that were published to it, and those of them that came
        self.expected: set[int] = set()
        self.came: set[int] = set()
        #: when the newest that came was accepted, by priority
        self.newest: dict[int, int] = {}
        self.deliveries = 0

    @property
    def settles(self) -> bool:
        """True if its deliveries are unsettled."""
        return self.inner_ack or not self.is_auto


class Session:
    """A client in the ledger's eyes."""

    def __init__(self, client: Client, number: int) -> None:
        self.client, self.number = client, number
        self.peer: Peer = client.peer
        self.interests: dict[str, Interest] = {}
        #: those that the broker ended in this run, which may have got something before
        self.ended: dict[str, Interest] = {}
        #: the flows that it began, and the offsets that it received in this run
        self.sender_flows: dict[str, SenderFlow] = {}
        self.offsets: list[Message] = []
        #: what it received by position in this run, by id of the command
        self.chosen: dict[str, Interest] = {}
        self.held: dict[int, tuple[Interest, Message]] = {}
        self.until_ms: dict[int, int] = {}
        #: what came in this run
        self.got: list[Delivery] = []
        self.transactions: dict[str, list[Any]] = {}
        self.paused = self.closed = self.leaving = False

    def meant(self, command: c.Settle | c.Return) -> list[int]:
        """The tags that a settling command means, known or not."""
        tags = [tag for tag in command.tags if tag in self.held] if command.lenient else command.tags
        if not command.cumulative:
            return list(dict.fromkeys(tags))
        unknown = [tag for tag in tags if tag not in self.held]
        tops = [(tag, self.held[tag][0]) for tag in tags if tag in self.held]
        return unknown + [
            tag
            for tag, (interest, _) in self.held.items()
            if any(tag <= top and interest is of for top, of in tops)
        ]


class Live(NamedTuple):
    """A recorded message that is not gone."""

    address: str
    flags: int
    body: bytes
    expires_ms: int
    due_ms: int = 0
    id: bytes = b""
    header_bytes: int = 0
    accepted_ms: int = 0


class Ledger:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.limits: Limits = stage.limits
        self.sessions: list[Session] = []
        self.decided = False
        self.live: dict[int, Live] = {}
        #: when an id came within the window, with which body; and the bodies of repeats
        self.ids_seen: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.repeats: set[bytes] = set()
        self.ever_recorded: set[bytes] = set()
        #: the order in which messages were accepted, by serial
        self.accepted_at: dict[int, int] = {}
        self.expires_ms: dict[int, int] = {}
        #: where forwarded messages come from: the address of the offset and the position there, by body
        self.origins: dict[bytes, tuple[str, int]] = {}
        #: the address of the client that sent a message, by body
        self.sent_by: dict[bytes, str] = {}
        #: how often a message was handed out, by (queue, position)
        self.times: Counter[tuple[Any, int]] = Counter()
        #: positions below this one were recorded before the last restart
        self.life_began_at = 1
        self.choices = choices.Choices(self._envelope_at)
        self.purged: Counter[Queue] = Counter()
        self.moved: Counter[Queue] = Counter()
        #: the order in which what was moved was accepted at its new place
        self.moved_at: dict[tuple[str, int], int] = {}
        self.acceptances = 0
        self.at_start: dict[Queue, int] = {}
        self.interests: dict[Subscription, Interest] = {}
        self._envelopes: dict[int, Envelope] = {}
        self.policies = stage.broker.turn.policies
        self.all_policies = [self.policies]
        #: queues that an administrator has removed although their policy stands
        self.removed: set[str] = set()
        self._hear_anew()
        #: what other brokers forward
        self.homes: list[Home] = []
        #: producers of batches by name, and what commands publish for them, by receipt
        self.producers: dict[str, Producer] = {}
        self.parts: dict[Any, Part] = {}
        self.names: dict[str, Name] = {}
        #: the topics that durable subscriptions are and were on
        self.filters: defaultdict[str, set[str]] = defaultdict(set)
        #: what topics retain, in order: serial → (address, time); and the positions by serial
        self.retained: dict[int, tuple[str, int]] = {}
        self.position_of: dict[int, int] = {}
        self.envelope_of: dict[int, Envelope] = {}
        self.ever_retained: set[int] = set()
        self.given_up: set[int] = set()
        #: where each message was sent, by serial
        self.sent_to: dict[int, str] = {}
        #: what was rejected in this run, or before, if its body is still being read
        self.rejected: set[int] = set()
        self._forget_run()

    def _forget_run(self) -> None:
        self.answers: dict[Any, Any] = {}
        self.refusals: dict[Any, Refused] = {}
        self.recorded: list[tuple[str, bytes]] = []
        self.scheduled: list[tuple[str, bytes, int]] = []
        #: (address, body, id) of scheduled messages that came to be due
        self.due: list[tuple[str, bytes, bytes]] = []
        self.read_back: list[int] = []
        self.copied: Counter[tuple[str, bytes]] = Counter()
        #: what is published in this run, and not because it came to be due
        self.fresh: set[bytes] = set()
        self.historic: list[tuple[str, bytes]] = []
        #: (position, client) of what was acknowledged
        self.settled: list[tuple[int, str]] = []
        self.rejected &= self._resting()
        self.returned: dict[int, Message] = {}
        #: (position, client, reason) of recorded deliveries that failed in this run; the positions of those
        #: that began, and (position, client)
        self.failed: list[tuple[int, str, str]] = []
        self.begun: Counter[int] = Counter()
        self.begun_by: set[tuple[int, str]] = set()
        self.emptied: set[str] = set()
        #: positions that were moved away, and deleted
        self.left: set[int] = set()
        self.deleted: set[int] = set()
        #: the addresses of producers whose batches were published, and that were forgotten
        self.committed: list[str] = []
        self.uncommitted: list[str] = []
        #: what was republished: address and body
        self.placed: list[tuple[str, bytes]] = []
        self.paused_peers = {session.peer for session in self.sessions if session.paused}

    # ------------------------------------------------------------------ one run

    def _resting(self) -> set[int]:
        """The messages that wait for another attempt, or for their bodies, to be dead letters."""
        return {m.position for _, m in self.stage.broker.unsettled.delayed.peer.unsettled.values()}

    def decide(self, run: Sequence[Any]) -> None:
        """Let the broker carry out `run` and hold what it did against the ledger."""
        self.there_before = set(self.stage.queues)
        self.resting_before = self._resting()
        depths = {address: (queue, queue.depth) for address, queue in self.stage.queues.items()}
        used = {
            address
            for address, queue in self.stage.queues.items()
            if queue.consumers
            or queue.depth
            or queue.unsettled
            or self.stage.broker.scheduler.delayed(address)
        }
        self._forget_run()
        self.decided = True
        self.sweep_ms = self.stage.broker.sweeper.sweep_ms
        outcome = self.stage.decide(*run)
        self._note_due(outcome)
        for session in self.sessions:
            client = session.client
            self.answers.update(client.accepted)
            # A transaction may publish so much to its own session that this ends before it settles.
            self.refusals.update(
                refused for refused in client.refused if refused[0] is not None or not client.closed
            )
            client.accepted.clear()
            client.refused.clear()
            session.offsets = [m for _, _, m in client.got if m.envelope.address == SYNC_ADDRESS]
            client.got = [got for got in client.got if got[2] not in session.offsets]
            session.closed = session.closed or bool(client.closed)
        assert None not in self.refusals, f"refused without having been asked: {self.refusals[None]}"
        by_peer = {session.peer: session for session in self.sessions}
        for command in run:
            if isinstance(command, c.Reconfigure):
                self.policies = command.policies
                self.all_policies.append(self.policies)
                self.removed.clear()
                self.there_before.update(self.policies.exact)
            elif isinstance(command, c.DeleteQueue):
                self._follow_deletequeue(command, used)
            elif isinstance(command, c.Purge) and command.receipt in self.answers:
                if command.address in depths:  # else it was made in this run
                    queue, depth = depths[command.address]
                    self.purged[queue] += depth
                    depths[command.address] = (queue, 0)
                self.emptied.add(command.address)
            elif isinstance(command, c.Loaded):
                self._follow_loaded(command)
            elif isinstance(command, c.SetInnerAck):
                self._follow_setinnerack(by_peer.get(command.subscription.peer), command)
            elif not isinstance(command, c.Purge):
                self._follow(by_peer[command.peer], command)
        for session in self.sessions:
            self._end_what_was_slow(session)
            self._meet(session)
        self._check_deliveries()
        self._check_records(outcome)
        self._check_state()
        told = outcome.take_events()
        self._check_facts(told)
        self._check_arrivals(outcome, told)

    def restarted(self) -> None:
        """The broker was killed and recovered: unrecorded state is lost, all clients have to reconnect."""
        self.decided = False
        # An id lives as long as its message: both are on the disk, or both are lost.
        for seen in [seen for seen, (_, body) in self.ids_seen.items() if body not in self.ever_recorded]:
            del self.ids_seen[seen]
        self.sessions.clear()
        self.removed.clear()
        for record in read(self.stage.batches[-1]) if self.stage.batches else ():
            if record.kind == records.ACKED and record.flags == records.TRIMMED:  # unobserved
                for position in record.numbers:
                    live = self.live.pop(position, None)
                    if live is not None:
                        del self.retained[serial_of(live.body)]
        self.interests.clear()
        self.names = {address: name for address, name in self.names.items() if name.durable}
        for name in self.names.values():
            name.copies = 0
        self.purged.clear()
        self.moved.clear()
        for key in [key for key in self.times if key[1] >= UNRECORDED]:
            del self.times[key]
        for place in [place for place in self.moved_at if place[1] >= UNRECORDED]:
            del self.moved_at[place]
        self.life_began_at = self.stage.broker.turn.next_position
        self.sweep_ms = self.stage.now_ms + 1
        self._hear_anew()
        self.at_start = {queue: queue.depth for queue in self.stage.queues.values()}
        self._check_state()

    # ------------------------------------------------------------------ following the commands

    def _follow_deletequeue(self, command: c.DeleteQueue, used: set[str]) -> None:
        address = command.address
        if command.receipt not in self.answers:
            assert address in used or address not in self.there_before
            return
        assert address in self.there_before
        self.removed.add(address)
        self.there_before.discard(address)
        self.emptied.add(address)
        for session in self.sessions:
            for tag in [tag for tag, (holder, _) in session.held.items() if holder.address == address]:
                del session.held[tag]

    def _follow(self, session: Session, command: Any) -> None:
        getattr(self, "_follow_" + type(command).__name__.lower())(session, command)

    def _accepted(self, session: Session, command: Any) -> bool:
        """Return whether it was accepted; commands without a receipt are of an accepted transaction."""
        if command.receipt is None:
            return True
        assert (command.receipt in self.answers) != (command.receipt in self.refusals), "one answer to each"
        return command.receipt in self.answers

    def _follow_publish(self, session: Session, command: c.Publish) -> None:
        for envelope, body, receipt in command.entries:
            try:
                destination = parse(envelope.address)
                legal = destination.is_queue or not set(destination.name.split(".")) & {"*", ">", "#"}
            except Refused:
                legal = False
            policy, options = self.policies.of(envelope.address), envelope.options
            if options and options.is_delayed and envelope.address.startswith("/temp-"):
                legal = False
            legal = legal and not policy.refuses_producers
            if receipt is not None:
                if envelope.address.startswith("/queue/") and not policy.auto_create:
                    legal = legal and (receipt in self.answers or envelope.address in self.there_before)
                assert (receipt in self.answers) == legal
                assert (receipt in self.refusals) != legal
            if legal:
                self._publish(envelope, body, command.client or session.peer.client)

    def _publish(self, envelope: Envelope, body: bytes, client: str) -> None:
        self.sent_by[body] = client
        self.fresh.add(body)
        now_ms, serial, options = self.stage.now_ms, serial_of(body), envelope.options
        self.sent_to[serial] = envelope.address
        due_ms = max(now_ms, options.due_ms, now_ms + options.delay_ms) if options else now_ms
        ends = [envelope.expires_ms, due_ms + envelope.ttl_ms if envelope.ttl_ms else 0]
        self.expires_ms[serial] = min((end for end in ends if end), default=0)
        # What is sent to a temporary queue without an owner goes nowhere, at once, and is not remembered.
        temporary = "temp-queue" in envelope.address
        if options and not temporary and self._is_repeat(envelope.address, options.dedup_id, body):
            return
        if due_ms > now_ms:
            self.scheduled.append((envelope.address, body, due_ms))
        elif envelope.address.startswith("/queue/"):
            self._arrive(serial)
            if envelope.persistent or is_forwarded(envelope.address):
                self.recorded.append((envelope.address, body))
        elif "topic/" in envelope.address:
            self._arrive(serial)
            self._expect(envelope, body)
        else:
            self._arrive(serial)

    def _is_repeat(self, address: str, dedup_id: str, body: bytes) -> bool:
        """Return whether the window knows the id; otherwise it does from now on."""
        window_ms = self.policies.of(address).dedup_window_ms
        known = self.ids_seen.get((address, dedup_id))
        if dedup_id and known is not None and known[0] > self.stage.now_ms - window_ms:
            self.repeats.add(body)
            return True
        self.ids_seen[address, dedup_id] = (self.stage.now_ms, body)
        return False

    def _arrive(self, serial: int) -> None:
        self.acceptances += 1
        self.accepted_at[serial] = self.acceptances

    def _expect(self, envelope: Envelope, body: bytes) -> None:
        serial, address = serial_of(body), envelope.address
        retains = self.policies.of(address).retains and address.startswith("/topic/")
        if retains and not self._is_over(serial):
            self.historic.append((address, body))
            self.retained[serial] = (address, self.stage.now_ms)
            self.envelope_of[serial] = envelope
            self.ever_retained.add(serial)
        for name in self.names.values():
            wanted = matches(name.filter, address) and choices.wants(name.selector, envelope)
            if wanted and not self._is_over(serial):
                name.copies += 1
                if envelope.persistent and name.durable:
                    self.copied[name.address, body] += 1
        for session in self.sessions:
            for interest in session.interests.values():
                wanted = interest.is_topic and choices.wants(interest.selector, envelope)
                if wanted and matches(interest.address, address):
                    if interest.in_order and serial in self.retained:
                        interest.to_come.append(serial)
                    else:
                        interest.expected.add(serial)

    def _note_due(self, outcome: Outcome) -> None:
        """The scheduled messages that this run made due (their old records end with that cause), and the
        bodies of those that it took."""
        self.made_due, self.kept_for_later = set[int](), set[bytes]()
        self.given_up = set()
        bodies = {position: live.body for position, live in self.live.items()}
        for record in read(self.stage.batches[-1]) if outcome.count else ():
            if record.kind == records.ACKED and record.flags == records.DUE:
                self.made_due.update(record.numbers)
            elif record.kind == records.ACKED and record.flags == records.TRIMMED:
                self.given_up.update(serial_of(bodies[position]) for position in record.numbers)
            elif record.kind == records.PUBLISHED and record.address.startswith("/topic/"):
                message = Queue(record.address, durable=True).reader.message(record.content, record.position)
                bodies[record.position] = message.body
                if record.flags & records.DELAYED:
                    self.kept_for_later.add(message.body)
                else:
                    self.position_of[serial_of(message.body)] = record.position
            elif record.kind == records.PUBLISHED and record.flags & records.DELAYED:
                message = Queue(record.address, durable=True).reader.message(record.content, record.position)
                self.kept_for_later.add(message.body)

    def _follow_loaded(self, command: c.Loaded) -> None:
        if command.purpose != DUE:
            return
        self.read_back += command.positions
        for position in command.positions:
            live = self.live.get(position)
            if live is None or position not in self.made_due:
                continue  # it was purged
            self._arrive(serial_of(live.body))
            persistent = not live.flags & records.TRANSIENT
            if "topic/" in live.address:
                self._expect(self._envelope_at(live.address, position), live.body)
            elif live.address.startswith("/queue/") and persistent:
                self.due.append((live.address, live.body, live.id))

    def _is_over(self, serial: int) -> bool:
        return has_expired(self.expires_ms[serial], self.stage.now_ms)

    def _follow_subscribe(self, session: Session, command: c.Subscribe) -> None:
        if self._accepted(session, command):
            if command.id in session.interests:  # that one was ended in this run
                assert session.closed
                self._leave(session, session.interests.pop(command.id))
            name = self._join(command) if command.name else None
            interest = session.interests[command.id] = Interest(command, name)
            if interest.in_order:
                interest.to_come.extend(self._past(command))
                interest.excused = self.given_up
                if command.start == "last":
                    interest.latest = set(interest.to_come)
            assert 1 <= command.credit <= self.limits.max_credit
            assert len(session.interests) <= self.limits.subscriptions_per_peer

    def _follow_deliverchosen(self, session: Session, command: c.DeliverChosen) -> None:
        if not self._accepted(session, command):
            policy = self.policies.of(command.source)
            queue = self.stage.queues.get(command.source)
            active = queue is not None and queue.active is not None
            exclusive = active or self._had_active(command.source)
            # The queue may have been deleted later in this run.
            forwarded = command.source.startswith("/queue/storeAndForward:")
            assert policy.holds_consumers or exclusive or forwarded or session.closed
            return
        subscribe = c.Subscribe(
            session.peer,
            command.id,
            command.source,
            c.INDIVIDUAL,
            len(command.chosen),
            None,
            command.lease_ms,
        )
        session.chosen[command.id] = Interest(subscribe, None)
        results: list[TransferResult] = self.answers[command.receipt]
        assert sorted(result.position for result in results) == sorted(
            chosen.position for chosen in command.chosen
        )
        got = {message.position for holder, _, message in session.client.got if holder.id == command.id}
        assert got == {result.position for result in results if result.status == DONE}

    def _had_active(self, address: str) -> bool:
        """Return whether a consumer of a queue was exclusive, or may have been in this run."""
        return any(
            subscription.exclusive and subscription.address == address for subscription in self.interests
        )

    def _follow_setcredit(self, session: Session, command: c.SetCredit) -> None:
        interest = session.interests.get(command.id)
        if self._accepted(session, command):
            assert interest is not None
            interest.credit = command.credit
            interest.most_credit = max(interest.most_credit, command.credit)
        else:
            assert interest is None or session.closed or not 1 <= command.credit <= self.limits.max_credit

    def _follow_setinnerack(self, session: Session | None, command: c.SetInnerAck) -> None:
        interest = self.interests.get(command.subscription)
        if session is not None and interest in session.interests.values():
            assert interest is not None
            interest.inner_ack = command.on and interest.is_auto

    def _past(self, command: c.Subscribe) -> list[int]:
        """The retained messages that a new subscription will receive, oldest first."""
        past = [serial for serial, (address, _) in self.retained.items() if matches(command.address, address)]
        kind, _, number = command.start.partition(":")
        match kind:
            case "now":
                return []
            case "last":  # the newest of each topic, if the selector wants it; otherwise none of that topic
                newest = set({self.retained[serial][0]: serial for serial in past}.values())
                past = [serial for serial in past if serial in newest]
            case "seq":
                past = [serial for serial in past if self.position_of[serial] >= int(number)]
            case "time":
                past = [serial for serial in past if self.retained[serial][1] >= int(number)]
        return [serial for serial in past if choices.wants(command.selector, self.envelope_of[serial])]

    def _join(self, command: c.Subscribe) -> Name:
        name = Name(command)
        known = self.names.setdefault(name.address, name)
        self.filters[name.address].add(name.filter)
        consumers = self._consumers(known)
        if not known.durable and known is not name and all(session.closed for session, _ in consumers):
            known = self.names[name.address] = name  # the former ended in this run
        elif known is not name:
            assert known.filter == name.filter, "a name stands for one filter"
            assert known.selector == name.selector, "and for one selector"
            open_ones = [session for session, _ in consumers if not session.closed]
            assert not open_ones or known.shared == name.shared is True, "who does not share is alone"
            known.shared = name.shared
        return known

    def _consumers(self, name: Name) -> list[tuple[Session, Interest]]:
        return [
            (session, interest)
            for session in self.sessions
            for interest in session.interests.values()
            if interest.name is name
        ]

    def _leave(self, session: Session, interest: Interest, *, keep_unsettled: bool = False) -> None:
        """A subscription has ended, and is no longer among its session's interests."""
        name = interest.name
        if not keep_unsettled or interest.is_topic or (name is not None and not name.durable):
            self._let_go(session, interest)
        if name is None or name.durable or self._consumers(name):
            return
        if self.names.get(name.address) is name:
            del self.names[name.address]

    def _follow_createsubscription(self, session: Session, command: c.CreateSubscription) -> None:
        if not self._accepted(session, command):
            return
        terms = command.terms
        name = Name(
            c.Subscribe(
                session.peer,
                "",
                terms.filter,
                selector=terms.selector,
                name=command.name,
                durable=True,
                shared=terms.shared,
            )
        )
        known = self.names.setdefault(name.address, name)
        self.filters[name.address].add(name.filter)
        assert (known.filter, known.selector) == (name.filter, name.selector), "it is not replaced"
        known.shared = name.shared

    def _follow_deletesubscription(self, session: Session, command: c.DeleteSubscription) -> None:
        name = self.names.get("/topic-subscription/" + command.name)
        if self._accepted(session, command):
            assert name is not None
            self._delete(session, name)

    def _delete(self, session: Session, name: Name) -> None:
        for id in [id for id, interest in session.interests.items() if interest.name is name]:
            self._leave(session, session.interests.pop(id))
        assert all(consumer.closed for consumer, _ in self._consumers(name)), "it is in use"
        del self.names[name.address]
        self.emptied.add(name.address)

    def _follow_unsubscribe(self, session: Session, command: c.Unsubscribe) -> None:
        if not self._accepted(session, command):
            assert command.id not in session.interests or session.closed or command.forget
            return
        interest = session.interests.pop(command.id)
        session.sender_flows.pop(command.id, None)
        self._leave(session, interest, keep_unsettled=command.keep_unsettled and not command.forget)
        if command.forget:
            assert interest.name is not None
            self._delete(session, interest.name)

    def _let_go(self, session: Session, interest: Interest) -> None:
        for tag in [tag for tag, (holder, _) in session.held.items() if holder is interest]:
            self._came_back(*session.held.pop(tag), CONSUMER_LEFT)

    def _came_back(self, interest: Interest, message: Message, reason: str) -> None:
        if message.recorded:
            self.returned[message.position] = message
            self.failed.append((message.position, interest.client, reason))

    def _follow_settle(self, session: Session, command: c.Settle) -> None:
        meant = session.meant(command)
        if not self._accepted(session, command):
            assert session.closed or not all(tag in session.held for tag in meant)
            return
        for tag in meant:
            interest, message = session.held.pop(tag)
            if message.recorded:
                self.settled.append((message.position, interest.client))

    def _follow_return(self, session: Session, command: c.Return) -> None:
        meant = session.meant(command)
        if not self._accepted(session, command):
            assert session.closed or not all(tag in session.held for tag in meant)
            return
        for tag in meant:
            interest, message = session.held.pop(tag)
            self._came_back(interest, message, command.dead_reason or NACKED)
            if command.dead_reason and message.recorded:
                self.rejected.add(message.position)

    def _follow_extend(self, session: Session, command: c.Extend) -> None:
        if self._accepted(session, command):
            for tag in command.tags:
                assert tag in session.held
                session.until_ms[tag] = self.stage.now_ms + command.lease_ms

    def _follow_begin(self, session: Session, command: c.Begin) -> None:
        open_ones = session.transactions
        full = len(open_ones) >= self.limits.transactions_per_peer
        accepted = self._accepted(session, command)
        assert accepted == (command.transaction not in open_ones and not full)
        if accepted:
            open_ones[command.transaction] = []

    def _follow_enlist(self, session: Session, command: c.Enlist) -> None:
        enlisted = session.transactions.get(command.transaction)
        if command.receipt not in self.refusals:
            assert enlisted is not None
            assert command.receipt not in self.answers, "answered are its commands, at COMMIT"
            enlisted.append(command.command)
        elif enlisted is not None:
            own = [*chain.from_iterable(session.transactions.values()), command.command]
            over = weight_of(own) > self.limits.bytes_per_transaction
            of_user = [s for s in self.sessions if s.peer.user == session.peer.user]
            for sessions, most in ((self.sessions, 2), (of_user, 1)):
                all_ = [action for s in sessions for held in s.transactions.values() for action in held]
                over |= weight_of([*all_, command.command]) > self.limits.bytes_of_transactions * most // 2
            assert over or len(enlisted) >= self.limits.commands_per_transaction
            del session.transactions[command.transaction]

    def _follow_commit(self, session: Session, command: c.Commit) -> None:
        enlisted = session.transactions.pop(command.transaction, None)
        if self._accepted(session, command):
            assert enlisted is not None
            for action in enlisted:
                self._follow(session, action)

    def _follow_abort(self, session: Session, command: c.Abort) -> None:
        known = session.transactions.pop(command.transaction, None) is not None
        assert self._accepted(session, command) == known

    def _follow_pause(self, session: Session, command: c.Pause) -> None:
        session.paused = True
        self.paused_peers.add(session.peer)

    def _follow_resume(self, session: Session, command: c.Resume) -> None:
        session.paused = False
        self.paused_peers.discard(session.peer)

    def _follow_answer(self, session: Session, command: c.Answer) -> None:
        assert self._accepted(session, command)

    def _follow_bridgeconnected(self, session: Session, command: c.BridgeConnected) -> None:
        assert SYNC_ADDRESS in self.stage.queues

    def _follow_beginflow(self, session: Session, command: c.BeginFlow) -> None:
        if session.sender_flows.pop(command.id, None) is not None:
            del session.interests[command.id]
        if not self._accepted(session, command):
            policy = self.policies.of(command.target)
            full = len(session.interests) >= self.limits.subscriptions_per_peer
            shut = policy.refuses_producers or not policy.auto_create
            assert command.id in session.interests or full or shut or session.closed
            return
        (home,) = (home for home in self.homes if home.address == address_of(command.sender, command.source))
        for other in self.sessions:
            for sender_flow in other.sender_flows.values():
                sender_flow.broken = sender_flow.broken or sender_flow.home is home
        assert session.offsets.pop(0).envelope.block == b"accepted:%d\ncount:%d\n" % (
            home.position,
            home.count,
        )
        if command.id in session.interests:  # that one was ended in this run
            assert session.closed
            self._leave(session, session.interests.pop(command.id))
        session.sender_flows[command.id] = SenderFlow(home)
        interest = Interest(c.Subscribe(session.peer, command.id, SYNC_ADDRESS, c.AUTO, 1), None)
        interest.deliveries = 1
        session.interests[command.id] = interest

    def _follow_forward(self, session: Session, command: c.Forward) -> None:
        sender_flow = session.sender_flows.get(command.flow)
        for (envelope, body, token), position in zip(command.entries, command.positions, strict=True):
            accepted = token in self.answers
            assert accepted != (token in self.refusals), "one answer to each"
            if sender_flow is None or sender_flow.broken:
                assert self.refusals[token].code == "flow-broken"
            elif position <= sender_flow.home.position:
                assert accepted, "what is there is not asked for again"
            elif accepted:
                assert not self.policies.of(envelope.address).refuses_producers
                sender_flow.home.take(position)
                self.origins[body] = (sender_flow.home.address, position)
                self._publish(envelope, body, session.peer.client)
            else:
                policy = self.policies.of(envelope.address)
                assert policy.refuses_producers or not policy.auto_create
                sender_flow.broken = True

    def _follow_publishbulk(self, session: Session, command: c.PublishBulk) -> None:
        producer, part = self.producers[command.producer], self.parts.pop(command.receipt)
        accepted = self._accepted(session, command)
        if not producer.comes_next(command):
            assert not accepted, "a batch is published once, and in its turn"
            return
        sendable = [self._is_sendable(address) for address in command.needs]
        if not accepted:
            assert not all(sendable)
            return
        assert False not in sendable, "all rows of a batch are published, or none"
        producer.take(part, command.owner)
        self.committed.append(producer.address)
        for envelope, body in command.entries:
            self._publish(envelope, body, client_address.address_of(command.owner, command.producer))

    def _is_sendable(self, address: str) -> bool | None:
        """Return whether a batch can go to a destination; None when that is up to what came in this run."""
        try:
            destination = parse(address)
        except Refused:
            return False
        levels = destination.name.split(".")
        if destination.kind not in (QUEUE, TOPIC) or (destination.kind == TOPIC and {"*", ">"} & set(levels)):
            return False
        policy = self.policies.of(address)
        if policy.refuses_producers:
            return False
        if destination.kind == TOPIC or policy.auto_create or address in self.there_before:
            return True
        return None

    def _follow_deletebulkproducer(self, session: Session, command: c.DeleteBulkProducer) -> None:
        producer = self.producers[command.producer]
        assert self._accepted(session, command) == bool(producer.begun)
        if producer.begun:
            producer.forget()
            self.uncommitted.append(producer.address)

    def _follow_breakflow(self, session: Session, command: c.BreakFlow) -> None:
        assert command.receipt in self.refusals
        if command.flow in session.sender_flows:
            session.sender_flows[command.flow].broken = True

    def _follow_transfer(self, session: Session, command: c.Transfer) -> None:
        if not self._accepted(session, command):
            return
        results: list[TransferResult] = self.answers[command.receipt]
        tried = [chosen.position for chosen in command.chosen[: len(results)]]
        assert [moved.position for moved in results] == tried
        assert len(tried) == len(command.chosen) or results[-1].status == FULL
        for moved in results:
            held = {m.position for s in self.sessions for _, m in s.held.values() if m.position < UNRECORDED}
            held |= self.resting_before | self.returned.keys()
            assert moved.status != UNSETTLED or moved.position in held or moved.position >= UNRECORDED
            if moved.status != DONE:
                continue
            if not command.keep:
                live = self.live.get(moved.position)  # None: it came in this run
                waited = live is None or not live.due_ms
                if waited and (source := self.stage.queues.get(command.source)) is not None:
                    self.moved[source] += 1
                if moved.position < UNRECORDED:
                    (self.left if command.target else self.deleted).add(moved.position)
            if command.target == c.ORIGIN:
                self._place(moved, dead_letter_headers.origin_of(moved.lines))
            elif command.target:
                self._place(moved, command.target)

    def _follow_insert(self, session: Session, command: c.Insert) -> None:
        if self._accepted(session, command):
            results: list[TransferResult] = self.answers[command.receipt]
            assert len(results) == len(command.entries) or results[-1].status == FULL
            for moved in results:
                if moved.status == DONE:
                    self._place(moved, command.target)

    def _place(self, moved: TransferResult, address: str) -> None:
        message = moved.message
        assert message is not None
        self.acceptances += 1
        self.moved_at[address, message.position] = self.acceptances
        if message.envelope.persistent:
            self.placed.append((address, message.body))
        if address in self.names:
            self.names[address].copies += 1

    def _follow_disconnect(self, session: Session, command: c.Disconnect) -> None:
        assert self._accepted(session, command)
        for interest, message in session.held.values():
            self._came_back(interest, message, CONSUMER_LEFT)
        session.held.clear()
        session.sender_flows.clear()
        for id in list(session.interests):
            self._leave(session, session.interests.pop(id))

    def _envelope_at(self, address: str, position: int) -> Envelope:
        """The message that was published to `address` at a position of the journal."""
        envelope = self._envelopes.get(position)
        if envelope is None:
            reader = Queue(address, durable=True).reader
            envelope = reader.message(self.stage.bodies[position], position).envelope
            self._envelopes[position] = envelope
        return envelope

    # ------------------------------------------------------------------ what the run led to

    def _end_what_was_slow(self, session: Session) -> None:
        session.ended.clear()
        if session.client.closed:
            session.client.closed.clear()
            for id in [id for id in session.interests if id not in session.peer.subscriptions]:
                interest = session.ended[id] = session.interests.pop(id)
                self._leave(session, interest)
        for tag in [tag for tag, until in session.until_ms.items() if until <= self.stage.now_ms]:
            del session.until_ms[tag]
            if tag in session.held:
                self._came_back(*session.held.pop(tag), LEASE_ENDED)

    def _meet(self, session: Session) -> None:
        assert session.interests.keys() == session.peer.subscriptions.keys()
        for id, interest in session.interests.items():
            self.interests[session.peer.subscriptions[id]] = interest

    def _check_deliveries(self) -> None:
        last: dict[tuple[Subscription, int], int] = {}
        for session in self.sessions:
            got = [holder for holder, _, _ in session.client.got if holder.id not in session.chosen]
            assert not got or session.peer not in self.paused_peers, "who is paused gets what it asks for"
            for subscription, tag, message in session.client.got:
                chosen = session.chosen.get(subscription.id)
                if subscription not in self.interests:
                    self.interests[subscription] = chosen or session.ended[subscription.id]
                interest = self.interests[subscription]
                interest.deliveries += 1
                assert subscription.peer is session.peer
                assert not has_expired(message.expires_ms, self.stage.now_ms)
                assert message.body not in self.repeats, "a repeat is not delivered"
                assert bool(tag) == interest.settles
                assert interest.is_topic or not self.policies.of(interest.address).holds_consumers
                self._check_attempts(subscription, message, came_back=subscription.ended and chosen is None)
                self._check_address(interest, message)
                if interest.is_topic:
                    self._check_topic_delivery(interest, message)
                elif not message.envelope.options and chosen is None:
                    lane = subscription, subscription.queue.lane_of(message)
                    assert message.sequence > last.get(lane, 0), "one consumer gets the messages in order"
                    last[lane] = message.sequence
                if tag and subscription.ended and chosen is None:
                    continue  # it was outrun in this batch, and has given back what it was handed
                if tag:
                    assert tag not in session.held
                    session.held[tag] = (interest, message)
                    if interest.lease_ms:
                        session.until_ms[tag] = self.stage.now_ms + interest.lease_ms
                elif message.recorded and subscription.queue.durable:
                    self.settled.append((message.position, interest.client))
            session.got = [got for got in session.client.got if got[0].id not in session.chosen]
            session.client.got = []
            session.chosen.clear()
            held = {tag: message for tag, (_, message) in session.held.items()}
            assert held == {tag: message for tag, (_, message) in session.peer.unsettled.items()}
        self._check_order()

    def _check_attempts(self, subscription: Subscription, message: Message, *, came_back: bool) -> None:
        """`came_back` is True for what a consumer was handed that was outrun in the same batch."""
        queue = subscription.queue
        key = (queue.address if queue.durable else queue, message.position)
        before = self.times[key]
        self.times[key] = before + 1
        self.begun[message.position] += 1
        self.begun_by.add((message.position, subscription.client))
        assert message.attempts in (before, before + came_back), "each delivery counts, also after a crash"

    def _check_address(self, interest: Interest, message: Message) -> None:
        address = message.envelope.address
        if interest.is_topic:
            assert address == self.sent_to[serial_of(message.body)]
        elif interest.name is not None:
            assert matches(interest.name.filter, address), "it goes to those whose filter matches"

    def _check_topic_delivery(self, interest: Interest, message: Message) -> None:
        serial, priority = serial_of(message.body), message.envelope.priority
        if interest.in_order and serial in self.ever_retained:
            if message.attempts == 0:
                self._check_sequence(interest, serial)
            return
        assert serial in interest.expected, "it goes to those whose filter matches"
        if message.attempts == 0 and not interest.in_order:
            assert self.accepted_at[serial] > interest.newest.get(priority, 0), (
                "a topic's messages arrive in order"
            )
            interest.newest[priority] = self.accepted_at[serial]
        interest.came.add(serial)

    def _check_sequence(self, interest: Interest, serial: int) -> None:
        assert serial in interest.to_come, "history comes once"
        while (passed := interest.to_come.popleft()) != serial:
            assert self._may_miss(interest, passed), "history has no gaps"

    def _may_miss(self, interest: Interest, serial: int) -> bool:
        """Return whether a subscription that begins in the past may never get a message."""
        trimmed = serial in self.given_up or serial not in self.retained
        return (serial in interest.latest and trimmed) or serial in interest.excused or self._is_over(serial)

    def _check_order(self) -> None:
        """Check that deliveries of a queue come before all that waits, and first deliveries never go back."""
        left: dict[Queue, list[tuple[Subscription, str, Message, int]]] = {}
        for session in self.sessions:
            for subscription, _, message in session.got:
                queue, interest = subscription.queue, self.interests[subscription]
                if queue.deleted or "topic/" in queue.address:
                    continue
                acceptance = 0
                if message.attempts == 0 and not queue.address.endswith(".dead"):
                    moved_at = self.moved_at.get((queue.address, message.position))
                    acceptance = moved_at or self.accepted_at[serial_of(message.body)]
                selector = "" if interest.name else interest.selector
                left.setdefault(queue, []).append((subscription, selector, message, acceptance))
            session.got = []
        for queue, got in left.items():
            self.choices.check_deliveries(queue, got)
        choices.check_groups([held for session in self.sessions for held in session.peer.unsettled.values()])

    # ------------------------------------------------------------------ records

    def _check_records(self, outcome: Outcome) -> None:
        ends: dict[int, list[int]] = {cause: [] for cause in range(len(records.CAUSES))}
        published, buried, dead, came_due = [], [], [], []
        copied: Counter[tuple[str, bytes]] = Counter()
        settled: list[tuple[int, str]] = []
        committed: list[str] = []
        uncommitted: list[str] = []
        for record in read(self.stage.batches[-1]) if outcome.count else ():
            if record.kind == records.PUBLISHED:
                message = Queue(record.address, durable=True).reader.message(record.content, record.position)
                due_ms = (
                    records.due_ms(record.content, 0, record.flags) if record.flags & records.DELAYED else 0
                )
                id = self.stage.broker.turn.ids.of(message)
                self.live[record.position] = Live(
                    record.address,
                    record.flags,
                    message.body,
                    message.expires_ms,
                    due_ms,
                    id,
                    len(message.envelope.block),
                    self.stage.now_ms,
                )
                came_from = None if record.flags & records.HAS_ID else self.origins.get(message.body)
                assert record.origin == came_from, "what was forwarded names its origin"
                assert record.client in self._senders_of(record, message.body), "it names who sent it"
                published.append(record.position)
                assert message.body not in self.repeats, "a repeat is not stored"
                # What was there before, and is moved or dead-lettered, brings no id: the first record has it.
                if not record.flags & records.HAS_ID or record.address.startswith("/topic-sub"):
                    self.ever_recorded.add(message.body)
                expires_at_ms = self.expires_ms.get(serial_of(message.body), 0)
                assert message.expires_ms == expires_at_ms or record.flags & records.HAS_ID
                if record.address.startswith("/topic-sub") and not record.flags & records.TRANSIENT:
                    copied[record.address, message.body] += 1
                if record.address.startswith("/topic/") and not due_ms:
                    assert self.historic.pop(0) == (record.address, message.body)
                    came_due.append((record.address, message.body, id))
                elif due_ms:
                    assert self.scheduled.pop(0) == (record.address, message.body, due_ms)
                elif record.flags & records.HAS_ID:
                    buried.append((record.address, message.body))
                    came_due.append((record.address, message.body, id))
                elif not record.flags & records.TRANSIENT or is_forwarded(record.address):
                    assert self.recorded.pop(0) == (record.address, message.body)
            elif record.kind == records.RETURNED and record.flags & records.GIVEN_BACK:
                position, attempts = record.numbers
                self.failed.remove((position, record.client, record.reason))
                assert attempts == self.times[record.address, position] - self.begun[position]
            elif is_bulk_producer(record.address):
                (committed if record.kind == records.OFFSET_SET else uncommitted).append(record.address)
            elif record.kind == records.RETURNED:
                assert set(zip(record.numbers[::2], record.clients, strict=True)) <= self.begun_by
            elif record.kind == records.ACKED:
                facts = record.facts
                if record.flags == records.ACKNOWLEDGED:
                    settled += zip(record.numbers, record.clients, strict=True)
                assert (facts is None) or record.flags not in UNREAD
                assert facts or record.flags not in KNOWN
                for position in record.numbers:
                    live = self.live.pop(position)  # else: it ended twice
                    if facts is not None:
                        self._check_fact(live, position, facts[position])
                    assert live.address == record.address
                    ends[record.flags].append(position)
                    assert record.reason in self._reasons_of(record, position, live), (
                        "it has the right reason"
                    )
                    if record.flags == records.DEAD_LETTERED:
                        policy = self.stage.policy
                        if not (
                            policy.dead_letter_expired and has_expired(live.expires_ms, self.stage.now_ms)
                        ):
                            times = self.times[live.address, position]
                            fewest = min(self._limits_of_attempts(live.address))
                            assert position in self.rejected or times >= fewest
                        if not live.flags & records.TRANSIENT:
                            dead_letter_queues = dead_letters_of(live.address, self.filters[live.address])
                            dead.append({(grave, live.body) for grave in dead_letter_queues})
                    elif record.flags == records.EXPIRED:
                        assert has_expired(live.expires_ms, self.stage.now_ms)
                    elif record.flags == records.PURGED:
                        assert live.address in self.emptied or position in self.deleted
                    elif record.flags == records.MOVED:
                        assert position in self.left
                    elif record.flags == records.TRIMMED:
                        assert live.address.startswith("/topic/") and not live.due_ms
                        del self.retained[serial_of(live.body)]
                    elif record.flags == records.DUE:
                        assert 0 < live.due_ms <= self.stage.now_ms and position in self.read_back
                    elif record.flags == records.DISCARDED and not live.due_ms:
                        assert position in self.rejected and live.address.endswith(".dead")
                    elif record.flags == records.DISCARDED:
                        assert live.address.startswith("/temp-queue/")
        assert (committed, uncommitted) == (self.committed, self.uncommitted), "one record for each command"
        assert not self.failed, "each failed delivery has a record"
        assert not self.recorded, "every accepted persistent message is recorded"
        assert not self.scheduled, "every scheduled message is recorded"
        assert all(message in came_due for message in self.due), "it comes under its id"
        assert not any(position in self.live for position in self.read_back), "it comes when it is due"
        placed = Counter(place for place in self.placed if place[0].startswith("/topic-subscription/"))
        assert not self.historic, "what a topic retains is recorded once"
        assert copied == self.copied + placed, "once for each durable subscription"
        assert sorted(settled) == sorted(self.settled)
        assert all(not places.isdisjoint(buried) for places in dead), "dead letters are moved, not lost"
        assert all(placed in buried for placed in self.placed), "a moved message is recorded again"
        assert self.left == set(ends[records.MOVED]), "it ends at its source in the batch that moves it"
        assert self.deleted <= set(ends[records.PURGED])
        reading = self.resting_before | self._resting()
        # What has to be read first ends with its queue, when that is deleted in the same batch.
        ended = {*ends[records.DEAD_LETTERED], *ends[records.DISCARDED], *ends[records.PURGED]}
        assert self.rejected - reading <= ended
        assert outcome.published == published
        assert sorted(outcome.freed) == sorted(position for ended in ends.values() for position in ended)

    def _senders_of(self, record: Record, body: bytes) -> tuple[str, ...]:
        """The clients that a PUBLISHED record may name: that which sent the message; none where the broker
        publishes it again."""
        if not record.flags & records.HAS_ID:
            return (self.sent_by[body],)
        copied = record.address.startswith("/topic-subscription/") and body in self.fresh
        if copied and (record.address, body) not in self.placed:
            return (self.sent_by[body],)
        return ("", self.sent_by.get(body, "")) if copied else ("",)

    def _reasons_of(self, record: Record, position: int, live: Live) -> tuple[str, ...]:
        """The reasons that the record of a removed message may have."""
        if record.flags not in (records.EXPIRED, records.DEAD_LETTERED, records.DISCARDED):
            return ("",)
        if position in self.rejected:
            return (REJECTED,)
        expired = has_expired(live.expires_ms, self.stage.now_ms)
        if record.flags == records.EXPIRED:
            return (EXPIRED,)
        return (MAX_ATTEMPTS, EXPIRED) if expired else (MAX_ATTEMPTS,)

    def _check_fact(self, live: Live, position: int, fact: Fact) -> None:
        """A record of a message that is gone shows what clients saw of it."""
        own_id = bool(live.flags & records.HAS_ID)
        waited_ms, deliveries = self.stage.now_ms - live.accepted_ms, self.times[live.address, position]
        expected = Fact(waited_ms, len(live.body), live.header_bytes, deliveries, own_id)
        assert fact == expected, "facts are what clients saw"
        accepted_ms = self.stage.now_ms - fact.queue_ms
        derived = self.stage.broker.turn.ids.prefix(accepted_ms) + b"%012x" % position
        assert own_id or derived == live.id, "the id follows from time and position"

    # ------------------------------------------------------------------ what the broker holds

    def _limits_of_attempts(self, address: str) -> set[int]:
        """The values of `max_attempts` of a queue so far: waiting messages were compared with one of them."""
        topics = self.filters.get(address) or [""]
        return {
            policies.of(address, topic).max_attempts for policies in self.all_policies for topic in topics
        }

    def _check_state(self) -> None:
        self._held: list[tuple[str, int]] = []
        self._bytes = 0
        self._of_accounts: Counter[Account] = Counter()
        unsettled: Counter[Queue] = Counter()
        consumers: Counter[Queue] = Counter()
        topic_queues: dict[Queue, None] = {}
        queues = self.stage.queues
        for session in self.sessions:
            for subscription, message in session.peer.unsettled.values():
                unsettled[subscription.queue] += 1
                if subscription.queue.account is not None:
                    self._of_accounts[subscription.queue.account] += message.size
                if message.recorded:
                    self._held.append((subscription.queue.address, message.position))
            for subscription in session.peer.subscriptions.values():
                consumers[subscription.queue] += 1
                self._check_subscription(session, subscription)
                if not subscription.queue.durable and subscription.queue.address not in queues:
                    topic_queues[subscription.queue] = None
            assert not session.leaving or not (session.peer.unsettled or session.peer.subscriptions)
        broker = self.stage.broker
        for address, history in broker.histories.histories.items():
            positions = [position for block in history.blocks for position in block.positions]
            assert positions == sorted(set(positions)) and list(history.after(0)) == positions
            self._held += [(address, position) for position in positions]
        assert (
            broker.histories.replays.keys()
            == {subscription.replay.key for subscription in self.interests if subscription.replay is not None}
            & broker.histories.replays.keys()
        )
        for tag, (subscription, message) in broker.unsettled.delayed.peer.unsettled.items():
            assert (
                broker.unsettled.leases.until_ms(broker.unsettled.delayed.peer, tag) > self.stage.now_ms
                or any(message.position in fetch.positions for fetch in self.stage.fetches)
                or not self.decided
            )
            unsettled[subscription.queue] += 1
            if message.recorded and not subscription.queue.deleted:
                self._held.append((subscription.queue.address, message.position))
        assert broker.destinations.queues.keys() >= self.policies.exact.keys() - self.removed, (
            "what is declared is there"
        )
        assert broker.destinations.named.keys() == self.names.keys()
        for address, named in broker.destinations.named.items():
            assert named.queue.counters.published == self.names[address].copies, "a name misses nothing"
        if self.sweep_ms <= self.stage.now_ms and not broker.sweeper.is_behind:
            for queue in broker.destinations.queues.values():
                waiting = [message for lane in queue.lanes for message in lane.in_memory()]
                assert not any(has_expired(message.expires_ms, self.stage.now_ms) for message in waiting)
        for queue in [*broker.destinations.queues.values(), *topic_queues]:
            if queue.address == SYNC_ADDRESS:
                assert len(queue.consumers) == consumers[queue]
                assert queue.depth == len(broker.forwarding.offsets)
                continue
            assert queue.unsettled == unsettled[queue]
            assert len(queue.consumers) == consumers[queue]
            self._check_queue(queue)
        for address, schedule in broker.scheduler.schedules.items():
            self._held += [(address, position) for position in schedule.positions()]
            due_times = [due_ms for due_ms, _ in schedule.after(0, 0)]
            assert (
                due_times == sorted(due_times) == sorted(self.live[at].due_ms for at in schedule.positions())
            )
            assert len(due_times) == len(schedule) > 0
        reading = sum(bool(schedule.loading) for schedule in broker.scheduler.schedules.values())
        late = [
            s for s in broker.scheduler.schedules.values() if not s.loading and s.next_ms <= self.stage.now_ms
        ]
        assert not late or reading >= RUNS or not self.decided, "nothing is late"
        self._check_marks()
        assert self._bytes == broker.store.memory_bytes
        self._check_accounts()
        assert len(self._held) == len(self.live), "nothing is lost, nothing is there twice"
        assert all(self.live[position].address == address for address, position in self._held)

    def _check_accounts(self) -> None:
        """Check that the accounts of each connection and each user add up."""
        broker, held = self.stage.broker, Counter[str]()
        for session in self.sessions:
            peer = session.peer
            open_bytes = sum(open_.bytes for open_ in peer.transactions.values())
            account = peer.account
            if account is not None:
                assert account.of_user is broker.accounts.users[peer.user]
                assert account.enlisted == open_bytes
                held[peer.user] += open_bytes
            assert account is not None or not (open_bytes or peer.temporary)
        assert all(account.waiting == waiting for account, waiting in self._of_accounts.items())
        for user, of_user in broker.accounts.users.items():
            mine = [account for account in self._of_accounts if account.of_user is of_user]
            assert of_user.waiting == sum(account.waiting for account in mine)
            assert of_user.enlisted == held[user]
        assert broker.transactions.enlisted_bytes == held.total()

    def _check_marks(self) -> None:
        offsets, flows = self.stage.broker.forwarding.offsets, self.stage.broker.forwarding.flows
        begun = {address: mark for address, mark in offsets.items() if mark.position}
        assert offsets.keys() - begun.keys() <= flows.keys(), "a mark where nothing came ends with its flow"
        assert {address: (mark.position, mark.count) for address, mark in begun.items()} == {
            home.address: (home.position, home.count) for home in self.homes if home.position
        }
        assert flows.keys() == {
            sender_flow.home.address
            for session in self.sessions
            for sender_flow in session.sender_flows.values()
            if flows.get(sender_flow.home.address) in session.peer.flows.values()
        }
        assert not offsets or SYNC_ADDRESS in self.stage.queues
        known = self.stage.broker.bulk.producers
        assert {address: one.facts[:3] for address, one in known.items()} == {
            producer.address: producer.state for producer in self.producers.values() if producer.begun
        }

    def _check_subscription(self, session: Session, subscription: Subscription) -> None:
        assert subscription.delivered == self.interests[subscription].deliveries
        assert 0 <= subscription.returned <= subscription.delivered - subscription.unsettled
        held = sum(holder is subscription for holder, _ in session.peer.unsettled.values())
        assert subscription.credit == self.interests[subscription].credit
        assert subscription.unsettled == held <= self.interests[subscription].most_credit
        active = choices.active(subscription.queue)
        assert subscription.queue.active is active
        on_hold = (
            (active or subscription) is not subscription
            or session.paused
            or (
                not self.interests[subscription].is_topic
                and self.policies.of(subscription.address).holds_consumers
            )
        )
        assert subscription.available == (held < subscription.credit and not on_hold)
        assert list(subscription.rotation).count(subscription) == subscription.available
        interest, queue = self.interests[subscription], subscription.queue
        if interest.name is not None:
            assert self.stage.broker.destinations.named[interest.name.address].queue is queue
        elif not interest.is_topic:
            assert self.stage.queues[interest.address] is queue
        else:
            waiting = {serial_of(message.body) for lane in queue.lanes for message in lane.in_memory()}
            if interest.in_order and subscription.replay is None:
                for serial in set(interest.to_come) - waiting:
                    assert self._may_miss(interest, serial), "who has read everything misses nothing"
            ready = sum(len(lane.ready) for lane in queue.lanes)
            assert interest.in_order or ready <= self.limits.topic_pending
            waiting = {serial_of(message.body) for lane in queue.lanes for message in lane.in_memory()}
            held_messages = [message for _, message in session.peer.unsettled.values()]
            unsettled = {serial_of(message.body) for message in held_messages if message.has_body}
            for serial in interest.expected - interest.came - waiting - unsettled:
                assert has_expired(self.expires_ms[serial], self.stage.now_ms), "a subscriber misses nothing"
                interest.came.add(serial)
            assert not waiting or held >= subscription.credit or session.paused

    def _check_queue(self, queue: Queue) -> None:
        limits = self.limits
        for lane in queue.lanes:
            waiting = list(lane.in_memory())
            orders = [message.sequence for message in waiting]
            assert orders == sorted(set(orders))
            recorded = [message.position for message in waiting if message.recorded]
            paged = [position for chunk in lane.paged.chunks() for position in chunk]
            recorded += [*lane.loading, *paged]
            assert len(recorded) == len(set(recorded))
            assert queue.selective is not None or recorded == sorted(recorded)
            assert len(paged) == len(lane.paged)
            self._held += [(queue.address, position) for position in recorded]
            self._bytes += sum(message.size for message in waiting)
            if queue.account is not None:
                self._of_accounts[queue.account] += sum(message.size for message in waiting)
            if queue.durable and queue.selective is None:
                assert len(lane.ready) <= max(limits.window, limits.fetch_messages * 2)
            if queue.durable and not queue.forwarded and not queue.address.endswith(".dead"):
                most = max(self._limits_of_attempts(queue.address))
                assert all(
                    message.attempts < most or message.position < self.life_began_at for message in waiting
                )
        if queue.selective is not None:
            assert not queue.available
            if not any(fetch.address == queue.address for fetch in self.stage.fetches):
                selectors = [(s, self.interests[s]) for s in queue.consumers if s.available]
                self.choices.check_nobody_waits_in_vain(
                    queue, [(s, "" if i.name else i.selector) for s, i in selectors]
                )
        elif queue.available:
            first = queue.first_lane()
            assert first is None or (first.loading and not first.ready and not first.returned), (
                "no message waits for a free consumer"
            )
        assert queue.counters.removed == self.purged[queue] + self.moved[queue]
        ended = queue.counters.acked + queue.counters.expired + queue.counters.dead + queue.counters.removed
        there = queue.depth + queue.unsettled
        assert queue.counters.published + self.at_start.get(queue, 0) == ended + there

    # ------------------------------------------------------------------ events of the broker

    def _hear_anew(self) -> None:
        """Check that the broker's events add up to what it holds, from here on."""
        self.told_queues = {
            address for address in self.stage.queues if not address.startswith("/temp-queue/")
        }
        self.told_consumers: set[Subscription] = set()
        self.told_dead: Counter[str] = Counter()

    def _check_arrivals(self, outcome: Outcome, told: list[Event]) -> None:
        """Bridges hear of what came while none was there."""
        arrived = {fact.address for fact in told if isinstance(fact, Arrived)}
        queues = self.stage.queues
        for address in arrived:
            assert queues[address].forwarded and queues[address].depth and not queues[address].consumers
        for position in outcome.published:
            live = self.live.get(position)
            if live is not None and is_forwarded(live.address) and not live.due_ms:
                queue = queues[live.address]
                assert live.address in arrived or queue.consumers or not queue.depth

    def _check_facts(self, told: list[Event]) -> None:
        for fact in told:
            match fact:
                case DestinationCreated(address):
                    assert address not in self.told_queues
                    self.told_queues.add(address)
                    del self.told_dead[address]
                case DestinationDeleted(address):
                    self.told_queues.remove(address)
                case ConsumerJoined(subscription):
                    assert subscription not in self.told_consumers
                    self.told_consumers.add(subscription)
                case ConsumerLeft(subscription):
                    self.told_consumers.remove(subscription)
                case DeadLetter():
                    self.told_dead[fact.address] += fact.messages
        queues = self.stage.queues
        for (
            fact
        ) in told:  # dead letters come last, also those of one that was deleted and created again since
            if isinstance(fact, DestinationDeleted) and fact.address in queues:
                self.told_dead[fact.address] = queues[fact.address].counters.dead
        assert self.told_queues == {address for address in queues if not address.startswith("/temp-queue/")}
        assert all(queues[address].counters.dead == self.told_dead[address] for address in self.told_queues)
        assert self.told_consumers == {
            subscription
            for session in self.sessions
            for subscription in session.peer.subscriptions.values()
            if not subscription.address.startswith("/temp-")
        }

    # ------------------------------------------------------------------ replay

    def check_replay(self, snapshot: bytes, batches_before: int) -> None:
        """The journal gives the same broker, read from the start or from a snapshot."""
        frozen = self.stage.take_snapshot()
        assert take_snapshot(self.stage.recovered()) == frozen
        assert take_snapshot(self.stage.recovered(snapshot, batches_before)) == frozen
        assert take_snapshot(self.stage.recovered(frozen, len(self.stage.batches))) == frozen
