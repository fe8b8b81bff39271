"""The first lines of a broker that has started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_app.config import Config
from broker_app.management.welcome import Welcome
from broker_app.net.server.listeners import Ports

CERTIFICATE = Path("broker.pem")


def lines(*, stomp: int | None = 61613, **settings: Any) -> str:
    config = Config(data=Path("data"), **settings)
    welcome = Welcome(config, Ports(8000, stomp, None), "secret", Path("first_password"), "once")
    return "\n".join(welcome.lines(at_terminal=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0"}, "without encryption: set --tls-cert"),
        ({"host": "0.0.0.0", "tls_cert": CERTIFICATE}, "--stomp-port -1 closes it"),
        ({"host": "0.0.0.0", "console_url": "https://mom.example.org"}, "--stomp-port -1 closes it"),
        ({"host": "0.0.0.0", "tls_cert": CERTIFICATE, "stomp": None}, ""),
        ({}, ""),
    ],
)
def test_what_other_machines_reach_without_encryption_is_said(settings: dict[str, Any], said: str) -> None:
    shown = lines(**settings)
    assert said in shown and ("warning" in shown) == bool(said)


def test_addresses_are_below_the_path_that_a_proxy_serves() -> None:
    shown = lines(console_url="http://127.0.0.1/broker")
    for page in ("console/", "login/once/once", "api/v1/queues/hello/messages"):
        assert f"http://127.0.0.1:8000/broker/{page}" in shown
