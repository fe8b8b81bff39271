"""Floods: random producers against random limits, with the laws of admission checked after each run.

- every message is answered once, or waits in line; nothing else is in line
- what was accepted is recorded once (of a topic: once for each durable subscription), in the order in which
  its producer sent it, and stays until its end is recorded with a cause that its queue's rules allow
- a transaction is accepted whole or not at all, and never waits
- no queue goes beyond its limits, which it may share with other brokers
- no line goes beyond its bound, and a client that can free space is read
- bytes that are counted are bytes that are there
- the records give the same broker

`python -m tests.core.flood SEED` shows what happens in one of them.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any, NamedTuple

from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.core.durability import records
from broker_app.core.durability.snapshot import take_snapshot
from broker_app.core.message import OVERHEAD_BYTES, DeliveryOptions, Envelope
from broker_app.core.model import BlockedPublish, Peer, Queue
from broker_app.core.policy import (
    CLUSTER,
    LIMIT_BEHAVIORS,
    REMOVE_LOW_PRIORITY,
    REMOVE_OLDEST,
    SCOPES,
    DestinationPolicy,
    Policies,
)
from broker_app.core.remote.cluster_usage import NONE, Usage
from tests.core.stage import Client, Stage, interrupted, read

QUEUES = ("/queue/a", "/queue/b")
TOPIC = "/topic/t"
#: durable subscriptions to it, which are there from the beginning, and the queues in which their copies wait
NAMES = ("d", "e")
COPIES = tuple(DURABLE_PREFIX + name for name in NAMES)
LIMITED = (*QUEUES, "/queue/a.dead", *COPIES)
REMOVING = (REMOVE_OLDEST, REMOVE_LOW_PRIORITY)
FULL = {"queue-full", "store-full", "too-large"}

WEIGHTS = {
    "publish": 30,
    "subscribe": 6,
    "settle": 16,
    "give_back": 4,
    "transaction": 4,
    "disconnect": 3,
    "purge": 1,
    "reconfigure": 3,
    "space": 3,
    "elsewhere": 3,
}


class Sent(NamedTuple):
    """A message in the eyes of its producer."""

    client: Client
    address: str
    serial: int
    persistent: bool


def serial_of(body: bytes) -> int:
    return int(body.partition(b":")[0])


class Flood:
    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = random = Random(seed)
        self.trace = trace
        self.stage = Stage(
            window=random.choice((1, 2, 50)),
            memory_bytes=random.choice((2, 100)) * OVERHEAD_BYTES,
            fetch_messages=random.choice((1, 3)),
            max_attempts=1_000,
            blocked_timeout_ms=3_000,
            blocked_per_peer=random.choice((1, 2, 100)) * OVERHEAD_BYTES,
            blocked_bytes=random.choice((4, 12, 1_000)) * OVERHEAD_BYTES,
            max_messages=random.choice((0, 0, 6)),
        )
        if seed % 2:
            self.stage.deadline = interrupted(seed)
        self.stage.loading = False
        self.policies = Policies()
        #: of all that there were, for the trace
        self.names: dict[Peer, str] = {}
        self.clients: list[Client] = []
        self.leaving: list[Client] = []
        #: what has no answer yet, by token
        self.open: dict[Any, Sent] = {}
        self.farewells: dict[Any, Client] = {}
        #: what each transaction of this run holds, by the token of its COMMIT
        self.committing: dict[Any, list[Sent]] = {}
        #: how often a message was recorded as new
        self.recorded: Counter[tuple[str, int]] = Counter()
        #: recorded messages that are not gone: address and body, by position
        self.live: dict[int, tuple[str, bytes]] = {}
        self.newest: Counter[tuple[Client, str]] = Counter()
        self.sender: dict[int, Sent] = {}
        self.serial = self.token = 0

    def blow(self, runs: int) -> None:
        random = self.random
        founder = self._newcomer()
        self.decide(
            [c.Subscribe(founder.peer, name, TOPIC, name=name, durable=True, shared=True) for name in NAMES]
        )
        self.decide([c.Disconnect(founder.peer)])
        for _ in range(runs):
            while len(self.clients) < 3:
                self.clients.append(self._newcomer())
            kinds = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=random.choice((1, 2, 5)))
            run: list[Any] = []
            for kind in kinds:
                run += getattr(self, "_draw_" + kind)(random.choice(self.clients))
            self.stage.now_us += random.choice((0, 1_000, 400_000, 1_100_000))
            self.decide(run)
            while self.stage.fetches and random.random() < 0.7:
                self.decide([self.stage.loaded(self.stage.fetches.pop(0))])
            if random.random() < 0.02:
                self._restart()
        self.policies = Policies()
        self.decide([c.StoreSpace(None), c.Reconfigure(self.policies)])
        if not self.stage.limits.max_messages:
            assert not self.open and not self.farewells, "without limits nothing waits"
        self._restart()

    def _restart(self) -> None:
        stage = self.stage
        frozen = stage.take_snapshot()
        assert take_snapshot(stage.recovered()) == frozen
        stage.restart()
        self.clients.clear()
        self.leaving.clear()
        self.open.clear()
        self.farewells.clear()
        self.decide([c.Reconfigure(self.policies)])

    def _newcomer(self) -> Client:
        client = self.stage.client("owner")
        self.names[client.peer] = f"client {len(self.names)}"
        return client

    # ------------------------------------------------------------------ drawing

    def _next_token(self) -> int:
        self.token += 1
        return self.token

    def _entries(self, client: Client, *, answered: bool) -> list[c.Entry]:
        random = self.random
        options = DeliveryOptions(group="g") if random.random() < 0.1 else None
        address = random.choice((*QUEUES, TOPIC))
        envelope = Envelope(address, persistent=random.random() < 0.8, options=options)
        entries: list[c.Entry] = []
        for _ in range(random.choice((1, 1, 3, 6))):
            self.serial += 1
            body = b"%d:%s" % (self.serial, b"." * random.choice((0, 5, 20)))
            token = self._next_token() if answered else None
            sent = Sent(client, envelope.address, self.serial, envelope.persistent)
            self.sender[self.serial] = sent
            if answered:
                self.open[token] = sent
            entries.append((envelope, body, token))
        return entries

    def _draw_publish(self, client: Client) -> list[Any]:
        return [c.Publish(client.peer, self._entries(client, answered=True))]

    def _draw_transaction(self, client: Client) -> list[Any]:
        before, token = self.serial, self._next_token()
        enlisted = [
            c.Enlist(client.peer, "t", c.Publish(client.peer, self._entries(client, answered=False)))
            for _ in range(self.random.choice((1, 2)))
        ]
        self.committing[token] = [self.sender[serial] for serial in range(before + 1, self.serial + 1)]
        return [c.Begin(client.peer, "t"), *enlisted, c.Commit(client.peer, "t", token)]

    def _draw_subscribe(self, client: Client) -> list[Any]:
        ack = self.random.choice((c.AUTO, c.INDIVIDUAL, c.INDIVIDUAL))
        credit = self.random.choice((1, 2, 50))
        if client.peer.subscriptions:
            return [c.Unsubscribe(client.peer, next(iter(client.peer.subscriptions)))]
        if self.random.random() < 0.3:
            name = self.random.choice(NAMES)
            return [c.Subscribe(client.peer, "1", TOPIC, ack, credit, name=name, durable=True, shared=True)]
        return [c.Subscribe(client.peer, "1", self.random.choice(QUEUES), ack, credit)]

    def _draw_settle(self, client: Client) -> list[Any]:
        tags = client.tags[: self.random.choice((1, 3))]
        return [c.Settle(client.peer, tags)] if tags else []

    def _draw_give_back(self, client: Client) -> list[Any]:
        return [c.Return(client.peer, client.tags[:1])] if client.tags else []

    def _draw_disconnect(self, client: Client) -> list[Any]:
        self.clients.remove(client)
        self.leaving.append(client)
        token = self._next_token() if self.random.random() < 0.5 else None
        if token is not None:
            self.farewells[token] = client
        if not self.clients:
            self.clients.append(self._newcomer())
        return [c.Disconnect(client.peer, token)]

    def _draw_purge(self, client: Client) -> list[Any]:
        address = self.random.choice(QUEUES)
        return [c.Purge(client.peer, address, self._next_token())] if address in self.stage.queues else []

    def _draw_reconfigure(self, client: Client) -> list[Any]:
        random = self.random
        policies = {
            address: DestinationPolicy(
                max_messages=random.choice((0, 1, 3)),
                max_bytes=random.choice((0, 0, 30)),
                max_message_bytes=random.choice((0, 0, 10)),
                limit_behavior=random.choice(LIMIT_BEHAVIORS),
                scope=random.choice(SCOPES),
                use_dead_letters=random.random() < 0.5,
            )
            for address in LIMITED
            if random.random() < 0.8
        }
        self.policies = Policies(exact=policies)
        return [c.Reconfigure(self.policies)]

    def _draw_space(self, client: Client) -> list[Any]:
        return [c.StoreSpace(self.random.choice((0, 0, 2 * OVERHEAD_BYTES, None, None)))]

    def _draw_elsewhere(self, client: Client) -> list[Any]:
        """Other brokers of the cluster hold more or less of a queue."""
        messages = self.random.choice((0, 0, 1, 2))
        used = Usage(messages, messages * self.random.choice((0, 10)))
        self.stage.broker.cluster_usage.update(self.random.choice(LIMITED), used)
        return []

    def _describe(self, command: Any) -> str:
        who = self.names[command.peer] if hasattr(command, "peer") else ""
        if isinstance(command, c.Enlist):
            return f"{who} enlists in {command.transaction}: {self._describe(command.command)}"
        if isinstance(command, c.Publish):
            address = command.entries[0][0].address
            return f"{who} sends to {address}: {[body for _, body, _ in command.entries]}"
        facts = [f"{name}={getattr(command, name)!r}" for name in command.__slots__ if name != "peer"]
        return f"{who} {type(command).__name__} {' '.join(facts)}"

    # ------------------------------------------------------------------ the laws

    def decide(self, run: list[Any]) -> None:
        if self.trace:
            print(f"at {self.stage.now_ms} decide", *map(self._describe, run), sep="\n    ")
        counted = {address: _count(queue) for address, queue in self.stage.queues.items()}
        weighed = {address: self._weight(queue) for address, queue in self.stage.queues.items()}
        reconfigured = any(isinstance(command, c.Reconfigure) for command in run)
        outcome = self.stage.decide(*run)
        self._check_records(outcome.count, reconfigured)
        self._check_answers(run)
        self._check_lines()
        for address, queue in self.stage.queues.items():
            before = counted.get(address, 0), weighed.get(address, 0)
            self._check_limits(queue, *before, reconfigured)
        self.leaving = [client for client in self.leaving if client in {*self.farewells.values()}]

    def _check_answers(self, run: list[Any]) -> None:
        for client in [*self.clients, *self.leaving]:
            for token, refusal in client.refused:
                assert refusal.code in FULL | {"unknown-delivery", "conflict", "not-found"}, refusal
                self.open.pop(token, None)
                for sent in self.committing.pop(token, ()):
                    assert not any(self.recorded[place, sent.serial] for place in self._places(sent))
            for token, _ in client.accepted:
                for sent in self.committing.pop(token, ()):
                    self._check_kept(sent)
                answered = self.open.pop(token, None)
                if answered is not None:
                    self._check_kept(answered)
                elif self.farewells.pop(token, None) is not None:
                    mine = [open_ for open_ in self.open.values() if open_.client is client]
                    assert not mine, "who leaves is answered last"
            client.accepted.clear()
            client.refused.clear()
        assert not self.committing, "a transaction never waits"
        for command in run:
            if isinstance(command, c.Disconnect) and command.receipt is None:
                gone = [token for token, sent in self.open.items() if sent.client.peer is command.peer]
                for token in gone:
                    del self.open[token]

    @staticmethod
    def _places(sent: Sent) -> tuple[str, ...]:
        """The queue in which a message waits once it is accepted."""
        return COPIES if sent.address == TOPIC else (sent.address,)

    def _check_kept(self, sent: Sent) -> None:
        """A persistent message that was accepted is recorded once wherever it waits."""
        if sent.persistent:
            assert all(self.recorded[place, sent.serial] == 1 for place in self._places(sent)), sent

    def _check_records(self, count: int, reconfigured: bool) -> None:
        broker = self.stage.broker
        for record in read(self.stage.batches[-1]) if count else ():
            if record.kind == records.PUBLISHED:
                body = (
                    Queue(record.address, durable=True).reader.message(record.content, record.position).body
                )
                self.live[record.position] = record.address, body
                if record.flags & records.HAS_ID and record.address not in COPIES:
                    continue  # a dead letter
                sent = self.sender[serial_of(body)]
                assert record.address in self._places(sent)
                assert self.newest[sent.client, record.address] < sent.serial, "each producer's order is kept"
                self.newest[sent.client, record.address] = sent.serial
                self.recorded[record.address, sent.serial] += 1
            elif record.kind == records.ACKED:
                for position in record.numbers:
                    address, _ = self.live.pop(position)  # else: it ended twice
                    assert address == record.address
                    if record.flags in (records.DEAD_LETTERED, records.DISCARDED):
                        policy = self.policies.of(address)
                        assert policy.limit_behavior in REMOVING or reconfigured
                        buries = policy.use_dead_letters and not address.endswith(".dead")
                        assert reconfigured or buries == (record.flags == records.DEAD_LETTERED)
        held = [
            message.position
            for peer in broker.unsettled.peers
            for _, message in peer.unsettled.values()
            if message.recorded
        ]
        for queue in broker.destinations.queues.values():
            for lane in queue.lanes:
                held += [message.position for message in lane.in_memory() if message.recorded]
                held += lane.loading
                held += [position for chunk in lane.paged.chunks() for position in chunk]
        assert sorted(held) == sorted(self.live), "nothing is lost, nothing is there twice"

    def _check_lines(self) -> None:
        broker = self.stage.broker
        lines: list[BlockedPublish] = list(broker.admission.blocked_by_alarm)
        for queue in broker.destinations.queues.values():
            if queue.limit_usage is not None:
                lines += queue.limit_usage.blocked
        assert {blocked.receipt for blocked in lines} == self.open.keys(), "who has no answer is in line"
        assert all(blocked.until_ms > self.stage.now_ms - 1_000 for blocked in lines)
        for line in [
            broker.admission.blocked_by_alarm,
            *(
                queue.limit_usage.blocked
                for queue in broker.destinations.queues.values()
                if queue.limit_usage
            ),
        ]:
            arrivals = [blocked.arrival for blocked in line]
            assert arrivals == sorted(arrivals), "a line is in the order of arrival"
        assert (
            broker.admission.blocked.bytes
            == sum(blocked.size for blocked in lines)
            <= self.stage.limits.blocked_bytes
        )
        shares: Counter[Any] = Counter()
        for blocked in lines:
            shares[blocked.peer] += blocked.size
        assert broker.admission.blocked.by_peer == shares
        for client in self.clients:
            settles = any(sub.ack != c.AUTO for sub in client.peer.subscriptions.values())
            share = shares[client.peer]
            much = share > self.stage.limits.blocked_per_peer
            assert not client.throttled or (share and not settles), "who can make room is read on"
            assert client.throttled or settles or not much, "who has much waiting is read no further"

    def _check_limits(self, queue: Queue, count_before: int, weight_before: int, reconfigured: bool) -> None:
        usage, policy = queue.limit_usage, queue.policy
        assert (usage is not None) == policy.has_limits or (usage is not None and usage.blocked), (
            queue.address
        )
        if usage is None:
            return
        count, weight = _count(queue), self._weight(queue)
        elsewhere = self._elsewhere(queue)
        if policy.max_bytes and not usage.unread:
            assert usage.bytes == weight or not count, (usage.bytes, weight)
        within = (not policy.max_messages or count <= policy.max_messages) and (
            not policy.max_bytes or weight <= policy.max_bytes
        )
        if usage.removes:
            # Dead letters need their bodies, which may have to be read back.
            reading = bool(self.stage.fetches) or queue in self.stage.broker.store.over_limit
            assert within or not queue.depth or reading or usage.unread
        elif not (usage.unread or reconfigured):
            most, heaviest = policy.max_messages - elsewhere.messages, policy.max_bytes - elsewhere.bytes
            assert not policy.max_messages or count <= max(most, count_before)
            assert not policy.max_bytes or weight <= max(heaviest, weight_before)
        if (
            usage.blocked
            and not usage.removes
            and self.stage.broker.resource_alarms.alarm is None
            and not usage.unread
        ):
            first = usage.blocked[0]
            full = policy.max_messages and count + elsewhere.messages + 1 > policy.max_messages
            heavy = policy.max_bytes and weight + elsewhere.bytes + len(first.body) > policy.max_bytes
            assert full or heavy, "no message waits for a free consumer"

    def _elsewhere(self, queue: Queue) -> Usage:
        """The part of the limits of a queue that other brokers use."""
        shared = queue.policy.scope == CLUSTER
        return self.stage.broker.cluster_usage.of(queue.address) if shared else NONE

    def _weight(self, queue: Queue) -> int:
        """The bytes of all bodies of a queue, wherever they are; 0 where no limit asks for them."""
        if not queue.policy.max_bytes:
            return 0
        weight = sum(
            len(message.body)
            for peer in self.stage.broker.unsettled.peers
            for subscription, message in peer.unsettled.values()
            if subscription.queue is queue
        )
        for lane in queue.lanes:
            weight += sum(len(message.body) for message in lane.in_memory())
            weight += sum(len(self.live[position][1]) for position in lane.loading)
            weight += sum(len(self.live[position][1]) for chunk in lane.paged.chunks() for position in chunk)
        return weight


def _count(queue: Queue) -> int:
    return queue.depth + queue.unsettled


def flood(seed: int, *, trace: bool = False) -> None:
    """Let flood number `seed` come."""
    Flood(seed, trace=trace).blow(20 + seed % 41)


if __name__ == "__main__":
    flood(int(sys.argv[1]), trace=True)
