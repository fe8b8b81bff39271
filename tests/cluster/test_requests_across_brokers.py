"""Requests and replies across two brokers: no reply is lost when their link is cut, or one is slow."""

from __future__ import annotations

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links import members
from broker_app.features.cluster.links.outbox import Outbox
from broker_app.features.cluster.links.remote_queues import RemoteQueues
from tests.cluster.test_links import two_clusters
from tests.support.awaiting import until

REQUESTS, REPLIES = "/queue/work", "/temp-queue/replies-1"


class Application(InnerReceiver):
    """A client of one broker that consumes one queue, and notes what comes. It settles nothing, so that no
    request comes again."""

    def __init__(self, engine: Engine, address: str) -> None:
        self._engine = engine
        self.peer = Peer(self)
        self.got: list[bytes] = []
        engine.submit(c.Subscribe(self.peer, "1", address, c.AUTO, credit=10))

    def publish(self, address: str, body: bytes) -> None:
        self._engine.submit(c.Publish(self.peer, [(Envelope(address, b"", persistent=False), body, None)]))

    def flush(self, peer: Peer) -> None:
        deliveries, peer.deliveries = peer.deliveries, []
        self.got += [message.body for _, _, message in deliveries]
        peer.receipts.clear()
        peer.refusals.clear()

    def leave(self) -> None:
        self._engine.submit(c.Disconnect(self.peer))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers connect again at once."""
    monkeypatch.setattr(members, "RETRY_S", 0.01)


def cut(cluster: Cluster) -> None:
    for one in cluster.members.links():
        one.close(Refused("connection-lost", "the link is cut"))


def is_linked(*clusters: Cluster) -> bool:
    return all(len(one.members.links()) == 1 and one.members.links()[0].is_up for one in clusters)


async def test_a_reply_that_is_sent_while_the_link_is_cut_arrives_when_it_is_up_again() -> None:
    async with two_clusters() as ((home, first), (elsewhere, second)):
        await until(lambda: is_linked(first, second))
        requester = Application(home, REPLIES)
        service = Application(elsewhere, REQUESTS)
        await until(lambda: REPLIES in elsewhere.broker.destinations.queues)
        requester.publish(REQUESTS, b"what time is it?")
        await until(lambda: service.got)
        cut(second)
        await elsewhere.wait_idle()
        service.publish(REPLIES, b"noon")
        await until(lambda: requester.got == [b"noon"])
        requester.leave()
        await until(lambda: REPLIES not in elsewhere.broker.destinations.queues)


async def test_a_reply_that_was_under_way_when_the_link_was_cut_arrives_over_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two_clusters() as ((home, first), (elsewhere, second)):
        await until(lambda: is_linked(first, second))
        requester = Application(home, REPLIES)
        service = Application(elsewhere, REQUESTS)
        await until(lambda: REPLIES in elsewhere.broker.destinations.queues)
        taken = RemoteQueues.deliver

        def lose(_: object, __: object) -> None:
            monkeypatch.setattr(RemoteQueues, "deliver", taken)
            cut(first)

        monkeypatch.setattr(RemoteQueues, "deliver", lose)
        service.publish(REPLIES, b"noon")
        await until(lambda: requester.got == [b"noon"])


async def test_the_first_request_of_a_client_crosses_after_the_interest_in_its_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[tuple[Outbox, f.Frame]] = []
    slow: set[Outbox] = set()
    send = Outbox.send

    def send_unless_slow(self: Outbox, frame: f.Frame) -> None:
        """Send nothing more after messages, as if the process had to wait for a processor."""
        if self in slow:
            held.append((self, frame))
            return
        send(self, frame)
        if isinstance(frame, f.Deliver):
            slow.add(self)

    async with two_clusters() as ((home, first), (elsewhere, second)):
        await until(lambda: is_linked(first, second))
        service = Application(elsewhere, REQUESTS)
        await until(lambda: [one.address for one in first.report().interest] == [REQUESTS])
        monkeypatch.setattr(Outbox, "send", send_unless_slow)
        requester = Application(home, REPLIES)
        requester.publish(REQUESTS, b"what time is it?")
        await until(lambda: service.got)
        service.publish(REPLIES, b"noon")
        await elsewhere.wait_idle()
        monkeypatch.setattr(Outbox, "send", send)
        for outbox, frame in held:
            outbox.send(frame)
        await until(lambda: requester.got == [b"noon"])
