"""How many messages cross to another broker, where a queue has consumers at both and prefers local ones."""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest

from broker_app.core import commands as c
from broker_app.core.delivery.local_preference import WAIT_MS
from broker_app.core.message import Envelope
from broker_app.core.policy import DestinationPolicy, Policies
from tests.cluster.conftest import Brokers
from tests.cluster.simulation import Home, Side
from tests.core.stage import Client
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

QUEUE = "/queue/a"


class Worker:
    """A consumer whose acknowledgements arrive some turns after its deliveries."""

    def __init__(self, home: Home, credit: int, turns: int) -> None:
        self._client = Client(home, "consumer")
        self._client.subscribe(QUEUE, credit=credit)
        self._busy = deque[list[int]]([[] for _ in range(turns - 1)])
        self.acked = 0

    def work(self, home: Home) -> None:
        got, self._client.got = self._client.got, []
        self._busy.append([tag for _, tag, _ in got])
        tags = self._busy.popleft()
        if tags:
            self.acked += len(tags)
            home.submit(c.Settle(self._client.peer, tags))


class Pair:
    """A broker with producer and consumer, and another one with a consumer. A turn takes 1 ms."""

    def __init__(self, credit: int, turns: int) -> None:
        self.home, self.other = Home(1), Home(2)
        policies = Policies(DestinationPolicy(prefer_local=True))
        for home in (self.home, self.other):
            home.decide(c.Reconfigure(policies))
        self.local, self.remote = Worker(self.home, credit, turns), Worker(self.other, credit, turns)
        self._link, self._back = Side(self.home, self.other), Side(self.other, self.home)
        self._link.peer, self._back.peer = self._back, self._link
        self._link.queues.refresh(self.home.broker.interest.all())
        self._back.queues.refresh(self.other.broker.interest.all())
        self._producer = Client(self.home, "producer")
        self.pass_time()

    def pass_time(self, messages: int = 0) -> None:
        """Publish so many messages, and let a millisecond pass."""
        self.local.work(self.home)
        self.remote.work(self.other)
        if messages:
            self.home.submit(c.Publish(self._producer.peer, [(Envelope(QUEUE), b"x" * 100, None)] * messages))
        for side in (self._link, self._back):
            while side.wire:
                side.carry()
        for home in (self.home, self.other):
            home.now_us += 1_000
            home.submit(c.Answer(self._producer.peer, None))
            home.turn()

    @property
    def crossed(self) -> int:
        return self._link.consumers.sent

    def waited_ms(self) -> int:
        """How long a message has waited though a consumer has credit."""
        queue = self.home.queues[QUEUE]
        if all(one.unsettled >= one.credit for one in queue.consumers):
            return 0
        waiting = [message for lane in queue.lanes for message in lane.in_memory()]
        return max((self.home.now_ms - message.time_ms for message in waiting), default=0)


@pytest.mark.parametrize("window", [1, 16, 256])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_no_message_crosses_while_the_local_consumer_acknowledges_within_moments(
    window: int, turns: int
) -> None:
    pair, sent = Pair(window, turns), 0
    for _ in range(100):
        waiting = sent - pair.local.acked - pair.remote.acked
        messages = max(0, 2 * window - waiting)  # as many again as the consumer takes at a time
        pair.pass_time(messages)
        sent += messages
    assert sent >= 100 * window / turns
    assert pair.crossed == 0


@pytest.mark.parametrize("credit", [1, 16, 256])
def test_what_local_consumers_do_not_keep_up_with_crosses_within_moments(credit: int) -> None:
    pair, sent, longest_ms = Pair(credit, turns=50), 0, 0
    for turn in range(1, 501):
        messages = turn * credit * 3 // 2 // 50 - sent  # what one and a half consumers take
        pair.pass_time(messages)
        sent += messages
        longest_ms = max(longest_ms, pair.waited_ms())
    assert 0 < longest_ms < WAIT_MS
    assert sent // 4 < pair.remote.acked < pair.local.acked


async def consumers(node: NodeProcess) -> int:
    """The consumers of the queue that a broker knows."""
    async with node.rest() as http:
        return int((await http.get("/queues/a")).json().get("consumers", 0))


async def test_a_broker_sends_another_one_what_its_own_consumer_does_not_take(nodes: Nodes) -> None:
    b1, b2 = brokers = Brokers(nodes, 2)
    for node in brokers:
        node.destinations = {QUEUE: {"prefer_local": True}}
    brokers.start()
    async with (
        b1.stomp() as client,
        b2.stomp() as other,
        client.subscribe(QUEUE, credit=1) as own,
        other.subscribe(QUEUE, credit=9) as elsewhere,
    ):
        await becomes(partial(consumers, b1), 2)
        await client.send(QUEUE, b"1")
        held = await anext(own)
        await client.send(QUEUE, b"2")
        crossed = await anext(elsewhere)
        assert (held.body, crossed.body, crossed.redelivered) == (b"1", b"2", False)
        await held.ack()
        await crossed.ack()
