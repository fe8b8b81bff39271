"""A shared store without space: producers are refused; consumers go on, and a broker that takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.test_full_disk import accepts, consume, fill
from tests.crash.test_full_store import events_of_store
from tests.support.mirrors import Mirrors, mirrors_in, wait_until_serving
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.redis import redis_server
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.process

MIB = 1024 * 1024
STORE = 20 * MIB
OPTIONS = ("--segment-bytes", "1MiB", "--full-wait", "3")


@pytest.fixture(params=["redis", "files"])
def mirrors(request: pytest.FixtureRequest, processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with ExitStack() as running:
        if request.param == "redis":
            journal = running.enter_context(redis_server(maxmemory=str(STORE))).url
        else:
            journal = f"file:{running.enter_context(small_disk(tmp_path / 'disk', STORE))}"
        yield running.enter_context(mirrors_in(tmp_path, "B", journal))


@pytest.mark.slow
@pytest.mark.timeout(patient(180))
async def test_a_full_store_refuses_producers_and_lets_consumers_and_mirrors_go_on(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(*OPTIONS), mirrors.make(*OPTIONS)
    await asyncio.to_thread(main.start)
    await asyncio.to_thread(mirror.start, standby=True)
    promised: set[int] = set()
    await fill(main, promised)
    refused = main.request("POST", "/api/v1/queues/other/messages", b"hello")
    assert (refused.status, refused.json()["type"].rpartition("/")[2]) == (503, "store-full")
    assert len(promised) > 1_500, "most of the space can be used"
    await asyncio.to_thread(poll, lambda: "nearly full" in events_of_store(main), 10)
    taken = await consume(main, len(promised) // 4)

    await fill(main, promised)
    main.kill()
    await asyncio.to_thread(wait_until_serving, mirror)
    await fill(mirror, promised)
    await asyncio.to_thread(poll, lambda: "nearly full" in events_of_store(mirror), 10)
    taken |= await consume(mirror, None)
    assert promised <= taken, f"{len(promised - taken)} promised messages are lost"
    await asyncio.to_thread(poll, lambda: accepts(mirror), 20)
