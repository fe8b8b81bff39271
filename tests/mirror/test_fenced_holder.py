"""The configuration after a takeover: what the former holder does later changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import psycopg
import pytest

import mom_client
from tests.support.account import client
from tests.support.mirrors import Mirrors, is_followed, wait_until_serving
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process

ACCOUNT = {"password": "another horse battery"}


def test_a_holder_that_wakes_up_does_not_replace_the_configuration_of_the_taker(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    # What it has not replicated when it is paused: an entry of the audit log.
    main.request("POST", "/api/v1/queues/orders/messages", b"x", content_type="text/plain")
    assert main.request("DELETE", "/api/v1/queues/orders/messages?all=true").status == 204
    os.kill(main.pid, signal.SIGSTOP)
    wait_until_serving(mirror)
    made = mirror.request("PUT", "/api/v1/users/eve", json_body=ACCOUNT, if_none_match="*")
    assert made.status == 201
    os.kill(main.pid, signal.SIGCONT)
    poll(lambda: not main.running)
    main.start(standby=True)
    poll(lambda: is_followed(mirror))
    mirror.kill()
    wait_until_serving(main)
    assert main.request("GET", "/api/v1/users/eve").status == 200


def test_a_change_at_a_holder_that_was_replaced_is_not_confirmed(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    os.kill(main.pid, signal.SIGSTOP)
    answers: list[int] = []

    def change() -> None:
        try:
            reply = main.request("PUT", "/api/v1/users/eve", json_body=ACCOUNT, if_none_match="*")
        except OSError:  # it ended before it answered
            return
        answers.append(reply.status)

    waiting = threading.Thread(target=change)
    waiting.start()
    wait_until_serving(mirror)
    os.kill(main.pid, signal.SIGCONT)
    waiting.join(30)
    poll(lambda: not main.running)
    assert 201 not in answers
    assert mirror.request("GET", "/api/v1/users/eve").status == 404


async def test_a_holder_that_was_paused_after_a_commit_delivers_nothing_that_its_taker_has_delivered(
    mirrors: Mirrors, postgres: Postgres
) -> None:
    main, mirror = mirrors.pair()
    table = f'"mom_journal_{mirrors.name}".batch'
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO batch%'"
    async with client(main) as mom, mom.subscribe("/queue/orders") as messages:
        with psycopg.connect(postgres.url) as locking:
            locking.execute(f"LOCK TABLE {table} IN SHARE MODE")
            sent = mom.send_nowait("/queue/orders", "one")
            await asyncio.to_thread(poll, lambda: postgres.execute(waits))
            os.kill(main.pid, signal.SIGSTOP)
        # The store carries out what it was sent, and confirms it to a broker that does not listen.
        await asyncio.to_thread(wait_until_serving, mirror)
        async with client(mirror) as other, other.subscribe("/queue/orders") as there:
            await (await there.get(10)).ack(confirm=True)
        os.kill(main.pid, signal.SIGCONT)
        with pytest.raises(mom_client.ClientError):
            await messages.get(10)
        with pytest.raises(mom_client.ClientError):
            await sent
    poll(lambda: not main.running)
