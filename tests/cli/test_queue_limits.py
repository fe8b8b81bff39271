"""Limits of queues by their names of GlassFish MQ, of a real broker: what makes room, and who may send."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

import mom_client
from broker_app.cli.base.failures import OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess

DEAD = "mq.sys.dmq"


def create(mom: CommandLine, queue: str, *limits: str) -> None:
    done = mom("queue", "create", queue, *limits)
    assert done.code == OK, done.err


def fill(broker: BrokerProcess, queue: str) -> None:
    """Send the messages 1 to 8."""
    for number in range(1, 9):
        sent = broker.request("POST", f"/api/v1/queues/{queue}/messages", b"%d" % number)
        assert sent.status == 201, sent.body


def browsed(mom: CommandLine, queue: str) -> list[Any]:
    found = mom("browse", queue, "-o", "json")
    assert found.code == OK, found.err
    return list(found.json())


def test_the_oldest_messages_make_room_and_are_dead_letters_where_these_are_kept(
    broker: BrokerProcess, mom: CommandLine
) -> None:
    """CL-T05."""
    limits = ("maxNumMsgs=5", "limitBehavior=REMOVE_OLDEST", f"dead_letters={DEAD}")
    create(mom, "kept", *limits, "useDMQ=true")
    fill(broker, "kept")
    assert [row["body"] for row in browsed(mom, "kept")] == ["4", "5", "6", "7", "8"]
    dead = browsed(mom, DEAD)
    assert [row["body"] for row in dead] == ["1", "2", "3"]
    assert {(row["headers"]["dead-reason"], row["headers"]["origin"]) for row in dead} == {
        ("OLDEST", "/queue/kept")
    }

    create(mom, "gone", *limits, "useDMQ=false")
    fill(broker, "gone")
    assert [row["body"] for row in browsed(mom, "gone")] == ["4", "5", "6", "7", "8"]
    assert len(browsed(mom, DEAD)) == 3
    metrics = broker.request("GET", "/metrics").body.decode()
    assert 'mom_messages_dropped_total{reason="OLDEST"} 3' in metrics


async def test_a_third_producer_is_refused_where_two_may_send_and_admitted_without_a_limit(
    broker: BrokerProcess, mom: CommandLine
) -> None:
    """CL-T06."""
    create(mom, "few", "maxNumProducers=2")
    async with AsyncExitStack() as stack:
        address = f"stomp://{broker.host}:{broker.stomp_port}"
        first, second, third = [
            await stack.enter_async_context(
                mom_client.connect(address, login=broker.user, passcode=broker.password)
            )
            for _ in range(3)
        ]
        for producer in (first, second, first):
            await producer.send("/queue/few", b"1")
        with pytest.raises(mom_client.Refused, match="/queue/few has 2 producers, its maximum") as refused:
            await third.send("/queue/few", b"1")
        assert refused.value.code == "too-many"
        assert broker.request("GET", "/api/v1/queues/few").json()["depth"] == 3
        assert mom("queue", "set", "few", "maxNumProducers=-1").code == OK
        await third.send("/queue/few", b"1")
