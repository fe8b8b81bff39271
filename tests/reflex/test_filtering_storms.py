"""Storms against a broker with reflexes: random traffic whose messages carry their verdicts.

The laws: each message is confirmed or refused, never both; a refused one is nowhere; a confirmed one is
delivered or a dead letter; each consumer sees the messages of a producer in order; a transaction is whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, Declaration
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.library_client import CallFailure, LibraryClient, Request
from broker_app.reflex.subject import MessageSubject
from tests.reflex.filtering_broker import Client, FilteringBroker, RestClient, envelope_to, reflex
from tests.support.awaiting import until
from tests.support.chance import FIRST_SEED, rounds
from tests.support.patience import patient

STEPS = 120
#: seconds of a commit, of a fast and of a slow journal
COMMITS_S = (0.001, 0.05)
QUEUES = ("/queue/a", "/queue/b", "/topic/t")
#: verdicts about an arrival. The process ends at one, does not return at another, and may be in time at a
#: third
ARRIVALS = ("yes",) * 24 + ("no",) * 4 + ("error", "error", "end", "hang", "late")
#: verdicts about a delivery
DELIVERIES = ("yes",) * 24 + ("no",) * 4 + ("end", "end", "late")
#: the time limit of all reflexes
LIMIT_S = patient(0.2)

LIBRARY = """
import os, random, time
from broker_app.reflex.api import accept

def arrives(message):
    verdict = message.text.split(":")[2]
    if verdict == "error":
        raise ValueError(verdict)
    if verdict == "end":
        os._exit(1)
    if verdict == "hang":
        time.sleep(100)
    return in_time(verdict)

def stamps(message):
    return accept(headers={"stamp": message.headers.get("stamp", "") + "x"})

def leaves(message):
    verdict = message.text.split(":")[3]
    if verdict == "end":
        os._exit(1)
    return in_time(verdict)

def in_time(verdict):
    if verdict == "late":
        time.sleep(LIMIT_S * random.uniform(0.8, 1.2))
    return verdict in ("yes", "late")
""".replace("LIMIT_S", str(LIMIT_S))


class Consumer(Client):
    """A consumer that settles what it gets, later, if it has to."""

    def __init__(self, broker: FilteringBroker, address: str, ack: str) -> None:
        super().__init__(broker)
        self.address, self.ack = address, ack
        #: (message, attempts) in the order of arrival
        self.got: list[tuple[str, int]] = []
        self.unsettled: list[int] = []
        self.gone = False

    def flush(self, peer: Any) -> None:
        for _, tag, message in peer.deliveries:
            assert not self.gone, "a client that has left receives nothing"
            self.got.append((message.body.decode(), message.attempts))
            assert bool(tag) == (self.ack != c.AUTO)
            if tag:
                self.unsettled.append(tag)
        super().flush(peer)


class Storm:
    """One storm; the same seed gives the same commands."""

    def __init__(self, broker: FilteringBroker, seed: int) -> None:
        self.broker, self.random = broker, Random(seed)
        self.producers = [Client(broker) for _ in range(3)]
        self.rest = RestClient(broker)
        self.consumers: list[Consumer] = []
        self.numbers = Counter[int]()
        #: the address of each message that was sent by itself, and those of each transaction, by its receipt
        self.sent: dict[str, str] = {}
        self.transactions: dict[str, dict[str, str]] = {}
        self.former: list[Consumer] = []
        #: messages about which a function did not return in time, by the clock of the broker: those that are
        #: to be late, and on a busy machine others
        self.timed_out: set[str] = set()

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note calls that take too long."""
        finish = LibraryClient._finish

        def noting(request: Request, result: wire.CallResult | CallFailure) -> None:
            if isinstance(result, CallFailure) and result.reason.startswith("it did not return within"):
                subject = request.subject
                assert isinstance(subject, MessageSubject)
                self.timed_out.add(subject.body.decode())
            finish(request, result)

        monkeypatch.setattr(LibraryClient, "_finish", staticmethod(noting))

    def new(self, producer: int, address: str) -> bytes:
        self.numbers[producer] += 1
        verdicts = self.random.choice(ARRIVALS), self.random.choice(DELIVERIES)
        return f"{producer}:{self.numbers[producer]}:{verdicts[0]}:{verdicts[1]}".encode()

    def publish(self) -> None:
        number = self.random.randrange(len(self.producers))
        address = self.random.choice(QUEUES)
        bodies = [self.new(number, address) for _ in range(self.random.choice((1, 1, 3, 10)))]
        self.sent |= {body.decode(): address for body in bodies}
        self.producers[number].publish(*bodies, to=address)

    def post(self) -> None:
        address = self.random.choice(QUEUES)
        body = self.new(9, address)
        self.sent[body.decode()] = address
        self.rest.post(body, to=address)

    def commit(self) -> None:
        number = self.random.randrange(len(self.producers))
        producer, name = self.producers[number], f"tx-{len(self.transactions)}"
        self.broker.engine.submit(c.Begin(producer.peer, name))
        messages = {}
        for _ in range(self.random.choice((1, 2, 4))):
            address = self.random.choice(QUEUES[:2])
            body = self.new(number, address)
            messages[body.decode()] = address
            publish = c.Publish(producer.peer, [(envelope_to(address, {}), body, None)])
            self.broker.engine.submit(c.Enlist(producer.peer, name, publish))
        ends = self.random.random() < 0.8
        if ends:
            self.transactions[name] = messages
        command = c.Commit(producer.peer, name, name) if ends else c.Abort(producer.peer, name)
        self.broker.engine.submit(command)

    def consume(self) -> None:
        address = self.random.choice(QUEUES)
        if any(one.address == address for one in self.consumers):
            return
        ack = self.random.choice((c.AUTO, c.INDIVIDUAL))
        consumer = Consumer(self.broker, address, ack)
        self.consumers.append(consumer)
        consumer.subscribe(address, ack, credit=self.random.choice((1, 3, 100)), render_key="same")

    def settle(self) -> None:
        for consumer in self.consumers:
            tags, consumer.unsettled = consumer.unsettled, []
            if tags:
                self.broker.engine.submit(c.Settle(consumer.peer, tags))

    async def leave(self) -> None:
        if self.consumers:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            self.broker.engine.submit(c.Disconnect(consumer.peer, abandon=True))
            await self.broker.engine.wait_idle()
            consumer.gone = True
            self.former.append(consumer)

    def reload(self) -> None:
        self.broker.declare(*self.declarations())

    def declarations(self) -> list[Declaration]:
        """Reflexes of all arrivals, and of deliveries from some places; these change."""
        limit_s = LIMIT_S
        found = [
            reflex(ARRIVAL, "arrives", library="verdicts", time_limit_s=limit_s),
            reflex(ARRIVAL, "stamps", library="verdicts", time_limit_s=limit_s),
        ]
        services = self.random.sample(("a", "b", "/topic/t"), self.random.choice((1, 2, 3)))
        found += [
            reflex(
                DELIVERY,
                "leaves",
                name=f"leaves {one}",
                library="verdicts",
                service=one,
                time_limit_s=limit_s,
            )
            for one in services
        ]
        return found

    async def blow(self) -> None:
        self.reload()
        steps: list[tuple[Callable[[], Any], int]] = [
            (self.publish, 30), (self.post, 10), (self.commit, 10), (self.consume, 10), (self.settle, 10),
            (self.leave, 2), (self.reload, 2),
        ]  # fmt: skip
        for _ in range(STEPS):
            (step,) = self.random.choices([step for step, _ in steps], [weight for _, weight in steps])
            waiting = step()
            if waiting is not None:
                await waiting
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
        await self.drain()

    async def drain(self) -> None:
        """Consume all queues to their end."""
        await self.broker.settled()
        for address in QUEUES[:2]:
            if not any(one.address == address for one in self.consumers):
                self.consumers.append(Consumer(self.broker, address, c.INDIVIDUAL))
                self.consumers[-1].subscribe(address)
        queues = self.broker.engine.broker.destinations.queues

        def is_empty() -> bool:
            self.settle()
            return all(
                queue.depth == queue.unsettled == 0 for address, queue in queues.items() if address in QUEUES
            )

        await until(is_empty, 60)
        await self.broker.settled()

    # ------------------------------------------------------------------ laws

    def check(self) -> None:
        confirmed = {receipt for one in self.producers for receipt in one.receipts}
        confirmed |= {receipt for receipt, _ in self.rest.receipts}
        refused = {receipt for one in (*self.producers, self.rest) for receipt, _ in one.refusals}
        codes = {refusal.code for one in (*self.producers, self.rest) for _, refusal in one.refusals}
        assert codes <= {"filtered"}
        expected = {body.encode() for body in self.sent} | set(self.transactions)
        assert confirmed | refused == expected, "each is answered"
        assert not confirmed & refused, "once"
        accepted = {body: at for body, at in self.sent.items() if body.encode() in confirmed}
        for name, messages in self.transactions.items():
            if name in confirmed:
                accepted |= messages
        verdicts = {body.split(":")[2] for body in accepted}
        assert verdicts <= {"yes", "late"}, "what is to be refused is not accepted"
        self.check_deliveries(accepted)

    def check_deliveries(self, accepted: dict[str, str]) -> None:
        delivered: dict[str, list[str]] = defaultdict(list)
        for consumer in (*self.former, *self.consumers):
            newest: dict[str, int] = {}
            for body, attempts in consumer.got:
                assert accepted[body] == consumer.address, "what was refused is not delivered"
                producer, number = body.split(":")[:2]
                if not attempts:
                    assert int(number) > newest.get(producer, 0), "the order of each producer is kept"
                    newest[producer] = int(number)
                    delivered[consumer.address].append(body)
        for address in QUEUES[:2]:
            dead = self.bodies(f"{address}.dead")
            wanted = {body for body in dead if body.split(":")[3] == "yes"}
            assert wanted <= self.timed_out or self.was_open
            everywhere = {*delivered[address], *dead, *self.redelivered(address)}
            assert everywhere == {body for body, at in accepted.items() if at == address}, "none is lost"
            twice = [body for body, count in Counter(delivered[address]).items() if count > 1]
            assert not twice, "none is delivered twice as if it were new"

    @property
    def was_open(self) -> bool:
        """True if the breaker was open for a time: then all is refused."""
        return any(event.event == "failed" for event in self.broker.events.all())

    def redelivered(self, address: str) -> set[str]:
        consumers = [one for one in (*self.former, *self.consumers) if one.address == address]
        return {body for one in consumers for body, attempts in one.got if attempts}

    def bodies(self, address: str) -> list[str]:
        queue = self.broker.engine.broker.destinations.queues.get(address)
        lanes = queue.lanes if queue is not None else ()
        return [message.body.decode() for lane in lanes for message in lane.in_memory()]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "commit_s"), [(one, COMMITS_S[one % 2]) for one in rounds(2, 60)])
async def test_every_law_holds_in_every_storm(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("broker_app.reflex.libraries.breaker.OPEN_S", 0.05)
    filtering.library("verdicts", LIBRARY)
    storm = Storm(filtering, FIRST_SEED + number)
    storm.watch(monkeypatch)
    await storm.blow()
    storm.check()
