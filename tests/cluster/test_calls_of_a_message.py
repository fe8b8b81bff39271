"""The work of a message over a link does not grow unseen: the calls of functions for each are counted."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.core.model import Delivery, InnerReceiver, Peer
from broker_app.core.policy import DestinationPolicy
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_consumers import RemoteConsumers
from broker_app.features.cluster.links.remote_queues import RemoteQueues
from tests.core.stage import Stage

Q = "/queue/a"
CREDIT = 1_024
#: calls for a message at its owner until it is sent, at the broker of the consumer until it is delivered,
#: there for its acknowledgement, and for that at the owner
MOST = {"sent": 30, "delivered": 12, "acknowledged there": 5, "recorded": 14}


class Clients(InnerReceiver):
    """Clients of a broker that keep what they were delivered last."""

    def __init__(self) -> None:
        self.peer = Peer(self)
        self.got: list[Delivery] = []

    def flush(self, peer: Peer) -> None:
        self.got, peer.deliveries = peer.deliveries, []


class Home:
    """A broker that decides when it is its turn, and its end of a link."""

    def __init__(self, tag: int, policy: DestinationPolicy | None = None) -> None:
        self._stage = Stage(tag=tag, policy=policy)
        self.broker = self._stage.broker
        self._run: list[c.Command] = []
        self.wire = bytearray()
        self.clients = Clients()
        self.consumers = RemoteConsumers(self, "other", self._send, self._fail)  # type: ignore[arg-type]
        self.queues = RemoteQueues(self, "other", self._send)  # type: ignore[arg-type]
        self._reader = f.Reader(f.MIB)

    def submit(self, command: c.Command, _: int = 0) -> None:
        self._run.append(command)

    def _send(self, frame: f.Frame) -> None:
        self.wire += f.encode(frame)

    def _fail(self, error: Exception) -> None:
        raise error

    def turn(self) -> None:
        run, self._run = self._run, []
        for peer in self.broker.decide(run, self._stage.now_us).touched:
            peer.touched = False
            peer.receiver.flush(peer)

    def receive_from(self, other: Home) -> None:
        self._reader.add(other.wire)
        other.wire.clear()
        for frame in self._reader:
            match frame:
                case f.Subscribe():
                    self.consumers.subscribe(frame)
                case f.Deliver():
                    self.queues.deliver(frame)
                case f.Settled():
                    self.consumers.settled(frame)
        self.turn()


@contextmanager
def counted(calls: list[int]) -> Iterator[None]:
    """Add the number of calls within this context, without those of garbage that is collected meanwhile."""
    number = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()
    calls.append(number)


def calls_of(owner: Home, there: Home, messages: int) -> list[int]:
    """The calls of each step for so many messages."""
    calls: list[int] = []
    owner.submit(c.Publish(owner.clients.peer, [(Envelope(Q, b"a:b\n"), b"x" * 100, None)] * messages))
    with counted(calls):
        owner.turn()
    with counted(calls):
        there.receive_from(owner)
    assert len(there.clients.got) == messages
    there.submit(c.Settle(there.clients.peer, [tag for _, tag, _ in there.clients.got]))
    with counted(calls):
        there.turn()
    with counted(calls):
        owner.receive_from(there)
    assert not owner.consumers.unsettled
    return calls


def test_a_message_over_a_link_costs_few_calls_of_functions() -> None:
    owner, there = Home(1), Home(2)
    there.submit(c.Subscribe(there.clients.peer, "1", Q, c.INDIVIDUAL, CREDIT))
    there.turn()
    there.queues.refresh(there.broker.interest.all())
    owner.receive_from(there)
    few, many = calls_of(owner, there, 100), calls_of(owner, there, 600)
    found = {step: (b - a) / 500 for step, a, b in zip(MOST, few, many, strict=True)}
    assert all(found[step] <= most for step, most in MOST.items()), found


def local_calls(home: Home, messages: int) -> int:
    """The calls for messages from a client of a broker to another one of it."""
    calls: list[int] = []
    with counted(calls):
        home.submit(c.Publish(home.clients.peer, [(Envelope(Q, b"a:b\n"), b"x" * 100, None)] * messages))
        home.turn()
        home.submit(c.Settle(home.clients.peer, [tag for _, tag, _ in home.clients.got]))
        home.turn()
    assert len(home.clients.got) == messages
    return calls[0]


def test_a_message_to_a_preferred_local_consumer_costs_nothing_more_in_a_cluster() -> None:
    """Where local consumers have credit; without, it crosses."""
    alone, home, there = Home(1), Home(1, DestinationPolicy(prefer_local=True)), Home(2)
    for broker in (alone, home, there):
        broker.submit(c.Subscribe(broker.clients.peer, "1", Q, c.INDIVIDUAL, CREDIT))
        broker.turn()
    there.queues.refresh(there.broker.interest.all())
    home.receive_from(there)
    assert len(home.broker.destinations.queues[Q].consumers) == 2
    for messages in (1, 100, 1_000):
        # What is done once in a while may fall into either.
        assert local_calls(home, messages) == pytest.approx(local_calls(alone, messages), rel=0.01, abs=2)
    assert not home.wire
