"""The client library receives the messages of a service through the callback broker of its machine."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import mom_client
from broker_app.config import Config
from broker_app.reflex.registration import Registration, RegistrationVerdict
from tests.callback_broker.machine import callback_broker, programs_have_state
from tests.callback_broker.test_callback_broker import POLICY, enable_callbacks
from tests.support.awaiting import until
from tests.support.ports import reserve_port
from tests.support.small_node import SmallNode, small_node
from tests.support.web import serving


class Machine:
    """A remote broker with callbacks, and the state directory of a user of another machine."""

    def __init__(self, remote: SmallNode, state: Path) -> None:
        self.remote = remote
        self._state = state

    def callback_broker(self, data: Path) -> contextlib.AbstractAsyncContextManager[SmallNode]:
        return callback_broker(data, self._state)

    def client(self, of: SmallNode | None = None, **options: Any) -> mom_client.Client:
        service = mom_client.Service("stock", machine="h1")
        return (of or self.remote).stomp("anna", service=service, **options)

    async def send(self, *bodies: str, to: SmallNode | None = None) -> None:
        async with (to or self.remote).stomp("anna") as mom:
            for body in bodies:
                await mom.send("/queue/stock", body)


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    programs_have_state(tmp_path / "state", monkeypatch)
    port = reserve_port()
    async with small_node(tmp_path / "remote", POLICY, web_port=port) as remote:
        remote.node.features.services.registry.admit = enable_callbacks
        async with serving(remote.node, Config(data=tmp_path), port=port):
            yield Machine(remote, tmp_path / "state")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings and errors, but those of a busy machine."""
    found = [one for one in caplog.records if one.levelno >= logging.WARNING]
    return [one.getMessage() for one in found if one.name != "broker_app.telemetry.loop_lag"]


def subscribers(node: SmallNode) -> int:
    queue = node.node.broker.destinations.queues.get("/queue/stock")
    return len(queue.consumers) if queue is not None else 0


async def test_messages_come_through_the_callback_broker_and_nothing_is_polled(
    machine: Machine, tmp_path: Path
) -> None:
    async with machine.callback_broker(tmp_path / "local") as local, machine.client() as mom:
        assert mom.uses_callback_broker
        async with mom.subscribe("/queue/stock") as messages:
            await machine.send("1", "2")
            for body in ("1", "2"):
                message = await messages.get(10)
                assert message.text == body
                await message.ack()
            assert (subscribers(machine.remote), subscribers(local)) == (0, 1)
        assert machine.remote.depth("stock") == 0


async def test_without_a_callback_broker_all_messages_come_from_the_remote_broker_and_no_error_is_reported(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """OM-T04"""
    caplog.set_level(logging.INFO)
    events: list[mom_client.ConnectionEvent] = []
    bodies = [str(number) for number in range(10)]
    async with machine.client(listener=events.append) as mom, mom.subscribe("/queue/stock") as messages:
        assert not mom.uses_callback_broker
        (service,) = machine.remote.node.features.services.registry.named("stock")
        assert service.registration.machine == "h1"
        await machine.send(*bodies)
        for body in bodies:
            message = await messages.get(10)
            assert message.text == body
            await message.ack()
        assert subscribers(machine.remote) == 1
        assert (events, machine.remote.node.events.all(), warnings_of(caplog)) == ([], [], [])
    await until(lambda: not machine.remote.node.features.services.registry.named("stock"))
    assert machine.remote.depth("stock") == 0
    assert (machine.remote.node.events.all(), warnings_of(caplog)) == ([], [])


async def test_without_the_reflex_nothing_is_notified_and_messages_come_from_the_remote_broker(
    machine: Machine, tmp_path: Path
) -> None:
    """OM-T03"""

    async def accept(registration: Registration) -> RegistrationVerdict:
        return RegistrationVerdict(True, registration)

    machine.remote.node.features.services.registry.admit = accept
    async with machine.callback_broker(tmp_path / "local") as local, machine.client() as mom:
        assert not mom.uses_callback_broker
        async with mom.subscribe("/queue/stock") as messages:
            await machine.send("1")
            assert (await messages.get(10)).text == "1"
        assert subscribers(machine.remote) == 0
        async with machine.remote.rest("anna") as rest:
            assert (await rest.get("/subscribers")).json()["items"] == []
        assert not machine.remote.node.json.sessions
        async with local.rest("anna") as rest:
            assert (await rest.get("/origins")).json()["items"] == []
            assert (await rest.get("/services")).json()["items"] == []
        assert local.depth("stock") == 0


async def test_a_subscription_goes_on_at_the_remote_broker_when_the_callback_broker_is_lost(
    machine: Machine, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        local = contextlib.AsyncExitStack()
        await local.enter_async_context(machine.callback_broker(tmp_path / "local"))
        mom = await stack.enter_async_context(machine.client())
        messages = await stack.enter_async_context(mom.subscribe("/queue/stock"))
        await machine.send("1")
        await (await messages.get(10)).ack(confirm=True)
        await local.aclose()
        await until(lambda: subscribers(machine.remote) == 1)
        assert not mom.uses_callback_broker
        await machine.send("2")
        assert (await messages.get(10)).text == "2"


async def test_a_service_that_the_callback_broker_refuses_is_reported_with_the_reason(
    machine: Machine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with machine.callback_broker(tmp_path / "local"), small_node(tmp_path / "other", POLICY) as other:
        other.node.features.services.registry.admit = enable_callbacks
        async with serving(other.node, Config(data=tmp_path)) as port:
            other.node.registry.websocket_url = f"ws://:{port}/ws"
            async with machine.client() as mom, machine.client(other) as second:
                assert (mom.uses_callback_broker, second.uses_callback_broker) == (True, False)
                async with mom.subscribe("/queue/stock") as own, second.subscribe("/queue/stock") as others:
                    await machine.send("own")
                    await machine.send("other", to=other)
                    assert ((await own.get(10)).text, (await others.get(10)).text) == ("own", "other")
    (warning,) = [text for text in warnings_of(caplog) if "without the callback broker" in text]
    assert "messages of stock come from stomp://127.0.0.1:" in warning
    assert "service stock has the origin ws://127.0.0.1:" in warning


async def test_a_client_that_does_not_wait_for_a_connection_uses_the_callback_broker_too(
    machine: Machine, tmp_path: Path
) -> None:
    async with (
        machine.callback_broker(tmp_path / "local") as local,
        machine.client(wait_connected=False) as mom,
        mom.subscribe("/queue/stock") as messages,
    ):
        assert mom.uses_callback_broker
        await machine.send("1")
        assert (await messages.get(10)).text == "1"
        assert (subscribers(machine.remote), subscribers(local)) == (0, 1)


async def test_the_callback_broker_follows_its_client_to_a_broker_that_it_did_not_know(
    machine: Machine, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        local = await stack.enter_async_context(machine.callback_broker(tmp_path / "local"))
        first = contextlib.AsyncExitStack()
        old = await first.enter_async_context(small_node(tmp_path / "old", POLICY))
        old.node.features.services.registry.admit = enable_callbacks
        port = await first.enter_async_context(serving(old.node, Config(data=tmp_path)))
        old.node.registry.websocket_url = f"ws://:{port}/ws"
        both = ",".join(f"stomp://127.0.0.1:{one.node.stomp_port}" for one in (old, machine.remote))
        uri = f"failover:({both})?randomize=false&maxReconnectDelay=100"
        mom = await stack.enter_async_context(
            mom_client.connect(uri, login="anna", passcode="anna", service="stock")
        )
        messages = await stack.enter_async_context(mom.subscribe("/queue/stock"))
        await machine.send("1", to=old)
        await (await messages.get(10)).ack(confirm=True)
        await first.aclose()
        await machine.send("2")
        assert (await messages.get(20)).text == "2"
        assert mom.uses_callback_broker
        assert (subscribers(machine.remote), subscribers(local)) == (0, 1)
