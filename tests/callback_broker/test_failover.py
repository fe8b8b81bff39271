"""A service goes on behind the callback broker when a mirror takes over from the main."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.callback_broker.machine import callback_broker, programs_have_state
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, mirrors_in, wait_until_serving
from tests.support.polling import poll
from tests.support.small_node import SmallNode

pytestmark = pytest.mark.process


@pytest.fixture
def mirrors(processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    """A main that serves and a mirror on standby, with callbacks."""
    with mirrors_in(tmp_path, "B1", f"file:{tmp_path}/mount") as made:
        main, mirror = (made.make("--reflex-file", "CBdefault.cnf") for _ in range(2))
        main.start()
        mirror.start(standby=True)
        poll(lambda: is_followed(main))
        yield made


@pytest.fixture
async def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SmallNode]:
    """The callback broker of the machine of clients."""
    programs_have_state(tmp_path / "state", monkeypatch)
    async with callback_broker(tmp_path / "local", tmp_path / "state") as local:
        yield local


def consumers(broker: BrokerProcess) -> int:
    """The number of subscriptions to the queue of the service there."""
    found = broker.request("GET", "/api/v1/queues/stock").json()
    return int(found["consumers"])


async def test_the_callback_broker_goes_to_the_mirror_when_the_main_is_killed(
    mirrors: Mirrors, local: SmallNode
) -> None:
    main, mirror = mirrors.brokers
    async with mirrors.client(service="stock") as mom, mom.subscribe("/queue/stock") as messages:
        assert mom.uses_callback_broker
        await mom.send("/queue/stock", "at the main")
        message = await messages.get(20)
        assert message.text == "at the main"
        await message.ack(confirm=True)

        main.kill()
        await asyncio.to_thread(wait_until_serving, mirror)
        async with mirrors.client() as sender:
            for number in range(3):
                await sender.send("/queue/stock", f"at the mirror {number}")
        for number in range(3):
            message = await messages.get(30)
            assert message.text == f"at the mirror {number}"
            await message.ack(confirm=True)
        assert mom.uses_callback_broker
        assert await asyncio.to_thread(consumers, mirror) == 0
        async with local.rest("anna") as rest:
            (origin,) = (await rest.get("/origins")).json()["items"]
        assert (origin["state"], origin["url"]) == ("connected", f"ws://127.0.0.1:{mirror.port}/ws")
