"""Settings of a bridge tested before they are saved, with a broker that is its own other end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess


@pytest.fixture
def settings(broker: BrokerProcess) -> dict[str, Any]:
    """Of a bridge that leads back."""
    return {"name": "west", "hostname": "127.0.0.1", "port": broker.stomp_port, "user": broker.user}


def tried(broker: BrokerProcess, settings: dict[str, Any]) -> dict[str, bool | None]:
    reply = broker.request("POST", "/api/v1/forwarding/test", json_body=settings)
    assert reply.status == 200, reply.body
    assert broker.password.encode() not in reply.body
    return {step["name"]: step["ok"] for step in reply.json()["steps"]}


def test_settings_are_tested_and_nothing_is_saved(broker: BrokerProcess, settings: dict[str, Any]) -> None:
    steps = tried(broker, {**settings, "password": broker.password, "queue": "orders"})
    assert steps == {"dns": True, "tcp": True, "login": True, "sync-queue": True, "target": True}
    assert tried(broker, {**settings, "password": "wrong"})["login"] is False
    ws = {**settings, "protocol": "ws", "port": broker.port, "password": broker.password}
    assert tried(broker, ws)["websocket"] is True
    assert broker.request("GET", "/api/v1/bridges/west").status == 404
    entries = broker.request("GET", "/api/v1/audit?action=tested").json()["items"]
    assert [entry["after"]["ok"] for entry in entries] == [True, False, True]


def test_the_stored_password_of_a_bridge_is_used_only_for_its_own_address(
    broker: BrokerProcess, settings: dict[str, Any]
) -> None:
    saved = {**settings, "password": broker.password, "desired": "paused"}
    assert broker.request("PUT", "/api/v1/bridges/west", json_body=saved).status == 201
    assert tried(broker, {**settings, "retry_s": 1})["login"] is True
    elsewhere = tried(broker, {**settings, "hostname": "localhost"})
    assert elsewhere["login"] is False, "another host does not get it"
    gone = broker.request("DELETE", "/api/v1/bridges/west", if_match="*")
    assert gone.status == 204, gone.body
