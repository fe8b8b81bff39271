"""The cost of decisions: µs of one core per message, without journal, sessions and sockets.

`python -m benchmarks.core [MESSAGES]` prints a table; every figure is the best of five rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

from broker_app.core import client_address
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope, Message
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.core.outcome import Outcome

BODY = b"x" * 100
ROUNDS = 5
NOW_US = 1_800_000_000_000_000


class Silent(InnerReceiver):
    """A receiver that takes everything and keeps the tags it has to settle."""

    def __init__(self) -> None:
        self.peer = Peer(self)
        self.peer.client = client_address.address_of("bench", "silent")
        self.tags: list[int] = []

    def flush(self, peer: Peer) -> None:
        self.tags += [tag for _, tag, _ in peer.deliveries]
        peer.deliveries.clear()
        peer.receipts.clear()

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        return [b""]

    def send(self, part: bytes) -> None: ...


def decide(broker: Broker, *run: c.Command) -> Outcome:
    outcome = broker.decide(run, NOW_US)
    for peer in outcome.touched:
        peer.touched = False
        peer.receiver.flush(peer)
    return outcome


def queue_turns(batch: int, messages: int) -> tuple[float, float, float]:
    """Seconds spent in publishing, handing out and settling `messages`, `batch` in a run."""
    broker, producer, consumer = Broker(), Silent(), Silent()
    envelope = Envelope("/queue/a", b"content-type:text/plain\n")
    publish = c.Publish(producer.peer, [(envelope, BODY, number) for number in range(batch)])
    decide(broker, c.Subscribe(consumer.peer, "1", "/queue/a", c.INDIVIDUAL, credit=batch))
    decide(broker, c.Pause(consumer.peer))
    spent = [0.0, 0.0, 0.0]
    for _ in range(messages // batch):
        start = perf_counter()
        decide(broker, publish)
        published = perf_counter()
        decide(broker, c.Resume(consumer.peer))
        delivered = perf_counter()
        tags, consumer.tags = consumer.tags, []
        decide(broker, *(c.Settle(consumer.peer, (tag,)) for tag in tags))
        settled = perf_counter()
        decide(broker, c.Pause(consumer.peer))
        spent[0] += published - start
        spent[1] += delivered - published
        spent[2] += settled - delivered
    return spent[0], spent[1], spent[2]


def flow(batch: int, messages: int) -> float:
    """Seconds for a stream: each run publishes, hands out, and settles what the last one handed out."""
    broker, producer, consumer = Broker(), Silent(), Silent()
    envelope = Envelope("/queue/a", b"content-type:text/plain\n")
    publish = c.Publish(producer.peer, [(envelope, BODY, number) for number in range(batch)])
    decide(broker, c.Subscribe(consumer.peer, "1", "/queue/a", c.INDIVIDUAL, credit=2 * batch))
    start = perf_counter()
    for _ in range(messages // batch):
        tags, consumer.tags = consumer.tags, []
        decide(broker, publish, c.Settle(consumer.peer, tags))
    return perf_counter() - start


def published(batch: int, messages: int) -> float:
    """Seconds for messages without a consumer, each answered."""
    broker, producer = Broker(), Silent()
    envelope = Envelope("/queue/a", b"content-type:text/plain\n")
    publish = c.Publish(producer.peer, [(envelope, BODY, b"1") for _ in range(batch)])
    start = perf_counter()
    for _ in range(messages // batch):
        decide(broker, publish)
    return perf_counter() - start


def forwarded(batch: int, messages: int) -> float:
    """Seconds for the same messages, when the bridge of another broker forwards them."""
    broker, bridge = Broker(), Silent()
    envelope = Envelope("/queue/a", b"content-type:text/plain\n")
    entries = [(envelope, BODY, b"1") for _ in range(batch)]
    runs = [range(first, first + batch) for first in range(1, messages, batch)]
    decide(broker, c.BeginFlow(bridge.peer, "f", "home~1", "q", "/queue/a"))
    start = perf_counter()
    for positions in runs:
        decide(broker, c.Forward(bridge.peer, "f", entries, positions))
    return perf_counter() - start


def fan_out(batch: int, messages: int, listeners: int = 100) -> float:
    broker, producer = Broker(), Silent()
    for _ in range(listeners):
        decide(broker, c.Subscribe(Silent().peer, "1", "/topic/t", render_key="look"))
    publish = c.Publish(producer.peer, [(Envelope("/topic/t"), BODY, None)] * batch)
    start = perf_counter()
    for _ in range(messages // batch):
        decide(broker, publish)
    return perf_counter() - start


def paged_publish(batch: int, messages: int) -> float:
    broker, producer = Broker(limits=Limits(window=1)), Silent()
    publish = c.Publish(producer.peer, [(Envelope("/queue/a"), BODY, None)] * batch)
    start = perf_counter()
    for _ in range(messages // batch):
        decide(broker, publish)
    return perf_counter() - start


def best(measure: Callable[[], float], messages: int) -> str:
    return f"{min(measure() for _ in range(ROUNDS)) / messages * 1e6:8.2f}"


def main(messages: int) -> None:
    batches = (1, 16, 256)
    print(f"{'µs a message, in batches of':32}" + "".join(f"{batch:8}" for batch in batches))

    def row(title: str, measure: Callable[[int], float]) -> None:
        def figure(batch: int) -> str:
            return best(lambda: measure(batch), messages // batch * batch)

        print(f"{title:32}" + "".join(figure(batch) for batch in batches), flush=True)

    row("queue: publish, settle the last", lambda batch: flow(batch, messages))
    for part, title in enumerate(("publish alone", "hand out alone", "settle alone, one by one")):
        row(f"  {title}", lambda batch, part=part: queue_turns(batch, messages)[part])  # type: ignore[misc]
    row("queue: publish, nobody there", lambda batch: published(batch, messages))
    row("  forwarded by a bridge", lambda batch: forwarded(batch, messages))
    row("queue: publish, paged", lambda batch: paged_publish(batch, messages))
    row("topic: publish 1 to 100", lambda batch: fan_out(batch, messages))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25_600)
