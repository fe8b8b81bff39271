"""Limits of destinations in a cluster: each broker has its own, or all share one (CL-T04); the oldest
messages make room (CL-T05), and few may send (CL-T06)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.cli.base.failures import OK
from tests.cli.conftest import CommandLine
from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.whole_brokers import client_of, settings, whole_brokers
from tests.support.awaiting import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.node_process import NodeProcess, Nodes
from tests.support.polling import poll

QUEUE = "/queue/orders"
DEAD = "mq.sys.dmq"


async def limit(node: NodeProcess) -> dict[str, object]:
    """The limit of messages of the queue, as a broker shows it."""
    async with node.rest() as http:
        found = (await http.get("/queues/orders")).json()["limits"]["max_messages"]
    return {name: found[name] for name in ("limit", "scope", "brokers", "effective")}


MOST = 100


async def taken(client: mom_client.Client, number: int = 2 * MOST) -> int:
    """How many of so many messages a broker takes."""
    sends = (client.send(QUEUE, b"%d" % one) for one in range(number))
    ends = await asyncio.gather(*sends, return_exceptions=True)
    assert all(end is None or isinstance(end, mom_client.Refused) for end in ends), ends
    return ends.count(None)


def limited(nodes: Nodes, scope: str) -> Brokers:
    """Brokers that run, with a queue of 100 messages."""
    brokers = Brokers(nodes, BROKERS)
    rows = {QUEUE: {"max_messages": MOST, "limit_behavior": "REJECT_NEWEST", "scope": scope}}
    for node in brokers:
        node.destinations = rows
    brokers.start()
    return brokers


async def figures(node: NodeProcess) -> dict[str, float]:
    async with node.rest() as http:
        found = (await http.get("/queues/orders")).json()
        return {"depth": found["depth"], "fill": round(found["fill"], 2)}


async def test_each_broker_has_a_limit_and_refuses_what_is_persistent_beyond_it(nodes: Nodes) -> None:
    brokers = limited(nodes, "broker")
    shown = {"limit": MOST, "scope": "broker", "brokers": BROKERS, "effective": BROKERS * MOST}
    for node in brokers:
        await becomes(partial(limit, node), shown)
        async with node.stomp() as client:
            assert await taken(client) == MOST
            await client.send(QUEUE, b"one too many", persistent=False)
        assert (await figures(node))["depth"] == MOST


async def test_all_brokers_together_have_a_limit(nodes: Nodes) -> None:
    b1, b2, *_, last = brokers = limited(nodes, "cluster")
    shown = {"limit": MOST, "scope": "cluster", "brokers": BROKERS, "effective": MOST}
    for node in brokers:
        await becomes(partial(limit, node), shown)
    async with b1.stomp() as first, b2.stomp() as second, last.stomp() as third:
        assert await taken(first, 60) == 60
        await becomes(partial(figures, b2), {"depth": 0, "fill": 0.6})
        assert await taken(second) == 40
        await becomes(partial(figures, last), {"depth": 0, "fill": 1.0})
        assert await taken(third) == 0


# ---------------------------------------------------------------------- by their names of GlassFish MQ


@pytest.fixture(scope="module")
def whole(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    with whole_brokers(tmp_path_factory.mktemp("brokers"), BROKERS) as brokers:
        yield brokers


@pytest.fixture
def mom(whole: list[BrokerProcess], tmp_path: Path) -> CommandLine:
    """`mom`, logged in to the first of the brokers."""
    command_line = CommandLine(tmp_path)
    command_line.about(whole[0])
    return command_line


def create(mom: CommandLine, brokers: list[BrokerProcess], queue: str, *limits: str) -> None:
    """Create a queue at the first of the brokers, and wait until all have it."""
    done = mom("queue", "create", queue, *limits)
    assert done.code == OK, done.err
    own = settings(brokers[0], queue)
    poll(lambda: all(settings(broker, queue) == own for broker in brokers))


def fill(broker: BrokerProcess, queue: str) -> None:
    """Send the messages 1 to 8."""
    for number in range(1, 9):
        sent = broker.request("POST", f"/api/v1/queues/{queue}/messages", b"%d" % number)
        assert sent.status == 201, sent.body


def browsed(mom: CommandLine, queue: str) -> list[Any]:
    found = mom("browse", queue, "-o", "json")
    assert (found.code, "not shown" in found.err) == (OK, False), found.err
    return list(found.json())


def bodies_of_each(messages: list[Any]) -> dict[str, str]:
    """The bodies of the messages of each broker, in their order."""
    found: dict[str, str] = {}
    for one in messages:
        found[one["broker"]] = found.get(one["broker"], "") + one["body"]
    return found


def at_each(bodies: str) -> dict[str, str]:
    return {f"b{at}": bodies for at in range(1, BROKERS + 1)}


def test_the_oldest_messages_make_room_at_each_broker_and_are_dead_letters_where_these_are_kept(
    whole: list[BrokerProcess], mom: CommandLine
) -> None:
    """CL-T05."""
    limits = ("maxNumMsgs=5", "limitBehavior=REMOVE_OLDEST", f"dead_letters={DEAD}")
    create(mom, whole, "kept", *limits, "useDMQ=true")
    create(mom, whole, "gone", *limits, "useDMQ=false")
    for broker in whole:
        fill(broker, "kept")
    assert bodies_of_each(browsed(mom, "kept")) == at_each("45678")
    dead = browsed(mom, DEAD)
    assert bodies_of_each(dead) == at_each("123")
    assert {(row["headers"]["dead-reason"], row["headers"]["origin"]) for row in dead} == {
        ("OLDEST", "/queue/kept")
    }
    assert all(row["headers"]["dead-broker"] == row["broker"] for row in dead)

    for broker in whole:
        fill(broker, "gone")
    assert bodies_of_each(browsed(mom, "gone")) == at_each("45678")
    assert bodies_of_each(browsed(mom, DEAD)) == at_each("123")
    for broker in whole:
        metrics = broker.request("GET", "/metrics").body.decode()
        assert 'mom_messages_dropped_total{reason="OLDEST"} 3' in metrics


async def test_a_third_producer_of_a_broker_is_refused_where_two_may_send_and_admitted_without_a_limit(
    whole: list[BrokerProcess], mom: CommandLine
) -> None:
    """CL-T06."""
    create(mom, whole, "few", "maxNumProducers=2")
    async with AsyncExitStack() as stack:
        refused: list[mom_client.Client] = []
        for broker in whole:
            first, second, third = [await stack.enter_async_context(client_of(broker)) for _ in range(3)]
            for producer in (first, second, first):
                await producer.send("/queue/few", b"1")
            with pytest.raises(
                mom_client.Refused, match="/queue/few has 2 producers, its maximum"
            ) as refusal:
                await third.send("/queue/few", b"1")
            assert refusal.value.code == "too-many"
            assert broker.request("GET", "/api/v1/queues/few").json()["depth"] == 3
            refused.append(third)
        assert mom("queue", "set", "few", "maxNumProducers=-1").code == OK
        own = settings(whole[0], "few")
        poll(lambda: all(settings(broker, "few") == own for broker in whole))
        for producer in refused:
            await producer.send("/queue/few", b"1")
