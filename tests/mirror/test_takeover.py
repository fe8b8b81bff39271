"""Mirrors as their users see them: refusals, takeovers, orders of operators, and what is lost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mom_client
from broker_app.cli.base.failures import OK
from mom_client.stomp.encode import encode
from mom_client.stomp.frame import CONNECT, Frame
from mom_client.stomp.parser import Parser
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerFailed, BrokerProcess
from tests.support.mirrors import (
    LEASE_S,
    Mirrors,
    is_followed,
    serves,
    status,
    wait_until_serving,
)
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process


#: of a message that is recognized in the store
COMMIT_BYTES = 300_000
ACCOUNT = {"password": "another horse battery"}


def login(broker: BrokerProcess) -> dict[str, str]:
    return {"login": broker.user, "passcode": broker.password}


def client(broker: BrokerProcess, **options: Any) -> mom_client.Client:
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    return mom_client.connect(address, **{**login(broker), "reconnect": False, **options})


def give_john_a_queue(broker: BrokerProcess) -> None:
    """A user who may use one queue alone."""
    made = broker.request("PUT", "/api/v1/users/john", json_body=ACCOUNT, if_none_match="*")
    assert made.status == 201, made.body
    rule = {"users": ["john"], "conditions": "/event/queue == johns"}
    made = broker.request("PUT", "/api/v1/rules/johns", json_body=rule, if_none_match="*")
    assert made.status == 201, made.body


async def check_john(broker: BrokerProcess) -> None:
    """See that john may use that queue alone."""
    async with client(broker, login="john", passcode=ACCOUNT["password"]) as mom:
        await mom.send("/queue/johns", "hello")
        with pytest.raises(mom_client.Refused, match="may not send to queue orders"):
            await mom.send("/queue/orders", "hello")


async def receive(queue: str, count: int, mirrors: Mirrors) -> list[mom_client.Message]:
    """The next messages of a queue, acknowledged."""
    async with mirrors.client() as mom, mom.subscribe(queue) as messages:
        found = []
        for _ in range(count):
            message = await messages.get(20)
            await message.ack()
            found.append(message)
        return found


def events(broker: BrokerProcess) -> list[dict[str, Any]]:
    found = broker.request("GET", "/api/v1/events?kind=mirrors").json()["items"]
    return list(found)


def orders(broker: BrokerProcess) -> list[tuple[str, str]]:
    """Actions on mirrors in the audit log and their reasons, the newest first."""
    found = broker.request("GET", "/api/v1/audit").json()["items"]
    return [(one["action"], one["after"]["reason"]) for one in found if one["kind"] == "mirrors"]


async def test_connected_and_a_topic_name_the_brokers_of_now(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(), mirrors.make()
    main.start()
    async with mirrors.client() as mom, mom.subscribe("/topic/$mom.failover", ack="auto") as lists:
        assert mom.server["mom-failover"].split(",")[0] == f"stomp://127.0.0.1:{main.stomp_port}"
        await asyncio.to_thread(mirror.start, standby=True)
        message = await lists.get(10)
        assert f"stomp://127.0.0.1:{mirror.stomp_port}" in message.body.decode()


async def test_a_killed_broker_is_replaced_and_nothing_persistent_is_lost(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    async with client(main) as mom:
        for number in range(200):
            await mom.send("/queue/orders", str(number))
        for number in range(50):
            await mom.send("/queue/quotes", str(number), persistent=False)
    poll(lambda: status(main)["would_be_lost"] == {"persistent": 0, "non_persistent": 50})
    poll(lambda: status(mirror)["would_be_lost"]["non_persistent"] == 50)
    main.kill()
    killed_at = time.monotonic()
    found = await receive("/queue/orders", 200, mirrors)
    assert time.monotonic() - killed_at < LEASE_S + 2
    assert [int(one.body) for one in found] == list(range(200))
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["non_persistent_lost"]) == ("lease-expired", 50)
    (event,) = [one for one in events(mirror) if one["event"] == "took over"]
    assert (event["code"], event["facts"]["non_persistent_lost"]) == ("LEASE_EXPIRED", 50)


async def test_deliveries_that_were_not_acknowledged_come_again_and_are_marked(mirrors: Mirrors) -> None:
    main, _ = mirrors.pair()
    async with client(main) as mom:
        for number in range(10):
            await mom.send("/queue/orders", str(number))
        async with mom.subscribe("/queue/orders", credit=5) as messages:
            first = [await messages.get(10) for _ in range(5)]
            main.kill()
    assert not any(one.headers.get("redelivered") == "true" for one in first)
    found = await receive("/queue/orders", 10, mirrors)
    assert [int(one.body) for one in found] == list(range(10))
    assert [one.headers.get("redelivered") == "true" for one in found[:5]] == [True] * 5


async def test_a_clean_stop_hands_over_at_once(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    async with client(main) as mom:
        await mom.send("/queue/orders", "1")
        await mom.send("/queue/quotes", "1", persistent=False)
    main.terminate()
    assert [int(one.body) for one in await receive("/queue/orders", 1, mirrors)] == [1]
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["former"]) == ("stopped", f"127.0.0.1:{main.port}")
    assert takeover["took_s"] < LEASE_S
    assert takeover["non_persistent_lost"] == 1


async def test_the_former_main_follows_when_it_is_started_again_and_may_be_mirrored_on(
    mirrors: Mirrors,
) -> None:
    main, mirror = mirrors.pair()
    third = mirrors.make()
    third.start(standby=True)
    main.kill()
    poll(lambda: serves(mirror) or serves(third), 20)
    second, last = (mirror, third) if serves(mirror) else (third, mirror)
    async with client(second) as mom:
        await mom.send("/queue/orders", "1")
    main.start(standby=True)
    assert not serves(main)
    second.kill()
    poll(lambda: serves(main) or serves(last), 20)
    assert [int(one.body) for one in await receive("/queue/orders", 1, mirrors)] == [1]


def test_a_mirror_without_a_main_serves_and_says_so(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(), mirrors.make()
    mirror.start()
    (event,) = [one for one in events(mirror) if one["event"] == "active without main"]
    assert event["code"] == "MIRROR_ACTIVE_WITHOUT_MAIN"
    main.start(standby=True)
    assert not serves(main)
    assert serves(mirror)


def test_a_planned_switchover_loses_nothing_and_the_former_holder_follows(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    path = f"/api/v1/mirrors/{mirrors.name}/switchover"
    preview = main.request("POST", path, json_body={"dry_run": True})
    assert preview.json() == {
        "to": f"127.0.0.1:{mirror.port}",
        "would_be_lost": {"persistent": 0, "non_persistent": 0},
        "dry_run": True,
    }
    assert main.request("POST", path, json_body={"reason": "new kernel"}).status == 202
    wait_until_serving(mirror)
    assert status(mirror)["takeovers"][0]["cause"] == "switchover"
    poll(lambda: is_followed(mirror))
    assert not serves(main)
    # And back, ordered at the standby.
    assert main.request("POST", path, json_body={"to": f"127.0.0.1:{main.port}"}).status == 202
    wait_until_serving(main)
    assert [one["cause"] for one in status(main)["takeovers"]] == ["switchover", "switchover", "started"]
    poll(lambda: orders(main) == [("switched over", ""), ("switched over", "new kernel")])


def test_a_forced_takeover_states_the_loss_and_fences_the_holder(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    poll(lambda: is_followed(main))
    path = f"/api/v1/mirrors/{mirrors.name}/takeover"
    order = {"expect_epoch": status(mirror)["lease"]["epoch"], "reason": "it hangs"}
    refused = mirror.request("POST", path, json_body=order)
    assert refused.status == 409
    assert "non-persistent" in refused.json()["detail"]
    stale = mirror.request("POST", path, json_body={**order, "expect_epoch": 99, "accept_loss": True})
    assert (stale.status, "epoch is 1, not 99" in stale.json()["detail"]) == (409, True)
    assert mirror.request("POST", path, json_body={**order, "accept_loss": True}).status == 202
    wait_until_serving(mirror)
    takeover = status(mirror)["takeovers"][0]
    assert (takeover["cause"], takeover["reason"]) == ("forced", "it hangs")
    poll(lambda: orders(mirror) == [("took over", "it hangs")])
    poll(lambda: not main.running)
    assert "has taken over the journal" in main.log


async def test_a_holder_that_was_paused_in_a_commit_writes_nothing_and_sends_its_clients_to_the_taker(
    mirrors: Mirrors, postgres: Postgres
) -> None:
    main, mirror = mirrors.pair()
    table = f'"mom_journal_{mirrors.name}".batch'
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INTO batch%'"
    reader, writer = await asyncio.open_connection(main.host, main.stomp_port)
    writer.write(encode(CONNECT, {"accept-version": "1.2", "host": "/"} | login(main), b""))
    assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED\n")
    async with client(main) as mom:
        await mom.send("/queue/orders", "before")
        with psycopg.connect(postgres.url) as locking:
            locking.execute(f"LOCK TABLE {table} IN SHARE MODE")
            late = [mom.send_nowait("/queue/orders", bytes(COMMIT_BYTES))]
            await asyncio.to_thread(poll, lambda: postgres.execute(waits))
            os.kill(main.pid, signal.SIGSTOP)
            await asyncio.to_thread(wait_until_serving, mirror)
        # Only now the store carries out what it was sent in the first broker's epoch.
        await asyncio.to_thread(poll, lambda: not postgres.execute(waits))
        late += [mom.send_nowait("/queue/orders", f"late {number}") for number in range(20)]
        os.kill(main.pid, signal.SIGCONT)
        found = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(one, mom_client.ClientError) for one in found), found
    (error,) = [one for one in Parser(role="client").receive(await reader.read()) if isinstance(one, Frame)]
    writer.close()
    assert error.command == b"ERROR"
    assert error.headers["reason"] == "MAIN_ACTIVE"
    there = f"stomp://127.0.0.1:{mirror.stomp_port}"
    assert error.headers["active"] == f"{there},ws://127.0.0.1:{mirror.port}/ws"
    poll(lambda: not main.running)
    assert main.terminate() != 0
    refusal = re.search(r"were not stored: .* has taken over the journal in .*: epoch 1 has ended", main.log)
    assert refusal is not None, main.log
    assert f"is served by 127.0.0.1:{mirror.port} from now on: connect to it" in main.log
    assert postgres.execute(f"SELECT 1 FROM {table} WHERE octet_length(frame) > {COMMIT_BYTES}") == []
    assert [one.body for one in await receive("/queue/orders", 1, mirrors)] == [b"before"]
    assert mirror.request("GET", "/api/v1/queues/orders").json()["depth"] == 0


def test_a_token_can_be_made_as_soon_as_the_first_broker_of_a_store_is_ready(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    """It was refused for some seconds, since the broker served before it had noted its configuration."""
    main = mirrors.make()
    main.start()
    created = CommandLine(tmp_path)("token", "create", "first", "--data", str(main.data))
    assert created.code == OK, created.err
    token = f"Bearer {created.out.strip()}"
    assert main.request("GET", "/api/v1/queues", authorization=token).status == 200


async def test_users_rules_and_bridges_are_those_of_the_broker_that_served(mirrors: Mirrors) -> None:
    main, mirror = mirrors.pair()
    give_john_a_queue(main)
    main.kill()
    wait_until_serving(mirror)
    await check_john(mirror)
    assert "MOM is ready" in mirror.log
    assert "log in" not in mirror.log, "its link was replaced with the accounts"
    assert not (mirror.data / "login_link").exists()
    for broker in (main, mirror):
        assert "each reader of that store has the secret key" in broker.log


async def test_with_a_key_file_the_configuration_is_sealed_in_the_store(
    mirrors: Mirrors, postgres: Postgres, tmp_path: Path
) -> None:
    key = tmp_path / "secret-key"
    key.write_text("correct-horse-battery-staple\n", "ascii")
    key.chmod(0o600)
    main, mirror = (mirrors.make(environment={"MOM_SECRET_KEY_FILE": str(key)}) for _ in range(2))
    main.start()
    mirror.start(standby=True)
    give_john_a_queue(main)
    main.kill()
    wait_until_serving(mirror)
    await check_john(mirror)
    assert status(mirror)["configuration"] == "sealed"
    assert "each reader of that store" not in main.log + mirror.log
    notes = postgres.execute(f'SELECT key, content FROM "mom_journal_{mirrors.name}".note')
    stored = {str(name): bytes(content) for name, content in notes}  # type: ignore[call-overload]
    assert b'"sealed"' in stored["configuration"]
    assert not any(b"correct-horse" in content or b"secret_key" in content for content in stored.values())


async def test_brokers_that_share_a_database_have_the_users_and_rules_of_now(
    mirrors: Mirrors, postgres: Postgres, tmp_path: Path
) -> None:
    postgres.execute(f'CREATE DATABASE "{mirrors.name}"')
    shared = {
        "MOM_DATABASE": f"postgresql://postgres@127.0.0.1:{postgres.port}/{mirrors.name}",
        "MOM_SECRET_KEY_FILE": str(tmp_path / "secret-key"),
    }
    main, mirror = mirrors.make(environment=shared), mirrors.make(environment=shared)
    main.start()
    mirror.start(standby=True)
    give_john_a_queue(main)
    assert main.request("PUT", "/api/v1/users/eve", json_body=ACCOUNT, if_none_match="*").status == 201
    assert main.request("DELETE", "/api/v1/users/eve", if_match="*").status == 204
    main.kill()
    wait_until_serving(mirror)
    await check_john(mirror)
    assert mirror.request("GET", "/api/v1/users/eve").status == 404
    assert mirror.request("DELETE", "/api/v1/users/john", if_match="*").status == 204
    main.start(standby=True)
    mirror.terminate()
    wait_until_serving(main)
    assert main.request("GET", "/api/v1/users/john").status == 404


async def test_a_client_that_is_given_one_broker_learns_the_other_and_goes_there(mirrors: Mirrors) -> None:
    """AF-T01 of the specification."""
    main, mirror = mirrors.pair()
    there = f"stomp://{mirror.host}:{mirror.stomp_port}"
    poll(lambda: there in main.request("GET", "/failover-list", authorization="").json()["uris"])
    uri = f"failover:(stomp://{main.host}:{main.stomp_port})?maxReconnectDelay=100"
    async with mom_client.connect(uri, login=main.user, passcode=main.password) as mom:
        known = mom.server["mom-failover"].split(",")
        assert {f"stomp://{main.host}:{main.stomp_port}", there} <= set(known)
        for number in range(100):
            await mom.send("/queue/orders", str(number))
        main.kill()
        killed_at = time.monotonic()
        for number in range(100, 200):
            await mom.send("/queue/orders", str(number))
        assert time.monotonic() - killed_at < 15
        assert mom.address in (there, f"ws://{mirror.host}:{mirror.port}/ws")
    assert [int(one.body) for one in await receive("/queue/orders", 200, mirrors)] == list(range(200))


def test_a_broker_without_a_shared_journal_has_no_mirrors(start_broker: Any) -> None:
    alone = start_broker()
    assert alone.request("GET", "/api/v1/mirrors").json() == {"items": []}
    found = alone.request("GET", "/failover-list", authorization="").json()
    assert found["brokers"] == []
    assert alone.request("GET", "/api/v1/mirrors/mom").status == 404


def test_two_brokers_do_not_use_one_data_directory(mirrors: Mirrors) -> None:
    main = mirrors.make()
    main.start()
    other = mirrors.make()
    other.data = main.data
    other.environment["MOM_DATA"] = str(main.data)
    with pytest.raises(BrokerFailed, match=r"is in use by process \d+; .* another data directory"):
        other.start(standby=True)
    assert serves(main)
    main.kill()
    main.start()


def test_a_mirror_with_other_settings_than_its_main_is_reported_at_both(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    main = mirrors.make()
    database = {"MOM_DATABASE": f"sqlite:///{tmp_path}/other.sqlite3"}
    mirror = mirrors.make("--lease-s", "2", environment=database)
    main.start()
    mirror.start(standby=True)
    poll(lambda: len([one for one in events(main) if one["event"] == "settings differ"]) == 2)
    found = [one for one in events(main) if one["event"] == "settings differ"]
    assert {one["code"] for one in found} == {"MIRROR_SETTINGS_DIFFER"}
    lease = f"MOM_LEASE_S is 2 at 127.0.0.1:{mirror.port} and 1 here: set the same for all"
    users = (
        f"127.0.0.1:{mirror.port} has its configuration in MOM_DATABASE, and 127.0.0.1:{main.port} has none"
    )
    assert [one["detail"].startswith((lease, users)) for one in found] == [True, True]
    assert lease in main.log
    poll(lambda: f"MOM_LEASE_S is 1 at 127.0.0.1:{main.port} and 2 here" in mirror.log)
