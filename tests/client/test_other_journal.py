"""The client goes on to a broker whose journal is another one: nothing of its history is skipped."""

import contextlib
from collections.abc import AsyncIterator

import pytest

import mom_client
from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from tests.net.test_json_session import publish
from tests.support.patience import patient
from tests.support.proxy import proxy
from tests.support.small_broker import PASSWORD, SmallBroker, small_broker

REAL_TIME = True
TOPIC = "/topic/a"


@contextlib.asynccontextmanager
async def keeping(*bodies: bytes) -> AsyncIterator[SmallBroker]:
    """A broker whose topic has a history of these."""
    async with small_broker() as broker:
        broker.engine.submit(c.Reconfigure(Policies(DestinationPolicy(retention_ms=60_000))))
        await publish(broker, *bodies, address=TOPIC)
        yield broker


async def test_a_history_at_a_broker_with_another_journal_comes_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = [b"b%d" % number for number in range(1, 6)]
    async with keeping(b"a1", b"a2") as first, keeping(*theirs) as second, proxy(first.port) as way:
        urls = [f"stomp://127.0.0.1:{port}" for port in (way.port, second.port)]
        uri = f"failover:({','.join(urls)})?randomize=false"
        async with mom_client.connect(uri, login="anna", passcode=PASSWORD) as mom:
            assert mom.address == urls[0]
            async with mom.subscribe(TOPIC, start="first") as messages:
                assert [(await messages.get(patient(10))).body for _ in range(2)] == [b"a1", b"a2"]
                way.accepts = False
                way.cut()
                found = [(await messages.get(patient(10))).body for _ in theirs]
                assert (mom.address, found) == (urls[1], theirs)
    assert "another journal" in caplog.text
