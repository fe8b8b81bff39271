"""The client connects again while the broker still has its former connection, which is broken."""

import asyncio

import pytest

import mom_client
from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from tests.net.test_json_session import publish
from tests.support.patience import patient
from tests.support.proxy import proxy
from tests.support.small_broker import PASSWORD, small_broker

REAL_TIME = True


async def test_it_takes_over_from_a_connection_in_which_everything_is_swallowed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with small_broker() as broker, proxy(broker.port) as broken, proxy(broker.port) as sound:
        urls = [f"stomp://127.0.0.1:{way.port}" for way in (broken, sound)]
        # The broker hears nothing and expects nothing: it never notices by itself.
        beats = {"heart-beat": "0,300"}
        async with (
            mom_client.connect(urls, heart_beat_s=0.3, headers=beats, login="anna", passcode=PASSWORD) as mom,
            mom.subscribe("/topic/a", durable="mine") as messages,
        ):
            (former,) = broker.registry.sessions
            for direction in (broken.out, broken.back):
                direction.hold()
            await publish(broker, b"kept", address="/topic/a")
            message = await messages.get(patient(20))
            assert (message.body, mom.address) == (b"kept", urls[1])
            await message.ack(confirm=True)
            assert former.conversation.peer.stopped
    assert "taken-over: a newer connection" in caplog.text


async def test_what_it_sends_is_stored_at_once_although_its_former_connection_is_the_only_producer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with small_broker() as broker, proxy(broker.port) as broken, proxy(broker.port) as sound:
        one = DestinationPolicy(max_producers=1)
        broker.engine.submit(c.Reconfigure(Policies(exact={"/queue/one": one})))
        urls = [f"stomp://127.0.0.1:{way.port}" for way in (broken, sound)]
        beats = {"heart-beat": "0,300"}
        async with mom_client.connect(
            urls, heart_beat_s=0.3, headers=beats, login="anna", passcode=PASSWORD
        ) as mom:
            await mom.send("/queue/one", b"first")
            for direction in (broken.out, broken.back):
                direction.hold()
            async with asyncio.timeout(patient(20)):
                await mom.send("/queue/one", b"second")
            assert mom.address == urls[1]
        assert broker.engine.broker.destinations.queues["/queue/one"].depth == 2
    assert "taken-over: a newer connection" in caplog.text
