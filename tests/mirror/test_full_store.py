"""A shared store without space: producers are refused; consumers go on, and a broker that takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_full_disk import accepts, consume, fill
from tests.crash.test_full_store import events_of_store
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, mirrors_in, wait_until_serving
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.redis import redis_server
from tests.support.samples import sample
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.process

MIB = 1024 * 1024
STORE = 20 * MIB
OPTIONS = ("--segment-bytes", "1MiB", "--full-wait", "3")
#: a server of PostgreSQL does not report its space: the journal has a limit of its own
LIMITED = ("--max-store-bytes", str(STORE))
BODY = bytes(256 * 1024)
DEGRADED = {"status": "ready", "degraded": "nearly-full"}


@pytest.fixture(params=sample(("redis", "files"), 1))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mirrors(request: pytest.FixtureRequest, kind: str, processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with ExitStack() as running:
        if kind == "redis":
            journal = running.enter_context(redis_server(maxmemory=str(STORE))).url
        elif kind == "postgres":
            journal = request.getfixturevalue("postgres").url
        else:
            journal = f"file:{running.enter_context(small_disk(tmp_path / 'disk', STORE))}"
        yield running.enter_context(mirrors_in(tmp_path, "B", journal))


@pytest.fixture
def pair(kind: str, mirrors: Mirrors) -> tuple[BrokerProcess, BrokerProcess]:
    """A main and a mirror, not started yet."""
    options = OPTIONS + (LIMITED if kind == "postgres" else ())
    return mirrors.make(*options), mirrors.make(*options)


@pytest.mark.slow
@pytest.mark.timeout(patient(180))
async def test_a_full_store_refuses_producers_and_lets_consumers_and_mirrors_go_on(
    pair: tuple[BrokerProcess, BrokerProcess],
) -> None:
    main, mirror = pair
    await asyncio.to_thread(main.start)
    await asyncio.to_thread(mirror.start, standby=True)
    promised: set[int] = set()
    await fill(main, promised)
    refused = main.request("POST", "/api/v1/queues/other/messages", b"hello")
    assert (refused.status, refused.json()["type"].rpartition("/")[2]) == (503, "store-full")
    assert len(promised) > 375, "most of the space can be used"
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


# A takeover takes what is left of a Redis of this size for copies of the configuration.
@pytest.mark.slow
@pytest.mark.timeout(patient(120))
@pytest.mark.parametrize("kind", sample(("files", "postgres"), 1))
def test_a_store_that_is_nearly_full_degrades_the_broker_that_serves_and_the_one_that_takes_over(
    pair: tuple[BrokerProcess, BrokerProcess],
) -> None:
    main, mirror = pair
    main.start()
    mirror.start(standby=True)
    assert ready(main) == {"status": "ready"}
    for number in count(1):
        assert main.request("POST", "/api/v1/queues/a/messages", BODY).status == 201
        if number * len(BODY) > STORE * 2 // 3 and degrades_within(main, 1.5):
            break
    main.kill()
    wait_until_serving(mirror)
    poll(lambda: ready(mirror) == DEGRADED, 10)
    assert mirror.request("DELETE", "/api/v1/queues/a/messages?all=true").status == 204
    poll(lambda: ready(mirror) == {"status": "ready"}, 20)


def ready(broker: BrokerProcess) -> Any:
    """The answer of a broker whether it serves."""
    return broker.request("GET", "/health/ready", authorization="").json()


def degrades_within(broker: BrokerProcess, seconds: float) -> bool:
    """Return whether a broker reports in so many seconds, which is when it looks at its store, that that is
    nearly full."""
    try:
        poll(lambda: ready(broker) == DEGRADED, seconds)
    except AssertionError:
        return False
    return True
