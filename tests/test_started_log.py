"""The log of a broker that was started: requests of strangers, each logged by a library, do not fill it."""

from __future__ import annotations

import socket
import time
from functools import partial

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

REQUESTS = 100


def lines_with(text: str, broker: BrokerProcess) -> list[str]:
    return [line for line in broker.log.splitlines() if text in line]


def test_a_hundred_requests_of_strangers_are_few_lines(start_broker: StartBroker) -> None:
    broker: BrokerProcess = start_broker(environment={"MOM_LOG_LEVEL": "debug"})
    began = time.monotonic()
    for number in range(REQUESTS):
        assert broker.request("GET", f"/nothing{number}", authorization="").status == 404
        with socket.create_connection((broker.host, broker.port)) as stranger:
            stranger.sendall(b"nothing\r\n\r\n")
            stranger.recv(1024)
    most = 2 + time.monotonic() - began  # the first, and one a second
    for text in ("Not Found: /nothing", "Invalid HTTP request"):
        poll(partial(lines_with, text, broker))
        lines = lines_with(text, broker)
        assert len(lines) <= most < REQUESTS, lines[:10]
