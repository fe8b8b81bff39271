"""The headers of a message row by row, by the names of MOM and of other brokers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core.destination import parse
from broker_app.net.stomp.headers import envelope
from tests.support.small_broker import RawClient, SmallBroker, small_broker

Q, T = "/queue/a", "/topic/a"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as broker:
        yield broker


@pytest.fixture
async def client(broker: SmallBroker) -> AsyncIterator[RawClient]:
    client = await broker.client()
    yield client
    await client.close()


async def send(client: RawClient, body: str, destination: str = Q, **headers: str) -> None:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    answer = await client.ask(f"SEND\ndestination:{destination}\nreceipt:r\n{lines}\n{body}\0".encode())
    assert answer.startswith(b"RECEIPT\n"), answer


def subscribe(client: RawClient, destination: str = Q, **headers: str) -> None:
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    client.send(f"SUBSCRIBE\nid:1\ndestination:{destination}\n{lines}\n\0".encode())


async def message(client: RawClient) -> tuple[dict[str, str], str]:
    """Headers and body of the next frame, which must be a MESSAGE."""
    head, _, body = (await client.frame()).decode().partition("\n\n")
    command, *lines = head.split("\n")
    assert command == "MESSAGE", head
    return dict(line.split(":", 1) for line in lines), body


MEANINGS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "without headers, to a queue": (Q, {}, {"persistent": True, "priority": 4, "ttl_ms": 0, "expires_ms": 0}),
    "without headers, to a topic": (T, {}, {"persistent": True, "priority": 4}),
    "without headers, to a temporary queue": ("/temp-queue/a", {}, {"persistent": False}),
    "persistent": (Q, {"persistent": "false"}, {"persistent": False}),
    "priority": (Q, {"priority": "9"}, {"priority": 9}),
    "expires": (Q, {"expires": "1900000000000"}, {"expires_ms": 1_900_000_000_000}),
    "ttl-s": (Q, {"ttl-s": "1.5"}, {"ttl_ms": 1_500}),
    "expiration": (Q, {"expiration": "1500"}, {"ttl_ms": 1_500}),
    "x-message-ttl": (Q, {"x-message-ttl": "1500"}, {"ttl_ms": 1_500}),
    "ttl": (Q, {"ttl": "1500"}, {"ttl_ms": 1_500}),
    "ttl-s before its aliases": (Q, {"ttl-s": "1", "expiration": "7"}, {"ttl_ms": 1_000}),
    "delay-s": (Q, {"delay-s": "1.5"}, {"delay_ms": 1_500}),
    "AMQ_SCHEDULED_DELAY": (Q, {"AMQ_SCHEDULED_DELAY": "1500"}, {"delay_ms": 1_500}),
    "x-delay": (Q, {"x-delay": "1500"}, {"delay_ms": 1_500}),
    "deliver-at": (Q, {"deliver-at": "1900000000000"}, {"due_ms": 1_900_000_000_000}),
    "_AMQ_SCHED_DELIVERY": (Q, {"_AMQ_SCHED_DELIVERY": "1900000000000"}, {"due_ms": 1_900_000_000_000}),
    "AMQ_SCHEDULED_TIME": (Q, {"AMQ_SCHEDULED_TIME": "1900000000000"}, {"due_ms": 1_900_000_000_000}),
    "dedup-id": (Q, {"dedup-id": "o-1"}, {"dedup_id": "o-1"}),
    "_AMQ_DUPL_ID": (Q, {"_AMQ_DUPL_ID": "o-1"}, {"dedup_id": "o-1"}),
    "message-deduplication-id": (Q, {"message-deduplication-id": "o-1"}, {"dedup_id": "o-1"}),
    "group": (Q, {"group": "g"}, {"group": "g"}),
    "JMSXGroupID": (Q, {"JMSXGroupID": "g"}, {"group": "g"}),
    "message_group": (Q, {"message_group": "g"}, {"group": "g"}),
    "resent": (Q, {"resent": "true"}, {"resent": True}),
    "resent of another application": (Q, {"resent": "yesterday"}, {"options": None}),
}


@pytest.mark.parametrize("row", MEANINGS)
def test_each_name_of_a_header_means_the_same(row: str) -> None:
    address, headers, meaning = MEANINGS[row]
    made = envelope(headers, parse(address))
    for name, value in meaning.items():
        of: Any = made if hasattr(made, name) else made.options
        assert getattr(of, name) == value


async def test_headers_keep_their_order_and_the_first_of_repeated_ones_counts(
    client: RawClient,
) -> None:
    client.send(
        b"SEND\ndestination:/queue/a\nb:2\na:1\nb:3\ncorrelation-id:c\\c1\nreply-to:/queue/answers\ntype:order\n"
        b"content-type:text/plain\ntraceparent:00-4bf9\ngroup:g\npriority:7\nattempt:9\norigin:/queue/x\n\nbody\0"
    )
    subscribe(client, ack="client-individual")
    headers, body = await message(client)
    carried = [
        "b",
        "a",
        "correlation-id",
        "reply-to",
        "type",
        "content-type",
        "traceparent",
        "group",
        "priority",
    ]
    assert [name for name in headers if name in carried] == carried
    assert (headers["b"], headers["correlation-id"], body) == ("2", "c\\c1", "body")
    assert (headers["attempt"], headers["redelivered"]) == ("1", "false")
    assert headers["destination"] == Q
    assert "origin" not in headers
    assert abs(int(headers["timestamp"]) - time.time() * 1000) < 60_000
    assert headers["message-id"][14] == "7", "a UUID of version 7"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expires", "4611686018427387904"),
        ("expires", "7258118400001"),
        ("ttl-s", "3153600001"),
        ("ttl-s", "1e12"),
        ("ttl-s", "nan"),
        ("expiration", "9007199254740992"),
        ("x-message-ttl", "3153600000001"),
    ],
)
def test_a_time_that_no_calendar_can_show_is_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"header {name} is .* from 0 to") as refused:
        envelope({name: value}, parse(Q))
    assert refused.value.code == "invalid"


async def test_what_is_sent_again_is_delivered_as_a_repeat_to_queues_and_topics(client: RawClient) -> None:
    for address in (Q, T):
        subscribe(client, address)
        await send(client, "1", address, **{"dedup-id": "a", "resent": "true"})
        headers, _ = await message(client)
        assert (headers["redelivered"], headers["attempt"], headers["resent"]) == ("true", "2", "true")
        client.send(b"UNSUBSCRIBE\nid:1\n\n\0")


async def test_higher_priorities_come_first(client: RawClient) -> None:
    for body, headers in {"low": {"priority": "0"}, "usual": {}, "high": {"priority": "9"}}.items():
        await send(client, body, **headers)
    subscribe(client)
    assert [(await message(client))[1] for _ in range(3)] == ["high", "usual", "low"]


@pytest.mark.parametrize("header", ["expires:1", "ttl-s:0.001", "expiration:1", "x-message-ttl:1"])
async def test_expired_messages_are_not_delivered(client: RawClient, header: str) -> None:
    name, value = header.split(":")
    sent = time.time()
    await send(client, "late", **{name: value})
    while time.time() < sent + 0.003:
        await send(client, "other", "/queue/other")
    await send(client, "fresh")
    subscribe(client)
    assert (await message(client))[1] == "fresh"


@pytest.mark.parametrize(
    "name",
    ["delay-s", "AMQ_SCHEDULED_DELAY", "x-delay", "deliver-at", "_AMQ_SCHED_DELIVERY", "AMQ_SCHEDULED_TIME"],
)
async def test_a_delayed_message_comes_behind_what_was_sent_later_and_not_before_its_time(
    client: RawClient, name: str
) -> None:
    due = time.time() + 1
    value = {
        "delay-s": "1",
        "deliver-at": str(int(due * 1000) + 1),
        "_AMQ_SCHED_DELIVERY": str(int(due * 1000) + 1),
        "AMQ_SCHEDULED_TIME": str(int(due * 1000) + 1),
    }
    subscribe(client)
    # In one write, so that the broker reads the second message before the first one is due.
    client.send(
        f"SEND\ndestination:{Q}\n{name}:{value.get(name, '1000')}\n\nlater\0"
        f"SEND\ndestination:{Q}\n\nnow\0".encode()
    )
    assert (await message(client))[1] == "now"
    headers, body = await message(client)
    assert body == "later"
    assert time.time() >= due - 0.002, "the broker counts in whole milliseconds"
    assert name not in headers, "who passes it on would delay it once more"


@pytest.mark.parametrize("name", ["dedup-id", "_AMQ_DUPL_ID", "message-deduplication-id"])
async def test_a_repeat_is_confirmed_and_not_delivered(client: RawClient, name: str) -> None:
    await send(client, "first", **{name: "o-1"})
    await send(client, "again", **{name: "o-1"})
    await send(client, "elsewhere", "/queue/b", **{name: "o-1"})
    await send(client, "other", **{name: "o-2"})
    subscribe(client)
    assert [(await message(client))[1] for _ in range(2)] == ["first", "other"]


@pytest.mark.parametrize("name", ["group", "JMSXGroupID"])
async def test_a_group_goes_to_one_consumer(broker: SmallBroker, client: RawClient, name: str) -> None:
    other, sender = await broker.client(), await broker.client()
    for consumer in (client, other):
        subscribe(consumer, ack="client-individual", credit="10")
    for number in range(4):
        await send(sender, str(number), **{name: "g"})
    await send(sender, "free")
    assert [(await message(client))[1] for _ in range(4)] == ["0", "1", "2", "3"]
    assert (await message(other))[1] == "free"
    await sender.close()
    await other.close()
