"""The client library receives the messages of a service through the callback broker of its machine."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import mom_client
from broker_app.config import Config
from broker_app.reflex.registration import Registration, RegistrationVerdict
from broker_app.roles import CALLBACK
from tests.callback_broker.test_callback_broker import POLICY, enable_callbacks
from tests.support.awaiting import until
from tests.support.small_node import SmallNode, small_node
from tests.support.web import serving


class Machine:
    """A remote broker with callbacks, and the state directory of a user of another machine."""

    def __init__(self, remote: SmallNode, state: Path) -> None:
        self.remote = remote
        self.file = state / "mom" / "REcallback" / "programs.json"
        self.file.parent.mkdir(parents=True)

    @contextlib.asynccontextmanager
    async def callback_broker(self, data: Path) -> AsyncIterator[SmallNode]:
        async with small_node(data, POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9) as local:
            stomp = f"stomp://127.0.0.1:{local.node.stomp_port}"
            self.file.write_text(
                json.dumps({"stomp": stomp, "url": "http://-", "token": "mom_anna", "pid": 1})
            )
            yield local

    def client(self) -> mom_client.Client:
        service = mom_client.Service("stock", machine="h1")
        return self.remote.stomp("anna", service=service)

    async def send(self, *bodies: str) -> None:
        async with self.remote.stomp("anna") as mom:
            for body in bodies:
                await mom.send("/queue/stock", body)


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MOM_AUTOCB", raising=False)
    monkeypatch.delenv("REAUTOCB", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    async with small_node(tmp_path / "remote", POLICY, web_port=port) as remote:
        remote.node.services.admit = enable_callbacks
        async with serving(remote.node, Config(data=tmp_path), port=port):
            yield Machine(remote, tmp_path / "state")


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


async def test_without_a_callback_broker_messages_come_from_the_remote_broker(machine: Machine) -> None:
    async with machine.client() as mom, mom.subscribe("/queue/stock") as messages:
        assert not mom.uses_callback_broker
        await machine.send("1")
        assert (await messages.get(10)).text == "1"
        assert subscribers(machine.remote) == 1
    await until(lambda: not machine.remote.node.services.named("stock"))


async def test_a_callback_broker_that_the_remote_broker_refuses_is_not_used(
    machine: Machine, tmp_path: Path
) -> None:
    async def accept(registration: Registration) -> RegistrationVerdict:
        return RegistrationVerdict(True, registration)

    machine.remote.node.services.admit = accept
    async with machine.callback_broker(tmp_path / "local"), machine.client() as mom:
        assert not mom.uses_callback_broker
        async with mom.subscribe("/queue/stock") as messages:
            await machine.send("1")
            assert (await messages.get(10)).text == "1"


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
