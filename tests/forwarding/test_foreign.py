"""RabbitMQ and ActiveMQ as remote brokers: nothing is lost through restarts of theirs and of ours.

They keep no marks, so what was on its way when a connection broke may come twice; each message has its
`mom-message-id`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterable, Iterator

import pytest

import mom_client
from benchmarks.servers import ActiveMQ, RabbitMQ, Server
from tests.support.account import Account, broker_may_end, client
from tests.support.chance import FIRST_SEED
from tests.support.java import QUICK
from tests.support.missing import missing
from tests.support.node_process import NodeProcess, nodes_in, quick
from tests.support.patience import patient
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process

#: messages over TCP; over WebSocket a tenth
FOREIGN = int(os.environ.get("FOREIGN", "1000"))
WINDOW = 500
#: options with which they start sooner, and Erlang does not look for work while there is none
QUICKER = {
    "JAVA_TOOL_OPTIONS": " ".join(QUICK),
    "ERL_FLAGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
}
#: how often connections may break: thrice on purpose, and again while theirs is not quite there
BREAKS = 6


#: they take seconds to start, so `make test` has one of them, which differs from commit to commit
_BOTH = [RabbitMQ, ActiveMQ]
_KINDS = _BOTH if "SOAK" in os.environ else [_BOTH[FIRST_SEED % 2]]


class Foreign:
    """A foreign broker on ports of its own, and the node at home."""

    host, user, password = "127.0.0.1", "guest", "guest"

    def __init__(self, server: Server, home: NodeProcess) -> None:
        self.server = server
        self.stomp_port = server.ports[0]
        self.home = home

    def restart(self) -> None:
        self.server.stop()
        self.server.start()


@pytest.fixture(scope="module", params=_KINDS, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Skip the test if it is not installed; in CI, fail."""
    kind: type[Server] = request.param
    if not kind.installed():
        missing(f"{kind.name} is not installed; `make bench-peers` does that")
    made = kind(tmp_path_factory.mktemp(kind.name.lower()))
    made.ports = tuple(reserve_ports(len(kind.ports)))
    with pytest.MonkeyPatch.context() as environment:
        for name, options in QUICKER.items():
            environment.setenv(name, options)
        made.start()
        yield made
        made.stop()


@pytest.fixture(scope="module")
def foreign(processes: None, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with nodes_in(tmp_path_factory.mktemp("nodes")) as nodes:
        home = nodes.node("home")
        made = Foreign(server, home)
        login = {"user": made.user, "password": made.password, "window": WINDOW}
        home.bridges["tcp"] = quick("tcp", port=made.stomp_port, **login)
        if isinstance(server, RabbitMQ):
            home.bridges["ws"] = quick("ws", port=server.ports[1], protocol="ws", path="/ws", **login)
        home.start()
        yield made


async def send_until(account: Account, total: int, home: NodeProcess) -> None:
    """Send, through all that happens to the node, until `total` were sent."""
    while account.sent < total:
        with broker_may_end():
            async with client(home) as sender:
                while account.sent < total:
                    number = account.sent
                    count = min(100 - number % 100, total - number)
                    colour = {"colour": f"no. {number // 100}"}
                    await account.send(count, sender, priority=number // 100 % 10, headers=colour)
        await asyncio.sleep(0)


def check_headers(number: int, message: mom_client.Message) -> None:
    """The sender's own headers and what a receiver has to know are there."""
    assert message.headers["priority"] == str(number // 100 % 10)
    assert message.headers["colour"] == f"no. {number // 100}"
    assert message.headers["persistent"] == "true"
    assert message.headers["mom-message-id"]


async def restart_all_while_sending(foreign: Foreign, accounts: Iterable[tuple[Account, int]]) -> None:
    """Theirs stops and starts while messages gather, ours is killed and then stopped while they are sent."""
    home = foreign.home

    def until(share: float) -> Awaitable[object]:
        return asyncio.gather(*(send_until(account, int(total * share), home) for account, total in accounts))

    await until(0.25)
    theirs = asyncio.create_task(asyncio.to_thread(foreign.restart))
    await until(0.5)
    await theirs
    for end, share in ((home.kill, 0.75), (home.terminate, 1.0)):
        await until(share - 0.125)
        sending = asyncio.ensure_future(until(share))
        await asyncio.sleep(0.01)
        end()
        home.start()
        await sending


@pytest.mark.slow
@pytest.mark.timeout(patient(120 + FOREIGN / 200))
async def test_nothing_is_lost_through_restarts_of_theirs_and_of_ours(foreign: Foreign) -> None:
    """Over TCP, and over WebSocket where there is one: Debian's ActiveMQ has none."""
    totals = {"tcp": FOREIGN, "ws": FOREIGN // 10}
    accounts = {name: Account(f"/bridge/{name}/by-{name}", padding=50) for name in foreign.home.bridges}
    await restart_all_while_sending(foreign, [(accounts[name], totals[name]) for name in accounts])
    for name, account in accounts.items():
        await account.drain(foreign, f"by-{name}", quiet_s=2.0, check=check_headers)
        arrived = set(account.arrived)
        repeats = len(account.arrived) - len(arrived)
        print(f"{name}: {len(account.promised)} promised, {len(account.arrived)} arrived, {repeats} repeats")
        assert account.sent == totals[name]
        assert account.promised <= arrived
        assert repeats <= BREAKS * WINDOW
        first = list(dict.fromkeys(account.arrived))
        assert first == sorted(first), "they came in another order"
