"""A client connects again before the broker has noticed that its former connection is broken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.net.auth.login import Identity
from broker_app.net.policy.connection_places import client_key
from tests.net.test_json_session import ANNA, JsonClient
from tests.support.small_broker import PASSWORD, RawClient, SmallBroker, small_broker

DURABLE = b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable-name:mine\nack:client-individual\nreceipt:s\n\n\0"
CONSUME = b"SUBSCRIBE\nid:1\ndestination:/queue/one\nack:client-individual\nreceipt:s\n\n\0"
SEND = b"SEND\ndestination:/queue/one\nreceipt:s\n\nx\0"
IDS = ("client-id", "client-instance")


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        yield running


async def limit(broker: SmallBroker, policy: DestinationPolicy) -> None:
    broker.engine.submit(c.Reconfigure(Policies(exact={"/queue/one": policy})))
    await broker.engine.wait_idle()


async def is_taken_over(former: RawClient) -> bool:
    return b"taken-over" in await former.ended()


@pytest.mark.parametrize("header", IDS)
async def test_it_takes_its_durable_subscription_over(broker: SmallBroker, header: str) -> None:
    former = await broker.client(**{header: "app-7"})
    await former.ask(DURABLE)
    await former.ask(b"SEND\ndestination:/topic/a\nreceipt:s\n\nkept\0")
    again = await broker.client(**{header: "app-7"})
    again.send(DURABLE)
    assert {frame[:7] for frame in await again.frames(2)} == {b"RECEIPT", b"MESSAGE"}
    assert await is_taken_over(former)


@pytest.mark.parametrize("header", IDS)
async def test_it_takes_its_place_among_the_consumers_over(broker: SmallBroker, header: str) -> None:
    await limit(broker, DestinationPolicy(max_consumers=1))
    former = await broker.client(**{header: "app-7"})
    await former.ask(CONSUME)
    again = await broker.client(**{header: "app-7"})
    assert (await again.ask(CONSUME)).startswith(b"RECEIPT")
    assert await is_taken_over(former)


async def test_it_takes_the_place_of_the_exclusive_consumer_over(broker: SmallBroker) -> None:
    exclusive = CONSUME.replace(b"\nack:", b"\nexclusive:true\nack:")
    former, other = await broker.client(**{"client-id": "app-7"}), await broker.client()
    await former.ask(exclusive)
    await other.ask(CONSUME)
    again = await broker.client(**{"client-id": "app-7"})
    assert (await again.ask(exclusive)).startswith(b"RECEIPT")
    assert await is_taken_over(former)
    sender = await broker.client()
    await sender.ask(SEND)
    assert (await again.frame()).startswith(b"MESSAGE")


async def test_it_takes_its_place_among_the_consumers_of_a_topic_over(broker: SmallBroker) -> None:
    broker.engine.submit(c.Reconfigure(Policies(exact={"/topic/one": DestinationPolicy(max_consumers=2)})))
    await broker.engine.wait_idle()
    listen = CONSUME.replace(b"/queue/", b"/topic/").replace(b"client-individual", b"auto")
    other = await broker.client()
    await other.ask(listen)
    former = await broker.client(**{"client-id": "app-7"})
    await former.ask(listen)
    stranger = await broker.client(**{"client-id": "app-8"})
    assert b"too-many" in await stranger.ask(listen)
    again = await broker.client(**{"client-id": "app-7"})
    assert (await again.ask(listen)).startswith(b"RECEIPT")
    assert await is_taken_over(former)
    assert (await other.ask(SEND)).startswith(b"RECEIPT")


@pytest.mark.parametrize("kind", [b"queue", b"topic"])
@pytest.mark.parametrize("in_transaction", [False, True])
async def test_it_takes_its_place_among_the_producers_over(
    broker: SmallBroker, kind: bytes, in_transaction: bool
) -> None:
    one = DestinationPolicy(max_producers=1)
    broker.engine.submit(c.Reconfigure(Policies(exact={f"/{kind.decode()}/one": one})))
    await broker.engine.wait_idle()
    send = SEND.replace(b"/queue/", b"/%b/" % kind)
    former = await broker.client(**{"client-id": "app-7"})
    await former.ask(send)
    stranger = await broker.client(**{"client-id": "app-8"})
    assert b"too-many" in await stranger.ask(send)
    again = await broker.client(**{"client-id": "app-7"})
    if in_transaction:
        again.send(b"BEGIN\ntransaction:t\n\n\0" + send.replace(b"receipt:s", b"transaction:t"))
        send = b"COMMIT\ntransaction:t\nreceipt:c\n\n\0"
    assert (await again.ask(send)).startswith(b"RECEIPT")
    assert await is_taken_over(former)


@pytest.mark.parametrize("other", [{}, {"client-id": "app-8"}, {"client-instance": "app-7"}])
async def test_another_client_takes_nothing_over(broker: SmallBroker, other: dict[str, str]) -> None:
    first = await broker.client(**{"client-id": "app-7"})
    await first.ask(DURABLE)
    second = await broker.client(**other)
    assert b"conflict" in await second.ask(DURABLE)
    assert (await first.ask(SEND)).startswith(b"RECEIPT")


def test_a_client_of_another_user_or_token_is_another_client() -> None:
    anna = Identity("anna")
    others = Identity("john"), Identity("anna", token="laptop"), Identity("anna", token="desk")
    for ids in (("app-7", ""), ("", "app-7")):
        assert client_key(anna, *ids) == client_key(Identity("anna"), *ids) != ()
        assert len({client_key(one, *ids) for one in (anna, *others)}) == 4


async def test_clients_of_one_id_that_are_not_in_each_others_way_stay_connected(broker: SmallBroker) -> None:
    """As RabbitMQ's clients do, which know no client-id."""
    first, second = [await broker.client(**{"client-id": "app"}) for _ in range(2)]
    for client in (first, second):
        assert (await client.ask(CONSUME)).startswith(b"RECEIPT")
    assert (await first.ask(SEND)).startswith(b"RECEIPT")


async def test_it_takes_its_place_among_the_connections_of_a_user_over() -> None:
    async with small_broker(max_connections=2) as broker:  # one for each user
        former = await broker.client(**{"client-id": "app-7"})
        await broker.client(**{"client-id": "app-7"})
        assert await is_taken_over(former)
        stranger = await broker.stranger()
        login = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:secret\n\n\0"
        assert b"too-many" in await stranger.ask(login)


class TestJson:
    """The same over JSON: a client names itself with its login, or behind a login of the handshake."""

    @staticmethod
    async def client(
        broker: SmallBroker, instance: str = "app-7", *, by_handshake: bool = False
    ) -> JsonClient:
        client = JsonClient(broker, identity=ANNA if by_handshake else None)
        assert (await client.conversation.event())["subprotocol"] == "mom.v1.json"
        credentials = {} if by_handshake else {"login": "anna", "passcode": PASSWORD}
        assert (await client.ask("login", client_instance=instance, **credentials))["op"] == "done"
        return client

    @pytest.mark.parametrize("by_handshake", [True, False])
    async def test_it_takes_its_durable_subscription_over(
        self, broker: SmallBroker, by_handshake: bool
    ) -> None:
        former = await self.client(broker, by_handshake=by_handshake)
        durable = {"id": "1", "topic": "a", "durable": "mine"}
        assert (await former.ask("subscribe", **durable))["op"] == "done"
        stranger = await self.client(broker, "app-8", by_handshake=by_handshake)
        assert (await stranger.ask("subscribe", **durable))["type"] == "/docs/problems/conflict"
        again = await self.client(broker, by_handshake=by_handshake)
        assert (await again.ask("subscribe", **durable))["op"] == "done"
        reason, code = await former.closed()
        assert (reason["type"], code) == ("/docs/problems/taken-over", 1008)
        for client in (stranger, again):
            await client.conversation.leave()

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    async def test_it_takes_its_place_among_the_consumers_over(self, broker: SmallBroker, kind: str) -> None:
        one = DestinationPolicy(max_consumers=1)
        broker.engine.submit(c.Reconfigure(Policies(exact={f"/{kind}/one": one})))
        await broker.engine.wait_idle()
        former = await self.client(broker)
        assert (await former.ask("subscribe", id="1", **{kind: "one"}))["op"] == "done"
        again = await self.client(broker)
        assert (await again.ask("subscribe", id="1", **{kind: "one"}))["op"] == "done"
        assert (await former.closed())[0]["type"] == "/docs/problems/taken-over"
        await again.conversation.leave()

    async def test_it_takes_its_place_among_the_connections_of_a_user_over(self) -> None:
        async with small_broker(max_connections=2) as broker:  # one for each user
            former = await self.client(broker)
            again = await self.client(broker)
            assert (await former.closed())[0]["type"] == "/docs/problems/taken-over"
            await again.conversation.leave()
            assert len(broker.json.places) == 0
