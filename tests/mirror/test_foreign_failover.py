"""Clients of other makes, unchanged, with a list of brokers: the standby refuses them with the name of the
active broker, and after a takeover they find the next one and receive what is stored.

Each has a program in `clients/failover`, which begins with the standby. It acknowledges a message when that
comes again.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.test_foreign_clients import CLIENTS, runner
from tests.interop.test_stompjs import LIBRARY
from tests.support.children import Child
from tests.support.mirrors import Mirrors, wait_until_serving
from tests.support.polling import poll

pytestmark = pytest.mark.process

PROGRAMS = sorted(path.name for path in (CLIENTS / "failover").iterdir() if path.is_file())
#: browsers and Node do not show why a WebSocket was refused
WITHOUT_REASON = "with_stompjs.mjs"


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program, until the block ends."""
    with log.open("wb") as output:
        environment = {**os.environ, "NODE_NO_WARNINGS": "1"}
        program = Child(command, stdout=output, stderr=output, env=environment)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_client_with_a_list_of_brokers_follows_a_takeover(
    mirrors: Mirrors, tmp_path: Path, program: str
) -> None:
    main, mirror = mirrors.pair()
    is_websocket = program == WITHOUT_REASON
    ports = [one.port if is_websocket else one.stomp_port for one in (mirror, main)]
    command = [runner(program), str(CLIENTS / "failover" / program), ",".join(map(str, ports))]
    command += [main.user, main.password, "orders", *([str(LIBRARY)] if is_websocket else [])]
    log = tmp_path / "log"
    sent = main.request("POST", "/api/v1/queues/orders/messages", b"bolts", content_type="text/plain")
    assert sent.status == 201
    with running(command, log) as client:
        poll(lambda: "received: bolts false" in log.read_text() or client.poll() is not None)
        assert client.poll() is None, log.read_text()
        refusal = f"ws://127.0.0.1:{mirror.port}" if is_websocket else f"127.0.0.1:{main.port} is active"
        # Some clients decode headers of no frame before they are connected.
        assert refusal in re.sub(r"\\+c", ":", log.read_text())
        main.kill()
        wait_until_serving(mirror)
        poll(lambda: "received: bolts true" in log.read_text() or client.poll() is not None)
        poll(lambda: client.poll() is not None)
        assert client.returncode == 0, log.read_text()
    assert mirror.request("GET", "/api/v1/queues/orders").json()["depth"] == 0
