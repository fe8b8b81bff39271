"""Brokers of a cluster without processes: the real core and both sides of real links, over wires in memory
that are late and break. All follows from a seed: `python -m tests.cluster.simulation SEED` repeats it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.delivery.local_preference import WAIT_MS, LocalFirst
from broker_app.core.message import DeliveryOptions
from broker_app.core.outcome import InterestChanged, Outcome
from broker_app.core.policy import DestinationPolicy
from broker_app.core.remote.origin import RemoteMessage
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.remote_consumers import RemoteConsumers
from broker_app.features.cluster.links.remote_queues import RemoteQueues
from tests.core.stage import Client, Stage

QUEUES = ("/queue/a", "/queue/b")
#: a topic with one named subscription that consumers share
TOPIC, SHARED = "/topic/t", {"name": "s", "shared": True, "durable": True}
#: kinds of consumers
KINDS: tuple[dict[str, Any], ...] = (
    *({}, {}, {"credit": 1}, {"credit": 3}, {"selector": "colour = 'red'"}),
    *({"exclusive": True}, {"priority": 5}, {"ack": c.AUTO}),
)


class Home(Stage):
    """One broker, as its links see it: an engine that carries out what was submitted when it is its turn."""

    def __init__(self, tag: int, *, prefers_local: bool = False) -> None:
        super().__init__(tag=tag, policy=DestinationPolicy(max_attempts=1_000, prefer_local=prefers_local))
        self.name = f"b{tag}"
        self.sides: dict[str, Side] = {}
        self._inbox: list[c.Command] = []
        self.broker.interest.watched = True

    def submit(self, command: c.Command, _: int = 0) -> None:
        self._inbox.append(command)

    def turn(self) -> None:
        """Carry out what was submitted."""
        run, self._inbox = self._inbox, []
        if run:
            self.decide(*run)

    def decide(self, *run: c.Command) -> Outcome:
        outcome = super().decide(*run)
        wants = {event.want: None for event in outcome.events if isinstance(event, InterestChanged)}
        for side in self.sides.values():
            side.queues.refresh(wants)
        return outcome


class Side:
    """One end of a link. What it sends waits in `wire`."""

    def __init__(self, home: Home, other: Home) -> None:
        engine: Engine = home  # type: ignore[assignment]
        self.home, self.other = home, other
        self.wire: deque[bytearray] = deque()
        self._reader = f.Reader(f.MIB)
        self.consumers = RemoteConsumers(
            engine, other.name, self._send, self._fail, lambda: home.now_ms / 1_000
        )
        self.queues = RemoteQueues(engine, other.name, self._send)
        self.peer: Side

    def _send(self, frame: f.Frame) -> None:
        self.wire.append(f.encode(frame))

    def _fail(self, error: Exception) -> None:
        raise error

    def carry(self) -> None:
        """Have one frame arrive at the other end."""
        other = self.peer
        other._reader.add(self.wire.popleft())
        for frame in other._reader:
            match frame:
                case f.Deliver():
                    other.queues.deliver(frame)
                case f.Settled():
                    other.consumers.settled(frame)
                case f.Subscribe():
                    other.consumers.subscribe(frame)
                case f.Credit():
                    other.consumers.set_credit(frame)
                case f.Unsubscribe(number):
                    other.consumers.unsubscribe(number)
                case f.NotSubscribed():
                    other.queues.not_subscribed(frame)

    def end(self) -> None:
        del self.home.sides[self.other.name]
        self.consumers.end()
        self.queues.end()


class Consumer:
    """A client with one subscription, and what it was delivered."""

    def __init__(self, world: Simulation, home: Home, queue: str, facts: dict[str, Any]) -> None:
        self._world = world
        self.home, self.queue = home, queue
        self.client = Client(home, "consumer")
        self._last: dict[tuple[bytes, ...], int] = {}
        self.acks = facts.get("ack") != c.AUTO
        self.client.subscribe(queue, **facts)

    def look(self) -> None:
        """Check what came."""
        got, self.client.got = self.client.got, []
        for _, _, message in got:
            body, unmarked = message.body, self._world.unmarked
            if not self.acks:
                self._world.acked.add(body)
            if message.attempts:
                continue
            assert body not in unmarked, f"{body!r} came again and was not marked"
            unmarked.add(body)
            *source, number = body.split()
            before = self._last.get(tuple(source), -1)
            assert int(number) > before, f"{body!r} came behind {before}"
            self._last[tuple(source)] = int(number)

    def settle(self, tags: list[int]) -> None:
        """Acknowledge deliveries."""
        bodies = [self.client.peer.unsettled[tag][1].body for tag in tags]
        self.client.stage.decide(c.Settle(self.client.peer, tags))  # a receipt would wait for the owners
        self._world.acked.update(bodies)

    def leave(self) -> None:
        self.client.disconnect()
        self.look()


class Simulation:
    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        *,
        trace: bool = False,
        alone: bool = False,
        prefers_local: bool = False,
    ) -> None:
        """`alone`: each queue has one consumer at a time, with little credit."""
        self.random = Random(seed)
        self._alone = alone
        self._trace = trace
        self.homes = [Home(tag, prefers_local=prefers_local) for tag in range(1, brokers + 1)]
        self.producers = [Client(home, "producer") for home in self.homes]
        self.consumers: list[Consumer] = []
        #: halves of links whose other half has ended, and that do not know it yet
        self._halves: list[Side] = []
        self._number = 0
        #: bodies that were accepted and must arrive, that came without a mark, and that were acknowledged
        self.promised: dict[bytes, tuple[Home, str]] = {}
        self.unmarked: set[bytes] = set()
        self.acked: set[bytes] = set()

    # ------------------------------------------------------------------ steps

    def run(self, steps: int) -> None:
        """Do so many things by chance, then let everything arrive."""
        usual: list[tuple[Callable[[], None], int]] = [
            *((self._publish, 8), (self._settle, 8), (self._carry, 30), (self._turn, 20)),
            *((self._subscribe, 2), (self._leave, 1), (self._nack, 1)),
            (self._pass_time, 8 if self._alone else 2),
            *((self._pause, 1), (self._resume, 1), (self._transaction, 1)),
        ]
        rare = [self._break, self._connect, self._purge, self._delete]
        actions = [action for action, _ in usual]
        weights = [self.random.choice((0.3, 1, 1, 3)) * often for _, often in usual]
        self._connect_all()
        for _ in range(steps):
            is_rare = self.random.random() < 0.02
            action = self.random.choice(rare) if is_rare else self.random.choices(actions, weights)[0]
            if self._trace:
                print(action.__name__, flush=True)
            action()
            self._check()
        self._finish()

    def _home(self) -> Home:
        return self.random.choice(self.homes)

    def _publish(self) -> None:
        home, queue = self._home(), self.random.choice((*QUEUES, TOPIC))
        colour, group = self.random.choice((b"red", b"blue")), self.random.choice(("", "", "", "g", "h"))
        if self._alone:
            group = ""  # groups are for several consumers
        self._number += 1
        body = b"%b %b %b %b %d" % (home.name.encode(), queue.encode(), colour, group.encode(), self._number)
        options = DeliveryOptions(group=group) if group else None
        producer = self.producers[self.homes.index(home)]
        producer.publish(queue, body, block=b"colour:%b\n" % colour, options=options)
        if queue != TOPIC or home.broker.destinations.named:
            self.promised[body] = home, queue

    def _subscribe(self) -> None:
        if self._alone:
            for queue in QUEUES:
                if all(one.queue != queue for one in self.consumers):
                    credit = self.random.randint(1, 5)
                    self.consumers.append(Consumer(self, self._home(), queue, {"credit": credit}))
        elif len(self.consumers) < 3 * len(self.homes):
            queue = self.random.choice((*QUEUES, TOPIC))
            facts = SHARED if queue == TOPIC else self.random.choice(KINDS)
            self.consumers.append(Consumer(self, self._home(), queue, facts))

    def _consumer(self) -> Consumer | None:
        return self.random.choice(self.consumers) if self.consumers else None

    def _leave(self) -> None:
        if one := self._consumer():
            self.consumers.remove(one)
            one.leave()

    def _held(self) -> tuple[Consumer, list[int]] | None:
        """A consumer that holds deliveries, and some of them."""
        one = self._consumer()
        if one is None or not one.client.tags:
            return None
        tags = one.client.tags
        return one, self.random.sample(tags, self.random.randint(1, min(3, len(tags))))

    def _settle(self) -> None:
        if found := self._held():
            found[0].settle(found[1])

    def _nack(self) -> None:
        if found := self._held():
            client, tags = found[0].client, found[1]
            client.stage.decide(c.Return(client.peer, tags))

    def _transaction(self) -> None:
        if not (found := self._held()):
            return
        one, tags = found
        client, bodies = one.client, [one.client.peer.unsettled[tag][1].body for tag in tags]
        client.do(c.Begin(client.peer, "t"))
        client.do(c.Enlist(client.peer, "t", c.Settle(client.peer, tags)))
        if self.random.random() < 0.5:
            client.stage.decide(c.Commit(client.peer, "t"))
            self.acked.update(bodies)
        else:
            client.do(c.Abort(client.peer, "t"))

    def _pause(self) -> None:
        if one := self._consumer():
            one.client.pause()

    def _resume(self) -> None:
        for one in self.consumers:
            one.client.resume()

    def _pass_time(self) -> None:
        for home in self.homes:
            home.pass_time(self.random.choice((1, 1, 1, 60) if self._alone else (1, 30)))
            self._look(home)

    def _look(self, home: Home) -> None:
        for side in home.sides.values():
            side.queues.send_small_changes()
            side.consumers.read_ahead(0)
            home.submit(c.ReturnRemote(side.queues._origin, home.now_ms - 50))

    def _purge(self) -> None:
        self._drop(lambda client, queue: client.purge(queue))

    def _delete(self) -> None:
        self._drop(lambda client, queue: client.do(c.DeleteQueue(client.peer, queue, True)))

    def _drop(self, drop: Callable[[Client, str], Any]) -> None:
        home, queue = self._home(), self.random.choice(QUEUES)
        try:
            drop(self.producers[self.homes.index(home)], queue)
        except Refused:
            return  # it has consumers, or is none
        for body in [body for body, source in self.promised.items() if source == (home, queue)]:
            del self.promised[body]

    # ------------------------------------------------------------------ links

    def _sides(self) -> list[Side]:
        return [side for home in self.homes for side in home.sides.values()]

    def _carry(self) -> None:
        """Have some frames arrive, of one direction of one link."""
        waiting = [side for side in self._sides() if side.wire and side.peer not in self._halves]
        waiting = [side for side in waiting if side not in self._halves]
        if waiting:
            side = self.random.choice(waiting)
            for _ in range(self.random.randint(1, len(side.wire))):
                side.carry()

    def _turn(self) -> None:
        self._home().turn()

    def _break(self) -> None:
        """Break a link: one side knows it now, the other one later, before there is another link."""
        sides = [side for side in self._sides() if side not in self._halves]
        if sides:
            side = self.random.choice(sides)
            side.end()
            self._halves.append(side.peer)

    def _connect(self) -> None:
        """Have all know what has broken, and link them again."""
        for side in self._halves:
            side.end()
        self._halves = []
        self._connect_all()

    def _connect_all(self) -> None:
        for at, home in enumerate(self.homes):
            for other in self.homes[:at]:
                if other.name not in home.sides:
                    one, two = Side(home, other), Side(other, home)
                    one.peer, two.peer = two, one
                    home.sides[other.name], other.sides[home.name] = one, two
                    one.queues.refresh(home.broker.interest.all())
                    two.queues.refresh(other.broker.interest.all())

    # ------------------------------------------------------------------ laws

    def _check(self) -> None:
        for one in self.consumers:
            one.look()
        held: set[bytes] = set()
        for one in self.consumers:
            for _, message in one.client.peer.unsettled.values():
                if not (isinstance(message, RemoteMessage) and self._is_orphan(message)):
                    assert message.body not in held, f"two consumers hold {message.body!r}"
                    held.add(message.body)
        for home in self.homes:
            _check_waits(home)

    def _is_orphan(self, message: RemoteMessage) -> bool:
        """Return whether the link to the owner of a message has ended, on either side."""
        origins = [side.queues._origin for side in self._sides() if side not in self._halves]
        return message.origin not in origins

    def _finish(self) -> None:
        """Let everything arrive at consumers that take all, and check that nothing is left or lost."""
        for one in self.consumers:
            one.leave()
        self.consumers = []
        self._connect()
        for home in self.homes:
            for address in QUEUES:
                self.consumers.append(Consumer(self, home, address, {}))
            self.consumers.append(Consumer(self, home, TOPIC, SHARED))
        for _ in range(200):
            for home in self.homes:
                home.turn()
                home.pass_time(200)
                self._look(home)
            for side in self._sides():
                while side.wire:
                    side.carry()
            self._check()
            for one in self.consumers:
                if one.client.tags:
                    one.settle(one.client.tags)
        lost = self.promised.keys() - self.acked
        assert not lost, f"{len(lost)} of {len(self.promised)} are lost, as {sorted(lost)[:3]}"
        for home in self.homes:
            named = [one.queue for one in home.broker.destinations.named.values()]
            for queue in (*home.queues.values(), *named):
                assert (queue.depth, queue.unsettled, queue.remote) == (0, 0, None), (
                    home.name,
                    queue.address,
                )
        for side in self._sides():
            consumers, queues = side.consumers, side.queues
            assert (consumers.unsettled, consumers._under_way, consumers._bytes) == (0, 0, {})
            assert (queues.unsettled, queues._origin.waiting) == (0, 0)


def _check_waits(home: Home) -> None:
    """Check that consumers of other brokers wait for local ones until a time that is near."""
    for queue in home.queues.values():
        rotation = queue.available
        if rotation.first is None and rotation.lower:
            assert isinstance(rotation, LocalFirst)
            left_ms = home.broker.local_preference.alarms.at_ms(rotation) - home.now_ms
            assert 0 < left_ms <= WAIT_MS, f"others wait at {queue.address} for {left_ms} ms more"


def simulate(seed: int, steps: int = 300, *, trace: bool = False, alone: bool = False) -> Simulation:
    """Run a simulation; of eight seeds, four are of queues that prefer local consumers."""
    made = Simulation(seed, 2 + seed % 2, trace=trace, alone=alone, prefers_local=seed & 4 > 0)
    made.run(steps)
    return made


if __name__ == "__main__":
    simulate(int(sys.argv[1]), trace="-v" in sys.argv)
