"""The cost of selectors: µs of one core a message published, without journal, sessions and sockets.

`python -m benchmarks.selectors` prints two tables; those of queues are the best of three rounds.

- 1,000 consumers with different selectors on one queue in which 100,000 messages wait that none of them
  wants, and the same queue without them. A published message matches no consumer, or one that settles it.
- 100,000 subscriptions to topics with mixed wildcards, of which 10 match, compared with 10 that all match.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

from benchmarks.core import BODY, Silent, decide
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.durability import records
from broker_app.core.message import Envelope
from broker_app.core.outcome import Fetch, Outcome

ROUNDS = 3
WAITING, SELECTORS, PUBLISHED = 100_000, 1_000, 12_800
SUBSCRIPTIONS = 100_000
BATCHES = (16, 256)
A = "/queue/a"


class Journal:
    """Keeps the records that may be asked for again, and hands them in."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._records: dict[int, bytes] = {}
        self._asked: deque[Fetch] = deque()

    def keep(self, outcome: Outcome) -> None:
        batch, position = b"".join(outcome.parts), outcome.first_position
        for kind, _, _, _, start, end in records.walk(batch):
            if kind == records.PUBLISHED:
                self._records[position] = batch[start:end]
            position += 1

    def ask(self, outcome: Outcome) -> None:
        self._asked += outcome.fetches

    def answer(self) -> bool:
        """Hand in the first of what was asked for; whether there was any."""
        if not self._asked:
            return False
        fetch = self._asked.popleft()
        read = [self._records[position] for position in fetch.positions]
        self.ask(decide(self.broker, c.Loaded(*fetch, read)))
        return True


class Deep:
    """A queue of messages that no consumer matches, and perhaps consumers that match others."""

    def __init__(self, *, selectors: int, plain: int = 0) -> None:
        self.broker, self.producer = Broker(), Silent()
        self.journal = Journal(self.broker)
        self.consumers = [Silent() for _ in range(selectors + plain)]
        envelope = Envelope(A, b"kind:nobody\ncontent-type:text/plain\n")
        for _ in range(0 if plain else WAITING // 1_000):
            publish = c.Publish(self.producer.peer, [(envelope, BODY, None)] * 1_000)
            self.journal.keep(decide(self.broker, publish))
        start = perf_counter()
        for number, consumer in enumerate(self.consumers):
            subscribe = c.Subscribe(consumer.peer, "1", A, c.INDIVIDUAL, credit=1_000)
            if not plain:
                subscribe.selector = f"kind = 'k{number}' AND (size > 3 OR size IS NULL)"
            self.journal.ask(decide(self.broker, subscribe))
            if number % 10 == 0:
                self.journal.answer()
        while self.journal.answer():
            pass
        self.began_s = perf_counter() - start

    def publish(self, batch: int, envelopes: Callable[[], Iterator[Envelope]]) -> float:
        """Seconds for publishing, and for settling if a consumer took a message."""
        entries = [(envelope, BODY, None) for envelope in itertools.islice(envelopes(), PUBLISHED)]
        commands = [
            c.Publish(self.producer.peer, entries[at : at + batch]) for at in range(0, PUBLISHED, batch)
        ]
        start = perf_counter()
        for command in commands:
            outcome = decide(self.broker, command)
            settles = []
            for peer in outcome.touched:
                consumer = peer.receiver
                assert isinstance(consumer, Silent)
                settles.append(c.Settle(peer, consumer.tags))
                consumer.tags = []
            if settles:
                decide(self.broker, *settles)
        return perf_counter() - start


def shared() -> Iterator[Envelope]:
    return itertools.repeat(Envelope(A, b"kind:nobody\ncontent-type:text/plain\n"))


def unlike() -> Iterator[Envelope]:
    for serial in itertools.count():
        yield Envelope(A, b"kind:nobody\nserial:%d\ncontent-type:text/plain\n" % serial)


def wanted() -> Iterator[Envelope]:
    for serial in itertools.count():
        yield Envelope(A, b"kind:k%d\nserial:%d\nsize:5\n" % (serial % SELECTORS, serial))


def topic_publish(subscriptions: int, *, warm: bool) -> float:
    """Seconds for one publish that matches 10 of `subscriptions`."""
    broker, producer = Broker(), Silent()
    listeners = [Silent() for _ in range(max(1, subscriptions // 1_000))]
    for number in range(subscriptions):
        names = (f"eu.{number}.price", f"*.{number}.price", f"eu.{number}.>", f"*.{number}.>", "eu.*.price")
        name = names[number % 4] if number >= 10 else names[-1]
        decide(broker, c.Subscribe(listeners[number % len(listeners)].peer, str(number), "/topic/" + name))
    count = 2_000
    publishes = [
        c.Publish(producer.peer, [(Envelope(f"/topic/eu.x{0 if warm else number}.price"), BODY, None)])
        for number in range(count)
    ]
    decide(broker, publishes[0])
    start = perf_counter()
    for publish in publishes:
        decide(broker, publish)
    return (perf_counter() - start) / count


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def queue_row(
    title: str, envelopes: Callable[[], Iterator[Envelope]], selectors: int, plain: int = 0
) -> None:
    queue = Deep(selectors=selectors, plain=plain)
    figures = [best(partial(queue.publish, batch, envelopes)) / PUBLISHED * 1e6 for batch in BATCHES]
    began = f"   (they began in {queue.began_s:.1f} s)" if selectors else ""
    print(f"{title:58}" + "".join(f"{figure:8.2f}" for figure in figures) + began, flush=True)


def queue_table() -> None:
    print(f"{'queue: µs a message, in batches of':58}" + "".join(f"{batch:8}" for batch in BATCHES))
    queue_row("100,000 wait, one header block, no consumers", shared, 0)
    queue_row("  and 1,000 selectors that do not match", shared, SELECTORS)
    queue_row("100,000 wait, each its own header block, no consumers", unlike, 0)
    queue_row("  and 1,000 selectors that do not match", unlike, SELECTORS)
    queue_row("1,000 consumers take everything, and settle it", wanted, 0, SELECTORS)
    queue_row("100,000 wait, 1,000 selectors, one takes it and settles it", wanted, SELECTORS)


def topic_table() -> None:
    print(f"\n{'topic: µs a publish that matches 10 of':58}{10:>8}{SUBSCRIPTIONS:>9}")
    for title, warm in (("names that were seen before", True), ("names that come for the first time", False)):
        figures = [topic_publish(subscriptions, warm=warm) * 1e6 for subscriptions in (10, SUBSCRIPTIONS)]
        print(f"{title:58}{figures[0]:8.2f}{figures[1]:9.2f}", flush=True)


if __name__ == "__main__":
    queue_table()
    topic_table()
