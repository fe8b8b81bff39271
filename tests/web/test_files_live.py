"""A zero.config followed by a real broker: a change reaches a connected client within a second."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import mom_client
from tests.support.broker_process import BrokerFailed, BrokerProcess, StartBroker

REACHES_S = 1.0
RULE = '@include "security/messaging_rule.config" {"conditions": "/event/queue == %s", "users": ["john"]}\n'
PASSWORD = "john's battery staple"


def replace(file: Path, text: str) -> None:
    """As editors do it: a new file takes the place of the old one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


async def may_send(john: mom_client.Client, queue: str) -> bool:
    try:
        await john.send(f"/queue/{queue}", b"x")
    except mom_client.Refused as refused:
        if refused.code != "not-allowed":
            raise
        return False
    return True


async def seconds_until(
    change: Callable[[], None], john: mom_client.Client, queue: str, allowed: bool
) -> float:
    """The time from a change of the file until sending is allowed, or refused."""
    began = time.monotonic()
    change()
    while await may_send(john, queue) is not allowed:
        assert time.monotonic() < began + 10, "the change never reached the client"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def test_a_change_of_a_file_reaches_a_connected_client_within_a_second(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    file, rules = tmp_path / "zero.config", tmp_path / "rules.config"
    file.write_text('/config/messaging/broker/name = "plant7"\n@include "rules.config"\n')
    rules.write_text(RULE % "orders")
    broker = await asyncio.to_thread(start_broker, "--config-file", str(file))
    made = broker.request("PUT", "/api/v1/users/john", json_body={"password": PASSWORD})
    assert made.status == 201, made.body
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    async with mom_client.connect(address, login="john", passcode=PASSWORD, reconnect=False) as john:
        assert await may_send(john, "orders")
        assert not await may_send(john, "invoices")
        more = RULE % "orders" + RULE % "invoices"
        assert await seconds_until(lambda: replace(rules, more), john, "invoices", True) < REACHES_S
        assert (
            await seconds_until(lambda: replace(rules, RULE % "orders"), john, "invoices", False) < REACHES_S
        )
        replace(rules, f"{more}\n\n@include rules")
        await asyncio.to_thread(_wait_refused, broker)
        assert not await may_send(john, "invoices")
        assert await may_send(john, "orders")
    assert broker.log.count("rules.config:5:10: ") == 1


def _wait_refused(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + 10
    while broker.request("GET", "/api/v1/config/files").json()["state"] != "refused":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/config/mom/credits = 1", "zero.config:1:1: there is no key /config/mom/credits; did you mean"),
        ('\n/config/connection/messaging/b = {"port": 1}', "zero.config:2:1: hostname: is missing"),
    ],
)
def test_a_broker_does_not_start_with_a_file_that_it_cannot_use(
    start_broker: StartBroker, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "zero.config"
    file.write_text(text)
    with pytest.raises(BrokerFailed) as failed:
        start_broker("--config-file", str(file))
    assert told in str(failed.value)
    assert "cannot be used" in str(failed.value)
    assert "Traceback" not in str(failed.value)
