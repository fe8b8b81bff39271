"""Clients that try a broker which takes none: it names the others, and the client ends at one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import stomp

import mom_client
from tests.cluster.conftest import Brokers
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import bodies, take
from tests.cluster.test_quiesce import order
from tests.support.awaiting import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient

QUEUE = "/queue/orders"


@pytest.fixture(scope="module")
def three(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers, which send their clients no lists."""
    with nodes_in(tmp_path_factory.mktemp("redirects")) as nodes:
        brokers = Brokers(nodes, 3)
        brokers.start()
        yield brokers


@pytest.fixture
async def quiesced(three: Brokers) -> AsyncIterator[NodeProcess]:
    """One of them, b2, takes no new clients."""
    _, b2, _ = three
    await becomes(lambda: linked(b2), 2)
    await order(b2, "quiesce")
    yield b2
    await order(b2, "unquiesce")


def stomp_of(node: NodeProcess) -> str:
    return f"stomp://127.0.0.1:{node.stomp_port}"


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """Notes the ERROR of a broker."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = ""

    def on_error(self, frame: stomp.utils.Frame) -> None:
        self.headers, self.body = frame.headers, frame.body


def refused(node: NodeProcess | BrokerProcess) -> Heard:
    """The ERROR that a client of another make receives from a broker."""
    heard = Heard()
    connection = stomp.Connection12([("127.0.0.1", node.stomp_port)], reconnect_attempts_max=1)
    connection.set_listener("heard", heard)
    with pytest.raises(stomp.exception.ConnectFailedException):
        connection.connect(node.user, node.password, wait=True)
    return heard


async def test_a_client_of_another_make_gets_the_addresses_in_the_error(
    three: Brokers, quiesced: NodeProcess
) -> None:
    b1, _, b3 = three
    heard = await asyncio.to_thread(refused, quiesced)
    offered = heard.headers["active"].split(",")
    assert {stomp_of(b1), stomp_of(b3), f"ws://127.0.0.1:{b3.port}/ws"} <= set(offered)
    assert stomp_of(quiesced) not in offered
    assert f"connect to {offered[0]}" in heard.body


@pytest.mark.parametrize("scheme", ["stomp", "ws"])
async def test_a_client_goes_where_the_refusal_of_its_login_sends_it(
    three: Brokers, quiesced: NodeProcess, scheme: str
) -> None:
    address = stomp_of(quiesced) if scheme == "stomp" else f"ws://127.0.0.1:{quiesced.port}/ws"
    url = f"imqAddressList={address}"
    async with mom_client.connect(url, login=quiesced.user, passcode=quiesced.password) as client:
        assert client.address.startswith(f"{scheme}:")
        assert client.address != address


async def test_a_client_whose_broker_dies_and_that_tries_the_wrong_one_ends_at_the_right_one(
    three: Brokers, quiesced: NodeProcess
) -> None:
    b1, b2, b3 = three
    url = f"imqAddressList={stomp_of(b1)},{stomp_of(b2)}&imqReconnectEnabled=true&imqReconnectInterval=50"
    url += "&imqAddressListIterations=100"
    failures: list[mom_client.ClientError] = []
    async with mom_client.connect(
        url, login=b1.user, passcode=b1.password, exception_listener=failures.append
    ) as client:
        assert client.address == stomp_of(b1)
        stream = client.events()
        b1.kill()
        events = []
        async with asyncio.timeout(patient(30)):
            async for event in stream:
                events.append(event)
                if event.kind == "reconnected":
                    break
        await client.send(QUEUE, b"arrives")
        async with client.subscribe(QUEUE) as messages:
            assert bodies(await take(messages, 1)) == [b"arrives"]
    kinds = [event.kind for event in events]
    assert kinds == ["closed", *["reconnect failed"] * (len(kinds) - 2), "reconnected"]
    assert (events[0].address, events[-1].address) == (stomp_of(b1), stomp_of(b3))
    assert {event.address for event in events[1:-1]} == {stomp_of(b1), stomp_of(b2)}
    assert failures == []
    b1.start()
