"""The table of header names of other brokers: each row says what a client sees."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.destination import DURABLE_PREFIX, parse
from broker_app.core.model import Subscription
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.net.stomp import headers
from broker_app.net.stomp.header_names import (
    ACK,
    ALIAS,
    DONE,
    FRAMES,
    HINT,
    NACK,
    REFUSED,
    SEND,
    SUBSCRIBE,
    TABLE,
    HeaderName,
    aliases,
    rows,
)
from tests.support.small_broker import RawClient, SmallBroker, small_broker

#: of headers that are for topics only; all others are for queues
OF_TOPICS = ("no-local", "from", "durable-name", "share", "auto-delete")
#: a kind that the destination is not is refused
KINDS = ("destination-type", "subscription-type")
#: no subscription at all: see test_browsers.py
BROWSER = "browser"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        running.engine.submit(c.Reconfigure(Policies(DestinationPolicy(retention_ms=60_000))))
        client = await running.client()
        await client.ask(b"SEND\ndestination:/topic/t\nreceipt:s\n\nretained\0")
        yield running


async def subscribed(broker: SmallBroker, destination: str, line: str) -> object:
    """The facts of a subscription that was made with this header."""
    client = await broker.client()
    words = f"id:1\ndestination:{destination}\nack:client\n{line}\nreceipt:s\n"
    answer = await client.ask(f"SUBSCRIBE\n{words}\n".encode() + b"\0")
    try:
        assert b"receipt-id:s\n" in answer and not answer.startswith(b"ERROR"), answer
        (subscription,) = [s for peer in broker.registry.sessions for s in peer.peer.subscriptions.values()]
        return _facts(subscription)
    finally:
        await client.ask(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
        await client.close()
        for name in [key.rpartition("/")[2] for key in broker.engine.broker.destinations.named]:
            broker.engine.submit(c.DeleteSubscription(subscription.peer, name))


def _facts(subscription: Subscription) -> tuple[object, ...]:
    named, selector = subscription.queue.named, subscription.selector
    return (
        subscription.credit,
        subscription.exclusive,
        subscription.priority,
        subscription.no_local,
        selector and selector.text,
        named and (named.name, named.terms),
        subscription.delivered,
    )


#: header names in the sources of the peers, by the frame that may have them: `Stomp.java` and
#: `ScheduledMessage.java` of ActiveMQ with what its manual lists below `activemq.`, `Stomp.java` and
#: `Message.java` of Artemis, `rabbit_stomp_headers.hrl` of RabbitMQ, `StompFrame.scala` of Apollo
THEIRS = {
    ("ActiveMQ", SEND): "destination correlation-id reply-to expires priority type persistent receipt "
    "transaction content-length content-type transformation amq-msg-type JMSXGroupID JMSXGroupSeq "
    "AMQ_SCHEDULED_DELAY AMQ_SCHEDULED_PERIOD AMQ_SCHEDULED_REPEAT AMQ_SCHEDULED_CRON",
    ("ActiveMQ", SUBSCRIBE): "destination ack id selector browser receipt transformation "
    "activemq.dispatchAsync activemq.exclusive activemq.maximumPendingMessageLimit activemq.noLocal "
    "activemq.prefetchSize activemq.priority activemq.retroactive activemq.subscriptionName "
    "activemq.subcriptionName",
    ("ActiveMQ", ACK): "message-id subscription id transaction receipt",
    (
        "Artemis",
        SEND,
    ): "destination destination-type correlation-id reply-to expires priority type persistent "
    "receipt transaction content-length content-type AMQ_SCHEDULED_DELAY AMQ_SCHEDULED_TIME "
    "_AMQ_SCHED_DELIVERY _AMQ_DUPL_ID _AMQ_GROUP_ID _AMQ_GROUP_SEQUENCE _AMQ_LVQ_NAME JMSXGroupID "
    "JMSXGroupSeq",
    ("Artemis", SUBSCRIBE): "destination ack id selector durable-subscriber-name durable-subscription-name "
    "activemq.subscriptionName activemq.prefetchSize consumer-window-size subscription-type no-local "
    "activemq.noLocal receipt",
    ("Artemis", ACK): "message-id subscription id transaction receipt",
    ("RabbitMQ", SEND): "amqp-message-id app-id content-encoding content-length content-type correlation-id "
    "destination expiration persistent priority receipt reply-to timestamp transaction type user-id "
    "x-dead-letter-exchange x-dead-letter-routing-key x-expires x-max-length x-max-age x-max-length-bytes "
    "x-stream-max-segment-size-bytes x-max-priority x-message-ttl x-queue-type x-stream-filter-size-bytes",
    ("RabbitMQ", SUBSCRIBE): "ack auto-delete destination durable exclusive id persistent prefetch-count "
    "receipt x-stream-offset x-stream-filter x-queue-name x-priority x-dead-letter-exchange "
    "x-dead-letter-routing-key x-expires x-max-length x-max-age x-max-length-bytes "
    "x-stream-max-segment-size-bytes x-max-priority x-message-ttl x-queue-type x-stream-filter-size-bytes",
    ("RabbitMQ", ACK): "message-id subscription id transaction receipt",
    ("RabbitMQ", NACK): "message-id subscription id transaction receipt requeue",
    ("Apollo", SEND): "destination correlation-id reply-to expires ttl priority type persistent retain "
    "message_group transformation content-length content-type transaction receipt",
    ("Apollo", SUBSCRIBE): "destination ack id selector credit persistent browser browser-end exclusive "
    "include-seq from-seq receipt",
    ("Apollo", ACK): "message-id subscription id credit transaction receipt",
}
#: names of a durable subscription in UNSUBSCRIBE, or what makes one of its id
DELETING = (
    *("activemq.subscriptionName", "activemq.subcriptionName"),
    *("durable-subscription-name", "durable-subscriber-name"),
    *("durable", "persistent", "x-queue-name:q\ndurable"),
)
#: of these, what STOMP itself has, and what means nothing to their broker either
OF_STOMP = {
    SEND: "destination receipt transaction content-length content-type",
    SUBSCRIBE: "destination id ack receipt",
    ACK: "id message-id subscription transaction receipt",
    NACK: "id message-id subscription transaction receipt",
}
FOR_CONSUMERS = "correlation-id reply-to type content-encoding amqp-message-id app-id timestamp"


def destination_of(row: HeaderName) -> str:
    return "/topic/t" if row.own in OF_TOPICS or row.name in OF_TOPICS else "/queue/q"


def sent(line: str) -> tuple[object, ...]:
    """The facts of a message that was sent with this header."""
    given = dict(one.partition(":")[::2] for one in line.splitlines())
    envelope = headers.envelope(given, parse("/queue/q"))
    return envelope.persistent, envelope.priority, envelope.ttl_ms, envelope.expires_ms, envelope.options


def test_no_header_stands_twice_and_each_is_explained() -> None:
    names = [(row.frame, row.name) for row in TABLE]
    assert len(names) == len(set(names))
    assert {row.frame for row in TABLE} == set(FRAMES)
    assert all(row.about for row in TABLE if row.use in (HINT, REFUSED))
    assert all(row.own for row in TABLE if row.use == ALIAS)


@pytest.mark.parametrize(("broker_name", "frame"), THEIRS)
def test_each_name_in_the_sources_of_a_peer_is_explained(broker_name: str, frame: str) -> None:
    explained = {row.name for row in TABLE if row.frame == frame and broker_name in row.brokers}
    assert set(THEIRS[broker_name, frame].split()) - explained <= {
        *OF_STOMP[frame].split(),
        *(FOR_CONSUMERS.split() if frame == SEND else ()),
    }


@pytest.mark.parametrize("row", rows(SEND, ALIAS), ids=lambda row: row.name)
def test_an_alias_of_a_message_means_what_it_does_here(row: HeaderName) -> None:
    as_theirs, as_ours = sent(f"{row.name}:{row.example}"), sent(f"{row.own}:{row.as_own}")
    assert as_theirs == as_ours != sent("")


@pytest.mark.parametrize(
    "row", [row for row in rows(SEND, DONE) if row.name not in KINDS], ids=lambda row: row.name
)
def test_a_header_of_a_message_that_is_done_has_an_effect(row: HeaderName) -> None:
    assert sent(f"{row.name}:{row.example}") != sent("")


async def test_an_alias_of_a_subscription_means_what_it_does_here(broker: SmallBroker) -> None:
    for row in rows(SUBSCRIBE, ALIAS):
        to = destination_of(row)
        as_theirs = await subscribed(broker, to, f"{row.name}:{row.example}")
        as_ours = await subscribed(broker, to, f"{row.own}:{row.as_own}")
        assert as_theirs == as_ours != await subscribed(broker, to, "x:y"), row.name


async def test_a_header_of_a_subscription_that_is_done_has_an_effect(broker: SmallBroker) -> None:
    for row in rows(SUBSCRIBE, DONE):
        if row.name not in (*KINDS, BROWSER):
            to, without = destination_of(row), row.example.partition("\n")[2] or "x:y"
            with_it = await subscribed(broker, to, f"{row.name}:{row.example}")
            assert with_it != await subscribed(broker, to, without), row.name


async def test_a_hint_changes_nothing(broker: SmallBroker) -> None:
    plain = await subscribed(broker, "/queue/q", "x:y")
    for row in rows(SUBSCRIBE, HINT):
        assert await subscribed(broker, "/queue/q", f"{row.name}:{row.example}") == plain, row.name
    client = await broker.client()
    for row in rows(SEND, HINT):
        line = f"{row.name}:{row.example}"
        assert sent(line) == sent("")
        words = f"destination:/queue/hints\n{line}\nreceipt:s\n"
        assert b"RECEIPT" in await client.ask(f"SEND\n{words}\n".encode() + b"\0"), row.name
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/hints\n\n\0")
    carried = await client.frames(len(rows(SEND, HINT)))
    for row, message in zip(rows(SEND, HINT), carried, strict=True):
        assert f"\n{row.name}:{row.example}\n".encode() in message


@pytest.mark.parametrize(("kind", "other"), [("queue", "MULTICAST"), ("topic", "ANYCAST")])
async def test_a_kind_that_the_destination_is_not_is_refused(
    broker: SmallBroker, kind: str, other: str
) -> None:
    fitting = {"MULTICAST": "ANYCAST", "ANYCAST": "MULTICAST"}[other]
    for frame, name in zip((SEND, SUBSCRIBE), KINDS, strict=True):
        client = await broker.client()
        for value in (fitting, other):
            words = f"id:{value}\ndestination:/{kind}/{name}\n{name}:{value}\nreceipt:r\n"
            answer = await client.ask(f"{frame}\n{words}\n".encode() + b"\0")
            assert answer.startswith(b"RECEIPT" if value == fitting else b"ERROR")
        assert b"/unsupported" in answer


async def test_what_is_not_there_is_refused_and_what_asks_for_nothing_is_not(broker: SmallBroker) -> None:
    for row in TABLE:
        if row.use != REFUSED:
            continue
        client = await broker.client()
        for number, value in enumerate((*row.harmless, row.example)):
            words = f"id:{number}\ndestination:/queue/{row.frame}.{row.name}\n{row.name}:{value}\nreceipt:r\n"
            answer = await client.ask(f"{row.frame}\n{words}\n".encode() + b"\0")
            assert answer.startswith(b"RECEIPT" if value in row.harmless else b"ERROR"), (row.name, value)
        assert b"/unsupported" in answer and f"header {row.name}".encode() in answer


async def test_unsubscribe_with_a_name_of_another_broker_deletes_the_subscription(
    broker: SmallBroker,
) -> None:
    for header in DELETING:
        client, name = await broker.client(), header.rpartition("\n")[2]
        line = f"{header}:{'true' if name in ('durable', 'persistent') else 'one'}"
        words = f"id:1\ndestination:/topic/{name}\n{line}\nreceipt:r\n"
        assert b"RECEIPT" in await client.ask(f"SUBSCRIBE\n{words}\n".encode() + b"\0"), name
        assert len(broker.engine.broker.destinations.named) == 1, name
        await client.close()
        client = await broker.client()
        assert b"RECEIPT" in await client.ask(f"UNSUBSCRIBE\n{words}\n".encode() + b"\0"), name
        assert not broker.engine.broker.destinations.named, name


@pytest.mark.parametrize("durable", ["false", "true"])
async def test_consumers_with_one_queue_name_divide_the_messages_of_a_topic(
    broker: SmallBroker, durable: str
) -> None:
    consumers = [await broker.client() for _ in range(2)]
    for id, consumer in enumerate(consumers):
        words = f"id:{id}\ndestination:/topic/d\nx-queue-name:one\ndurable:{durable}\nreceipt:r\n"
        assert b"RECEIPT" in await consumer.ask(f"SUBSCRIBE\n{words}\n".encode() + b"\0")
    sender = await broker.client()
    for body in (b"a", b"b"):
        await sender.ask(b"SEND\ndestination:/topic/d\nreceipt:s\n\n%b\0" % body)
    assert {(await consumer.frames(1))[0][-1:] for consumer in consumers} == {b"a", b"b"}
    (queue,) = {
        one.queue.address for peer in broker.registry.sessions for one in peer.peer.subscriptions.values()
    }
    assert queue.startswith(DURABLE_PREFIX) == (durable == "true")


@pytest.mark.parametrize("line", ["activemq.retroactive:true", "x-stream-offset:first"])
async def test_without_a_history_a_start_in_the_past_brings_what_is_new(line: str) -> None:
    async with small_broker() as running:
        client = await running.client()
        await client.ask(b"SEND\ndestination:/topic/t\nreceipt:s\n\nold\0")
        words = f"id:1\ndestination:/topic/t\n{line}\nreceipt:r\n"
        assert b"RECEIPT" in await client.ask(f"SUBSCRIBE\n{words}\n".encode() + b"\0")
        assert (await client.ask(b"SEND\ndestination:/topic/t\n\nnew\0")).endswith(b"new")


async def held(broker: SmallBroker) -> tuple[RawClient, bytes]:
    client = await broker.client()
    await client.ask(b"SEND\ndestination:/queue/n\nreceipt:s\n\nx\0")
    message = await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/n\nack:client\n\n\0")
    return client, message.partition(b"\nack:")[2].partition(b"\n")[0]


async def test_headers_of_acknowledgements_are_known_too(broker: SmallBroker) -> None:
    assert [row.name for row in TABLE if row.frame in (ACK, NACK)] == ["credit", "requeue"]
    client, tag = await held(broker)
    assert await client.ask(b"ACK\nid:%b\ncredit:1\nreceipt:a\n\n\0" % tag) == b"RECEIPT\nreceipt-id:a\n\n"
    await client.close()
    client, tag = await held(broker)
    await client.ask(b"NACK\nid:%b\nrequeue:false\nreceipt:n\n\n\0" % tag)
    assert broker.engine.broker.destinations.queues["/queue/n.dead"].depth == 1


@pytest.mark.parametrize("name", ["group", *aliases(SEND, "group")])
def test_a_message_that_is_read_back_is_in_the_group_that_it_was_sent_to(name: str) -> None:
    envelope = headers.envelope({name: "g"}, parse("/queue/a"))
    assert envelope.options is not None
    assert header_block.group(envelope.block) == envelope.options.group == "g"
