"""Clients in the broker's own process."""

from __future__ import annotations

import pytest

import mom_client
from broker_app.net.auth.login import Identity
from broker_app.net.stomp.transports import local
from tests.support.small_broker import small_broker

ANNA = Identity("anna")


async def test_a_local_client_sends_receives_and_acknowledges() -> None:
    async with small_broker() as broker:
        async with mom_client.connect("stomp://local", opener=local.opener(broker.registry, ANNA)) as mom:
            async with mom.subscribe("/queue/a", ack="client-individual") as messages:
                for number in range(100):
                    await mom.send("/queue/a", f"{number}")
                for number in range(100):
                    message = await messages.get(timeout_s=5)
                    assert message.text == f"{number}"
                    await message.ack()
            await mom.send("/queue/left", "stays")
        await broker.engine.wait_idle()
        assert broker.engine.broker.destinations.queues["/queue/left"].depth == 1
        assert len(broker.registry.sessions) == 0


async def test_a_local_client_without_identity_has_to_log_in() -> None:
    async with small_broker() as broker:
        pipe = local.LocalPipe(broker.registry)
        await pipe.send(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        assert (await pipe.receive()).startswith(b"ERROR\n")
        assert await pipe.receive() == b""
        with pytest.raises(ConnectionResetError):
            await pipe.send(b"\n")


async def test_a_local_client_that_reads_nothing_gets_no_more_than_fits() -> None:
    async with small_broker(memory_bytes=4 * 1024 * 1024) as broker:
        pipe = local.LocalPipe(broker.registry, ANNA)
        await pipe.send(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        await pipe.send(b"SUBSCRIBE\nid:1\ndestination:/queue/big\n\n\0")
        await pipe.receive()
        for _ in range(50):
            await pipe.send(b"SEND\ndestination:/queue/big\n\n" + b"x" * 16_000 + b"\0")
            await broker.engine.wait_idle()
        await broker.engine.wait_idle()
        assert broker.engine.broker.destinations.queues["/queue/big"].depth > 30
        seen = 0
        while seen < 50:
            seen += (await pipe.receive()).count(b"MESSAGE\n")
        await pipe.close()
