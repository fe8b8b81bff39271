"""Descriptors of a real broker: as many as the system allows, and never all of them for connections."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys

import pytest

import mom_client
from tests.support.broker_process import StartBroker
from tests.support.polling import poll

ALLOWED = 256


@pytest.mark.process
def test_a_process_raises_its_limit_to_the_hard_limit() -> None:
    code = (
        "import resource; from broker_app.base.process import fd_limits\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))\n"
        "print(fd_limits.raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["512", "512", "512"]


def test_a_broker_raises_its_limit_to_the_hard_limit(start_broker: StartBroker) -> None:
    soft, hard = resource.prlimit(start_broker().pid, resource.RLIMIT_NOFILE)
    assert soft == hard


async def test_new_connections_leave_descriptors_to_files_and_existing_connections(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(environment={"MOM_CONNECT_TIMEOUT": "60"})
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    async with mom_client.connect(address, login=broker.user, passcode=broker.password) as client:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (ALLOWED, ALLOWED))
        strangers = [
            socket.create_connection((broker.host, port))
            for port in (broker.stomp_port, broker.port)
            for _ in range(ALLOWED)
        ]
        try:
            poll(lambda: "connections are refused" in broker.log)
            poll(lambda: len(os.listdir(f"/proc/{broker.pid}/fd")) < ALLOWED - 32)
            async with client.subscribe("/queue/q") as messages:
                await client.send("/queue/q", "hello")
                message = await messages.get(10)
                assert message.text == "hello"
        finally:
            for stranger in strangers:
                stranger.close()
        poll(lambda: broker.request("GET", "/api/v1/limits").status == 200)
