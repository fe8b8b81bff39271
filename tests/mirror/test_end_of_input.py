"""A broker that ends, or hands over, while clients go on sending: they hear of it, and its mirror serves, at
once. `make soak` of a quiet machine asks for both in 0.3 s."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import psycopg
import pytest

import mom_client
from tests.support.awaiting import until
from tests.support.broker_process import BrokerProcess, Reply
from tests.support.floods import Flood, login
from tests.support.mirrors import Mirrors, accepts, is_followed
from tests.support.patience import SLOWNESS, patient
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process

#: seconds from the signal, or the order
_AT_MOST_S = 0.3 if "SOAK" in os.environ and SLOWNESS < 1.2 else patient(5.0)


@pytest.mark.parametrize("end", ["SIGTERM", "switch-over"])
async def test_clients_that_go_on_sending_hold_up_neither_the_end_nor_the_taker(
    end: str, mirrors: Mirrors
) -> None:
    main, mirror = await asyncio.to_thread(mirrors.pair)
    await asyncio.to_thread(poll, lambda: is_followed(main))
    floods = [Flood() for _ in range(4)]
    async with asyncio.TaskGroup() as group:
        for flood in floods:
            group.create_task(flood.run(login(main.user, main.password), main.stomp_port))
        await until(lambda: all(flood.receipts > 1_000 for flood in floods), 30)
        began_at = time.monotonic()
        if end == "SIGTERM":
            os.kill(main.pid, signal.SIGTERM)
        else:
            path = f"/api/v1/mirrors/{mirrors.name}/switchover"
            reply = await asyncio.to_thread(main.request, "POST", path, json_body={})
            assert reply.status == 202, reply.body
        await _accepting(mirror)
        served_s = time.monotonic() - began_at
    heard_s = max(flood.ended_at for flood in floods) - began_at
    print(
        f"{end}: four floods had their ERROR after {heard_s:.2f} s, the mirror served after {served_s:.2f} s"
    )
    assert [flood.last[:6] for flood in floods] == [b"ERROR\n"] * 4
    assert heard_s < _AT_MOST_S
    assert served_s < _AT_MOST_S
    depth = mirror.request("GET", "/api/v1/queues/a").json()["depth"]
    assert depth >= sum(flood.receipts for flood in floods) > 0


async def test_nothing_is_read_while_the_order_to_hand_over_is_written_unless_that_fails(
    mirrors: Mirrors, postgres: Postgres
) -> None:
    main, _ = await asyncio.to_thread(mirrors.pair)
    await asyncio.to_thread(poll, lambda: is_followed(main))
    address = f"stomp://{main.host}:{main.stomp_port}"
    path = f"/api/v1/mirrors/{mirrors.name}/switchover"
    async with mom_client.connect(address, login=main.user, passcode=main.password) as client:
        with psycopg.connect(postgres.url) as locking:
            locking.execute(f'LOCK TABLE "mom_journal_{mirrors.name}".note IN ACCESS EXCLUSIVE MODE')
            order = asyncio.create_task(asyncio.to_thread(main.request, "POST", path, json_body={}))
            await asyncio.to_thread(poll, lambda: _reads_nothing(main))
            sent = asyncio.create_task(client.send("/queue/a", "1"))
            await asyncio.to_thread(poll, lambda: _is_broken_off(postgres, order))
        assert order.result().status == 503
        await sent
    assert main.request("GET", "/api/v1/queues/a").json()["depth"] == 1


def _reads_nothing(broker: BrokerProcess) -> bool:
    """Return whether the broker reads nothing from its only client."""
    (one,) = broker.request("GET", "/api/v1/connections").json()["items"]
    return bool(one["throttled"])


def _is_broken_off(postgres: Postgres, order: asyncio.Task[Reply]) -> bool:
    """Break off what waits for the notes; return whether the order has been answered."""
    waits = "wait_event_type = 'Lock' AND query LIKE '%note%'"
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {waits}")
    return order.done()


async def _accepting(broker: BrokerProcess) -> None:
    """Return when a broker accepts a login."""
    async with asyncio.timeout(patient(30)):
        while not await accepts(broker, patient(5)):
            await asyncio.sleep(0.005)
