"""A node in a process of its own that starts in a tenth of a second, without Django, console and database.

For tests that kill brokers by the dozen. Journal, engine, transports, REST API and bridges are the real
ones; the policy comes from the test.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

import mom_client
from broker_app.config import MIB
from broker_app.features.bridge.remote import Remote
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.masks.mask import Mask
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.net.policy.policy import Policy, UserFacts
from broker_app.rules.rule import Rule
from tests.support.broker_process import ROOT, BrokerFailed
from tests.support.children import NETWORK
from tests.support.forked import Forked
from tests.support.node_fork import Order
from tests.support.patience import patient
from tests.support.plain_http import NO_TLS
from tests.support.ports import reserve_ports

READY_S = patient(60.0)


class NodeProcess:
    """`nodes.node("home", …)` makes one. It has the same ports at each start."""

    user, password = "admin", "secret"

    def __init__(
        self, nodes: Nodes, name: str, bridges: Mapping[str, Remote], settings: dict[str, Any]
    ) -> None:
        self.name = name
        self.data = nodes.folder / name
        self.log_file = nodes.folder / f"{name}.log"
        self.host: str = settings.get("host", "127.0.0.1")
        self.port, self.stomp_port = reserve_ports(2)
        #: its bridges, as of the next start
        self.bridges = dict(bridges)
        #: users besides the administrator, as of the next start
        self.users: dict[str, UserFacts] = {}
        #: settings of its destinations by address, as of the next start
        self.destinations: dict[str, dict[str, Any]] = {}
        #: its callbacks, as of the next start
        self.callbacks: dict[str, Callback] = {}
        #: its masks, as of the next start
        self.masks: tuple[Mask, ...] = ()
        #: its rules, as of the next start
        self.rules: tuple[Rule, ...] = ()
        self.settings = settings
        self.starts = 0
        self._nodes = nodes
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        assert self._pid is not None, f"{self.name} does not run"
        return self._pid

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self) -> None:
        """Start, and wait until it serves. Raises BrokerFailed."""
        assert self._pid is None, f"{self.name} runs already"
        ports = {"port": self.port, "stomp_port": self.stomp_port}
        settings = {"name": self.name, "data": self.data, "segment_bytes": 4 * MIB, **self.settings, **ports}
        users = {self.user: UserFacts(self.user, self.password, admin=True), **self.users}
        rows = {address: Own(values, 1) for address, values in self.destinations.items()}
        policy = Policy(
            version=1,
            users=users,
            bridges=self.bridges,
            callbacks=self.callbacks,
            masks=self.masks,
            destinations=Destinations(rows),
        )
        order = Order(settings, policy, self.log_file, self.rules)
        try:
            self._pid, self.port, self.stomp_port = self._nodes.fork(order)
        except BrokerFailed as failed:
            raise BrokerFailed(f"{self.name}: {failed}\n{self.log[-10_000:]}") from None
        self.starts += 1

    def kill(self) -> None:
        """SIGKILL: the node ends between two instructions."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: the node ends in good order."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        pid, self._pid = self.pid, None
        with contextlib.suppress(ProcessLookupError):
            ended = os.pidfd_open(pid)
            try:
                os.kill(pid, number)
                if not select.select([ended], [], [], READY_S)[0]:
                    os.kill(pid, signal.SIGKILL)
                    raise BrokerFailed(f"{self.name} did not end:\n{self.log[-10_000:]}")
            finally:
                os.close(ended)

    @property
    def running(self) -> bool:
        return self._pid is not None

    def stomp(self, **options: Any) -> mom_client.Client:
        address = f"stomp://{self.host}:{self.stomp_port}"
        return mom_client.connect(address, login=self.user, passcode=self.password, **options)

    def rest(self, user: UserFacts | None = None) -> httpx.AsyncClient:
        """A client of its REST API, as the administrator or as one of `users`, whose name is the password."""
        login = httpx.BasicAuth(user.name, user.name) if user else httpx.BasicAuth(self.user, self.password)
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1", auth=login, verify=NO_TLS)

    def bridge_to(self, target: NodeProcess, name: str, *, port: int = 0, **said: Any) -> None:
        """Have, from the next start on, a bridge of that name to a node, which has started once; `port` is
        that of a proxy before it, and `said` are other fields of `Remote`."""
        login = {"user": target.user, "password": target.password}
        self.bridges[name] = quick(
            name, **{"hostname": target.host, "port": port or target.stomp_port, **login, **said}
        )


def quick(name: str, **said: Any) -> Remote:
    """A bridge to this machine that retries and looks often."""
    return Remote(name, **{"hostname": "127.0.0.1", "retry_s": 0.2, "scan_s": 5.0, **said})


class Nodes:
    """Makes nodes in `folder` and keeps the program that they are forked from; see `node_fork`. They are in a
    `network`, or in that of this thread."""

    def __init__(self, folder: Path, network: Path = NETWORK) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MOM_")}
        self._program = Forked(
            [sys.executable, "-m", "tests.support.node_fork"],
            network=network,
            cwd=ROOT,
            env=inherited,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.nodes: list[NodeProcess] = []

    def node(self, name: str, bridges: Mapping[str, Remote] | None = None, **settings: Any) -> NodeProcess:
        """A node that has not started yet, with fields of `Config`."""
        node = NodeProcess(self, name, bridges or {}, settings)
        self.nodes.append(node)
        return node

    def fork(self, order: Order) -> tuple[int, int, int]:
        """Process, web port and STOMP port of a node that serves. Raises BrokerFailed."""
        assert self._program.stdin is not None
        self._program.stdin.write(order.line())
        self._program.stdin.flush()
        deadline = time.monotonic() + READY_S
        pid = self._answer(deadline)[0]
        try:
            _, web, stomp = self._answer(deadline, pid)
        except BrokerFailed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        return pid, web, stomp

    def _answer(self, deadline: float, pid: int | None = None) -> list[int]:
        """The numbers of the next line; a process that ended prints nothing."""
        assert self._program.stdout is not None
        with contextlib.ExitStack() as cleanup:
            watched: list[Any] = [self._program.stdout]
            if pid is not None:
                try:
                    watched.append(os.pidfd_open(pid))
                except ProcessLookupError:
                    raise BrokerFailed("the node ended instead of starting") from None
                cleanup.callback(os.close, watched[1])
            ready = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise BrokerFailed(f"the node was not ready within {READY_S:g} s")
            if self._program.stdout not in ready:
                raise BrokerFailed("the node ended instead of starting")
            line = self._program.stdout.readline()
            if not line:
                raise BrokerFailed("the program that nodes are forked from has ended")
            return [int(number) for number in line.split()]

    def close(self) -> None:
        """End everything, nodes too."""
        for node in self.nodes:
            if node.running:
                node.kill()
        self._program.communicate()


@contextlib.contextmanager
def nodes_in(folder: Path, network: Path = NETWORK) -> Iterator[Nodes]:
    """Nodes for the length of a `with` block."""
    made = Nodes(folder, network)
    try:
        yield made
    finally:
        made.close()
