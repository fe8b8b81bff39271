"""Brokers that share the database of their configuration: what is changed at one holds at the other."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from broker_app.config import ConfigError
from mom_client import Client, Refused, connect
from mom_site.database import database
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.postgres import postgres_server

pytestmark = pytest.mark.process

SECRET = "in-the-address"


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    with postgres_server() as server:
        yield server.url


@pytest.fixture(params=["postgresql", "sqlite"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Two brokers with data of their own and one configuration, and john, whom both know."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'shared.sqlite3'}"
    else:
        address = _new_database(request.getfixturevalue("postgres"))
    secret = tmp_path / "address"
    secret.write_text(address)
    both = tuple(
        BrokerProcess(tmp_path / name, "--name", name, "--database-file", str(secret))
        for name in ("one", "two")
    )
    both[0].start()
    assert _put(both[0], "users/john", {"password": "correct horse battery"}) == 201
    both[1].start()
    yield both[0], both[1]
    for broker in both:
        broker.terminate()


def _new_database(server: str) -> str:
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute("DROP DATABASE IF EXISTS mom")
        connection.execute("CREATE DATABASE mom")
    return server.replace("/postgres?", "/mom?")


async def test_a_rule_at_one_broker_holds_at_the_other_within_a_second(
    brokers: tuple[BrokerProcess, BrokerProcess],
) -> None:
    one, two = brokers
    address = f"stomp://{two.host}:{two.stomp_port}"
    took = []
    async with connect(address, login="john", passcode="correct horse battery") as client:
        for _ in range(3):
            await client.send("/queue/a", b"before")
            # Another user's rule: from now on nothing is allowed that no rule allows.
            assert _put(one, "rules/others", {"users": ["jane"]}) == 201
            took.append(await _time_until_refused(client))
            assert one.request("DELETE", "/api/v1/rules/others", None, **{"If-Match": "*"}).status == 204
            await _until_allowed(client)
    assert min(took) < 1.0, took  # each, where the machine has nothing else to do


async def _time_until_refused(client: Client) -> float:
    begun = monotonic()
    with pytest.raises(Refused, match="john may not send"):
        await asyncio.wait_for(_send_on(client), patient(10))
    return monotonic() - begun


async def _send_on(client: Client) -> None:
    while True:
        await client.send("/queue/a", b"after")
        await asyncio.sleep(0.01)


async def _until_allowed(client: Client) -> None:
    async with asyncio.timeout(patient(10)):
        while True:
            with suppress(Refused):
                return await client.send("/queue/a", b"again")
            await asyncio.sleep(0.01)


def _put(broker: BrokerProcess, path: str, said: dict[str, object]) -> int:
    return broker.request("PUT", f"/api/v1/{path}", None, json_body=said).status


@pytest.mark.parametrize("address", ["mysql://x/y", f"postgresql//{SECRET}", f"{SECRET}", "sqlite://"])
def test_an_invalid_address_is_refused_and_not_shown(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="postgresql://USER") as refused:
        database(address, tmp_path)
    assert SECRET not in str(refused.value)
