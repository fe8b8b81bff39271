"""Clients of other makes, unchanged, with a list of brokers: the standby refuses them with the name of the
active broker, and after a takeover they find the next one and receive what is stored.

Each has a program in `clients/failover`, which begins with the standby. It acknowledges a message when that
comes again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.test_foreign_clients import CLIENTS, runner
from tests.interop.test_stompjs import LIBRARY
from tests.support.broker_process import BrokerProcess
from tests.support.children import Child
from tests.support.mirrors import mirrors_in, wait_until_serving
from tests.support.polling import poll
from tests.support.postgres import Postgres

pytestmark = pytest.mark.process

PROGRAMS = sorted(path.name for path in (CLIENTS / "failover").iterdir() if path.is_file())
#: browsers and Node do not show why a WebSocket was refused
WITHOUT_REASON = "with_stompjs.mjs"


class Follower:
    """A program with a queue of its own."""

    def __init__(self, program: str, main: BrokerProcess, mirror: BrokerProcess, log: Path) -> None:
        self.queue = program.partition(".")[0]
        is_websocket = program == WITHOUT_REASON
        ports = [one.port if is_websocket else one.stomp_port for one in (mirror, main)]
        #: what it prints when the standby has refused it
        self.refusal = f"ws://127.0.0.1:{mirror.port}" if is_websocket else f"127.0.0.1:{main.port} is active"
        self._mirror, self._log = mirror, log
        path = f"/api/v1/queues/{self.queue}/messages"
        assert main.request("POST", path, b"bolts", content_type="text/plain").status == 201
        command = [runner(program), str(CLIENTS / "failover" / program), ",".join(map(str, ports))]
        command += [main.user, main.password, self.queue, *([str(LIBRARY)] if is_websocket else [])]
        with log.open("wb") as output:
            environment = {**os.environ, "NODE_NO_WARNINGS": "1"}
            self.process = Child(command, stdout=output, stderr=output, env=environment)

    @property
    def log(self) -> str:
        # Some clients decode headers of no frame before they are connected.
        return re.sub(r"\\+c", ":", self._log.read_text())

    @property
    def left(self) -> int:
        """Messages in its queue at the broker that has taken over."""
        return int(self._mirror.request("GET", f"/api/v1/queues/{self.queue}").json()["depth"])

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def followers(
    processes: None, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Follower]]:
    """All programs that can run here, by name; they have followed one takeover."""
    folder = tmp_path_factory.mktemp("followers")
    with mirrors_in(folder, "foreign", postgres.url) as mirrors, ExitStack() as ended:
        main, mirror = mirrors.pair()
        made = {one: Follower(one, main, mirror, folder / one) for one in PROGRAMS if _runs_here(one)}
        for one in made.values():
            ended.callback(one.end)
        poll(lambda: all("received: bolts false" in one.log or one.ended for one in made.values()))
        main.kill()
        wait_until_serving(mirror)
        poll(lambda: all(one.ended for one in made.values()))
        yield made


def _runs_here(program: str) -> bool:
    """Return whether a program can run; the test of one that cannot says why."""
    try:
        runner(program)
    except (pytest.skip.Exception, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_client_with_a_list_of_brokers_follows_a_takeover(
    followers: dict[str, Follower], program: str
) -> None:
    runner(program)
    found = followers[program]
    before, received, after = found.log.partition("received: bolts false")
    assert (found.refusal in before, received != "") == (True, True), found.log
    assert "received: bolts true" in after, found.log
    assert (found.process.returncode, found.left) == (0, 0), found.log
