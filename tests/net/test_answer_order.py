"""Order of answers: receipts of stored messages, then the refusal that ends the connection."""

from __future__ import annotations

import pytest

from broker_app.core import commands as c
from broker_app.core.policy import REJECT_NEWEST, DestinationPolicy, Policies
from tests.support.small_broker import RawClient, SmallBroker, small_broker


def sending(number: int, more: str = "") -> bytes:
    return f"SEND\ndestination:/queue/a\nreceipt:{number}\n{more}\n{number}".encode() + b"\0"


def depth(broker: SmallBroker, address: str = "/queue/a") -> int:
    queue = broker.engine.broker.destinations.queues.get(address)
    return queue.depth if queue is not None else 0


async def answers(client: RawClient) -> list[bytes]:
    """All frames until the end, heads only: receipts by their names."""
    frames = [frame.lstrip(b"\n") for frame in (await client.ended()).split(b"\0")]
    return [
        frame.removeprefix(b"RECEIPT\nreceipt-id:").strip() if frame.startswith(b"RECEIPT") else frame[:5]
        for frame in frames
        if frame
    ]


@pytest.mark.parametrize(
    "refused",
    [
        b"BAD\n\n\0",
        b"ACK\nid:nonsense\n\n\0",
        b"ACK\nid:99\n\n\0",
        b"SEND\ndestination:/foo/x\n\n\0",
        b"SEND\ndestination:/queue/a\ncontent-length:1\n\nabc\0",
        b"COMMIT\ntransaction:u\n\n\0",
        b"BEGIN\n\n\0",
        b"SEND\ndestination:/queue/a\ntransaction:u\n\n\0",
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:((\n\n\0",
    ],
)
async def test_an_error_is_sent_after_the_receipts_of_stored_messages(refused: bytes) -> None:
    async with small_broker() as broker:
        client = await broker.client()
        client.send(b"".join(map(sending, range(20))) + refused + sending(20) + sending(21))
        assert await answers(client) == [*(b"%d" % number for number in range(20)), b"ERROR"]
        assert depth(broker) == 20, "nothing behind the refused frame is carried out"
        await client.close()


async def test_a_message_refused_in_a_run_stops_the_rest_of_it() -> None:
    async with small_broker() as broker:
        policy = DestinationPolicy(max_messages=2, limit_behavior=REJECT_NEWEST)
        broker.engine.submit(c.Reconfigure(Policies(exact={"/queue/a": policy})))
        client = await broker.client()
        others = b"".join(sending(number).replace(b"/queue/a", b"/queue/b") for number in (3, 4))
        client.send(sending(0) + sending(1) + sending(2) + others)
        assert await answers(client) == [b"0", b"1", b"ERROR"]
        assert (depth(broker), depth(broker, "/queue/b")) == (2, 0)
        assert broker.engine.broker.turn.counters["published"] == 2
        await client.close()


async def test_blocked_messages_after_a_refused_frame_are_dropped() -> None:
    async with small_broker() as broker:
        broker.engine.submit(c.Reconfigure(Policies(exact={"/queue/a": DestinationPolicy(max_messages=1)})))
        client = await broker.client()
        client.send(sending(0) + sending(1) + b"ACK\nid:99\n\n\0")
        assert await answers(client) == [b"0", b"ERROR"]
        consumer = await broker.client()
        await consumer.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
        consumer.send(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
        assert (await consumer.frame()).startswith(b"RECEIPT")
        assert (depth(broker), broker.engine.broker.admission.blocked.bytes) == (0, 0)
        await client.close()
        await consumer.close()


async def test_others_are_served_while_one_is_stopped() -> None:
    async with small_broker() as broker:
        wrong, right = await broker.client(), await broker.client()
        wrong.send(b"COMMIT\ntransaction:u\n\n\0" + sending(1))
        assert await right.ask(sending(2)) == b"RECEIPT\nreceipt-id:2\n\n"
        assert await answers(wrong) == [b"ERROR"]
        assert depth(broker) == 1
        assert await right.ask(sending(3)) == b"RECEIPT\nreceipt-id:3\n\n"
        await wrong.close()
        await right.close()


async def test_a_client_with_soft_errors_stays_connected_after_a_refusal() -> None:
    async with small_broker() as broker:
        client = await broker.client(**{"mom-soft-errors": "true"})
        client.send(sending(0) + b"COMMIT\ntransaction:u\nreceipt:c\n\n\0" + sending(1))
        frames = await client.frames(3)
        assert [frame for frame in frames if frame.startswith(b"RECEIPT")] == [
            b"RECEIPT\nreceipt-id:0\n\n",
            b"RECEIPT\nreceipt-id:1\n\n",
        ]
        assert any(b"receipt-id:c\n" in frame and b"not-found" in frame for frame in frames)
        await client.close()


# ---------------------------------------------------------------------- transactions


async def test_receipts_of_a_transaction_come_at_its_commit() -> None:
    async with small_broker() as broker:
        client = await broker.client()
        await client.ask(b"BEGIN\ntransaction:t\nreceipt:b\n\n\0")
        client.send(sending(1, "transaction:t\n") + sending(2, "transaction:t\n"))
        assert await client.ask(sending(3)) == b"RECEIPT\nreceipt-id:3\n\n", "that of another SEND is first"
        client.send(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        assert await client.frames(3) == [b"RECEIPT\nreceipt-id:%b\n\n" % name for name in (b"1", b"2", b"c")]
        assert depth(broker) == 3
        await client.close()


async def test_acknowledgements_in_a_transaction_are_confirmed_at_its_commit() -> None:
    async with small_broker() as broker:
        client = await broker.client()
        await client.ask(sending(1))
        message = await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
        tag = message.partition(b"ack:")[2].partition(b"\n")[0]
        client.send(b"BEGIN\ntransaction:t\n\n\0ACK\nid:%b\ntransaction:t\nreceipt:a\n\n\0" % tag)
        client.send(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        assert await client.frames(2) == [b"RECEIPT\nreceipt-id:a\n\n", b"RECEIPT\nreceipt-id:c\n\n"]
        await client.close()


async def test_frames_of_an_aborted_transaction_are_never_confirmed() -> None:
    async with small_broker() as broker:
        client = await broker.client()
        client.send(b"BEGIN\ntransaction:t\n\n\0" + sending(1, "transaction:t\n"))
        assert await client.ask(b"ABORT\ntransaction:t\nreceipt:a\n\n\0") == b"RECEIPT\nreceipt-id:a\n\n"
        assert await client.ask(sending(2)) == b"RECEIPT\nreceipt-id:2\n\n"
        assert depth(broker) == 1
        await client.close()


async def test_frames_are_confirmed_as_they_are_taken_into_a_transaction_where_it_is_set() -> None:
    """Net::Stomp of Perl waits for the receipt of each SEND before it commits, as ActiveMQ allows."""
    async with small_broker(transaction_receipts="frame") as broker:
        client = await broker.client()
        await client.ask(b"SEND\ndestination:/queue/b\nreceipt:s\n\nx\0")
        message = await client.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/b\nack:client\n\n\0")
        tag = message.partition(b"ack:")[2].partition(b"\n")[0]
        client.send(b"BEGIN\ntransaction:t\n\n\0")
        assert await client.ask(sending(1, "transaction:t\n")) == b"RECEIPT\nreceipt-id:1\n\n"
        acknowledged = await client.ask(b"ACK\nid:%b\ntransaction:t\nreceipt:a\n\n\0" % tag)
        assert acknowledged == b"RECEIPT\nreceipt-id:a\n\n"
        source = broker.engine.broker.destinations.queues["/queue/b"]
        assert (depth(broker), source.unsettled) == (0, 1), "both wait for COMMIT"
        client.send(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        assert await client.frame() == b"RECEIPT\nreceipt-id:c\n\n", "and are not confirmed twice"
        assert (depth(broker), source.unsettled) == (1, 0)
        await client.close()


@pytest.mark.parametrize(
    ("connectors", "general", "is_each_confirmed"),
    [
        ("stomp?transactionReceipts=frame", "commit", True),
        ("stomp?transactionReceipts=commit", "frame", False),
        ("ws?transactionReceipts=frame stomp?updateClusterClients=true", "commit", False),
    ],
)
async def test_each_listener_may_confirm_frames_of_transactions_in_its_own_way(
    connectors: str, general: str, is_each_confirmed: bool
) -> None:
    async with small_broker(transport_connector=connectors, transaction_receipts=general) as broker:
        client = await broker.client()
        client.send(b"BEGIN\ntransaction:t\nreceipt:b\n\n\0" + sending(1, "transaction:t\n"))
        client.send(b"SEND\ndestination:/queue/b\nreceipt:2\n\n\0")
        frames = [b"RECEIPT\nreceipt-id:%b\n\n" % one for one in (b"b", b"1", b"2")]
        expected = frames if is_each_confirmed else [frames[0], frames[2]]
        assert await client.frames(len(expected)) == expected
        await client.close()


async def test_a_frame_that_a_transaction_cannot_take_is_refused_where_each_is_confirmed() -> None:
    async with small_broker(transaction_receipts="frame") as broker:
        client = await broker.client()
        answer = await client.ask(sending(1, "transaction:unknown\n"))
        assert answer.startswith(b"ERROR\nreceipt-id:1\n")


# ---------------------------------------------------------------------- how frames end


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_every_frame_of_the_broker_ends_with_nul_and_a_line_feed(version: str) -> None:
    """PHP's extension and stomper of Python know no other end: they lose messages, or wait for ever."""
    async with small_broker() as broker:
        client = await broker.client(version=version)  # reads CONNECTED to NUL LF
        client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0" + sending(1) + sending(2))
        frames = await client.frames(4)  # each read to NUL LF
        assert sorted(frame[:7] for frame in frames) == [b"MESSAGE", b"MESSAGE", b"RECEIPT", b"RECEIPT"]
        assert all(b"\0" not in frame for frame in frames)
        client.send(b"ACK\nid:99\nmessage-id:99\n\n\0")
        said = await client.ended()
        assert said.startswith(b"ERROR") and said.endswith(b"}\0\n") and said.count(b"\0") == 1
        await client.close()


async def test_a_soft_refusal_ends_with_nul_and_a_line_feed_too() -> None:
    async with small_broker() as broker:
        client = await broker.client(**{"mom-soft-errors": "true"})
        assert (await client.ask(b"ACK\nid:99\n\n\0")).startswith(b"MESSAGE\nsubscription:$mom.refused\n")
        await client.close()
