"""Links of two brokers: one connection is kept, which carries what consumers want and what has changed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster, ClusterSettings
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link
from tests.support.awaiting import until
from tests.support.memory_journal import MemoryJournal


class Noting(Cluster):
    """Notes the availability that other brokers send."""

    def __init__(self, engine: Engine, settings: ClusterSettings) -> None:
        super().__init__(engine, settings, lambda: self.clients_here)
        self.clients_here = 0
        self.noted: list[f.Availability] = []
        #: what this broker has said not to use
        self.unused_here: list[list[str]] = []

    def availability(self, link: Link, frame: f.Availability) -> None:
        super().availability(link, frame)
        self.noted.append(frame)

    def receive_unused(self, link: Link, frame: f.AskUnused | f.Unused) -> None:
        super().receive_unused(link, frame)
        if isinstance(frame, f.AskUnused):
            is_used = self._engine.broker.sweeper.is_used
            self.unused_here.append([one for one in frame.addresses if not is_used(one)])


@contextlib.asynccontextmanager
async def two_clusters(
    first_journal: MemoryJournal | None = None, **limits: int
) -> AsyncIterator[list[tuple[Engine, Noting]]]:
    """Two brokers that begin to dial each other in the same turn of the loop."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = ["{}:{}".format(*listener.getsockname()) for listener in listeners]
    brokers = []
    for at, address in enumerate(addresses):
        engine = Engine(
            Broker(limits=replace(Limits(), **limits)), (not at and first_journal) or MemoryJournal()
        )
        engine.recover()
        settings = ClusterSettings(
            name=f"b{at + 1}",
            version="test",
            address=address,
            brokers=tuple(other for other in addresses if other != address),
            secret="a secret of this test",
            most_bytes=1_000_000,
            must_be_equal={},
            uris=(),
            web="",
        )
        brokers.append((engine, Noting(engine, settings)))
    for (_, cluster), listener in zip(brokers, listeners, strict=True):
        await cluster.start(listener)
    try:
        yield brokers
    finally:
        for engine, cluster in brokers:
            await cluster.stop()
            await engine.stop()


async def test_of_two_connections_that_cross_one_is_kept_and_both_brokers_know_it() -> None:
    async with two_clusters() as ((engine, first), (_, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        consumer = Peer(InnerReceiver())
        engine.submit(c.Subscribe(consumer, "1", "/queue/orders", c.INDIVIDUAL, credit=10))
        await until(lambda: [one.broker for one in second.report().interest] == ["b1"])
        assert [link.state for one in (first, second) for link in one.report().links] == ["up", "up"]
        assert second.report(interest=False).interest == []


class Consumer(InnerReceiver):
    """Consumes what broker b2 has; `answers` are its receipts and the codes of refusals."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.peer = Peer(self)
        self.answers: list[object] = []
        engine.submit(c.Subscribe(self.peer, "1", "/queue/orders", c.INDIVIDUAL, credit=10))

    def flush(self, peer: Peer) -> None:
        self.answers += [*peer.receipts, *(refusal.code for _, refusal in peer.refusals)]
        for taken in (peer.receipts, peer.refusals, peer.deliveries):
            taken.clear()

    def settle_next(self, receipt: str) -> None:
        """Acknowledge the oldest delivery."""
        self._engine.submit(c.Settle(self.peer, [next(iter(self.peer.unsettled))], receipt=receipt))


async def test_what_a_client_sends_again_to_another_broker_is_a_repeat_at_both() -> None:
    async with two_clusters() as ((home, first), (elsewhere, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        for engine, resent in ((home, False), (elsewhere, True)):
            envelope = Envelope("/queue/orders", b"", options=DeliveryOptions(dedup_id="1", resent=resent))
            engine.submit(c.Publish(Peer(InnerReceiver()), [(envelope, b"an order", None)]))
            await engine.wait_idle()
        found = [engine.broker.destinations.queues["/queue/orders"].lanes[0] for engine in (home, elsewhere)]
        await until(lambda: [message.attempts for lane in found for message in lane.in_memory()] == [1, 1])


async def test_no_more_is_read_from_a_broker_that_sends_too_much_until_that_goes_back() -> None:
    async with two_clusters() as ((engine, first), (_, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        consumer = Consumer(engine)
        await until(lambda: [one.broker for one in second.report().interest] == ["b1"])
        assert first._looking is not None
        first._looking.cancel()  # nothing goes back meanwhile
        ((here,), (there,)) = (cluster.members.links() for cluster in (first, second))
        envelope, body = f.SharedEnvelope("/queue/orders", b"", True, 4), bytes(900_000)
        for tag in range(1, 81):
            there.send(f.Deliver([envelope], [f.RemoteDelivery(1, tag, 0, 0, 1, 0, b"id", body)]))
        there.send(f.Ping(1))
        origin = here.queues._origin
        await until(lambda: origin.waiting * len(body) > 32 * f.MIB)
        await engine.wait_idle()
        assert origin.waiting * len(body) < 42 * f.MIB, "what was in the inbox, too"
        before = origin.waiting
        for _ in range(100):
            await asyncio.sleep(0)
        assert origin.waiting == before
        # Nothing is lost of what follows.
        while here.queues.received < 80:
            here.queues.give_back_old()
            await asyncio.sleep(0.01)
        assert len(consumer.peer.unsettled) == 10


@contextlib.asynccontextmanager
async def delivered_elsewhere() -> AsyncIterator[tuple[MemoryJournal, Cluster, Consumer]]:
    """Two messages of b1, delivered to a consumer at b2; with the journal of b1, and its cluster."""
    journal = MemoryJournal()
    async with two_clusters(journal) as ((owner, cluster), (engine, _)):
        envelope = Envelope("/queue/orders", b"", persistent=True)
        owner.submit(c.Publish(Peer(InnerReceiver()), [(envelope, b"1", None), (envelope, b"2", None)]))
        consumer = Consumer(engine)
        await until(lambda: len(consumer.peer.unsettled) == 2)
        journal.hold = True
        try:
            yield journal, cluster, consumer
        finally:
            journal.hold = False
            if journal.is_committing:
                journal.release()


async def test_an_acknowledgement_is_confirmed_when_the_broker_that_owns_the_message_has_recorded_it() -> (
    None
):
    async with delivered_elsewhere() as (journal, cluster, consumer):
        consumer.settle_next("first")
        await until(lambda: journal.is_committing)
        cluster.each_second()
        await answered(cluster)
        assert consumer.answers == []
        journal.release()
        await until(lambda: consumer.answers == ["first"])


async def test_an_acknowledgement_is_refused_when_its_owner_is_lost_before_it_says_that_it_has_it() -> None:
    async with delivered_elsewhere() as (journal, cluster, consumer):
        consumer.settle_next("first")
        await until(lambda: journal.is_committing)
        for link in cluster.members.links():
            link.close(Refused("test", "the link is cut"))
        await until(lambda: consumer.answers == ["unknown-delivery"])
        consumer.settle_next("second")  # its delivery is the owner's again
        await until(lambda: consumer.answers == 2 * ["unknown-delivery"])


async def test_a_queue_without_use_is_deleted_only_when_its_messages_elsewhere_have_ended() -> None:
    async with two_clusters(idle_queue_ms=1) as ((owner, first), (engine, second)):

        def after_a_beat(is_so: Callable[[], bool]) -> bool:
            for cluster in (first, second):
                cluster.each_second()
            return is_so()

        def listed(of: Engine) -> bool:
            return "/queue/orders" in of.broker.destinations.queues

        envelope = Envelope("/queue/orders", b"", persistent=True)
        owner.submit(c.Publish(Peer(InnerReceiver()), [(envelope, b"1", None)]))
        consumer = Consumer(engine)
        await until(lambda: len(consumer.peer.unsettled) == 1)
        engine.submit(c.Disconnect(consumer.peer))  # what it held is under way back to its owner
        await until(lambda: after_a_beat(lambda: [] in first.unused_here))
        assert listed(engine) and listed(owner)
        last = Consumer(owner)
        await until(lambda: len(last.peer.unsettled) == 1)
        last.settle_next("done")
        owner.submit(c.Disconnect(last.peer))
        await until(lambda: after_a_beat(lambda: not (listed(engine) or listed(owner))))


async def test_availability_is_sent_when_it_has_changed_and_addresses_when_they_have() -> None:
    async with two_clusters() as ((_, first), (_, second)):
        await until(lambda: all(len(one.members.links()) == 1 for one in (first, second)))
        first.each_second()
        await answered(first)
        second.noted.clear()
        for _ in range(3):
            first.each_second()
            await answered(first)
        assert not second.noted
        first.clients_here = 7
        first.each_second()
        await until(lambda: second.noted == [f.Availability(False, 7, [])])
        first.members.learn(["192.0.2.1:7676"], "static")
        first.each_second()
        await until(lambda: len(second.noted) == 2)
        assert "192.0.2.1:7676" in second.noted[1].brokers


async def answered(cluster: Cluster) -> None:
    """Wait for the answer to the last heart-beat: all that was sent before it has arrived."""
    (link,) = cluster.members.links()
    link.round_trip_ms = None
    await until(lambda: link.round_trip_ms is not None)
