"""Messages of topics that many sessions get."""

from __future__ import annotations

from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.core.message import Envelope, Message
from tests.support.small_broker import small_broker

SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/topic/t\nreceipt:1\n\n\0"


async def test_a_large_body_is_not_copied_for_the_clients_of_a_topic() -> None:
    large = bytes(LARGE_BYTES + 1)
    messages = [Message(Envelope("/topic/t", b""), body, 1, 1_000, False) for body in (b"1", large, b"2")]
    async with small_broker() as broker:
        await (await broker.client()).ask(SUBSCRIBE)
        (group,) = broker.engine.broker.destinations.topics.match("t").fanout_groups
        (subscription,) = group.members
        before, body, behind = subscription.peer.receiver.render(subscription, messages)
        assert body is large
        assert before.count(b"MESSAGE\n") == 2 and b"\n\n1\0\n" in before
        assert behind.startswith(b"\0\nMESSAGE\n") and behind.endswith(b"\n\n2\0\n")


async def test_all_clients_of_a_topic_get_a_large_message() -> None:
    large = b"x" * (LARGE_BYTES + 1)
    async with small_broker() as broker:
        clients = [await broker.client() for _ in range(6)]
        for client in clients:
            await client.ask(SUBSCRIBE)
        for body in (b"1", large, b"2"):
            clients[0].send(b"SEND\ndestination:/topic/t\n\n%b\0" % body)
        for client in clients:
            found = [frame.partition(b"\n\n")[2] for frame in await client.frames(3)]
            assert found == [b"1", large, b"2"]
