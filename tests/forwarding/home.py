"""A broker at home with its connections in a file of their own, and its bridges as seen from outside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

import mom_client
from mom_client.storeandforward import Forwarded
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

PASSWORD = "correct horse battery"
#: what tests say of bridges, which are in a hurry
QUICK: dict[str, Any] = {"retry_s": 0.3, "scan_s": 1, "stalled_s": 5}
BOTH_LINES = """
@include "brokers.config"
/config/messaging/broker/configFile = "config/brokers.config"
"""


class HasProcess(Protocol):
    """The process whose connections are checked."""

    @property
    def pid(self) -> int: ...


def connection(name: str, port: int, user: str = "broker1", password: str = PASSWORD, **said: Any) -> str:
    """The line of a file that configures a bridge to this machine."""
    credentials = {"user": user, "password": password}
    value = {"hostname": "127.0.0.1", "port": port, "bridgeCredentials": credentials, **QUICK, **said}
    return f"/config/connection/messaging/{name} = {json.dumps(value)}\n"


def client(broker: BrokerProcess, user: str, **options: Any) -> mom_client.Client:
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    password = BrokerProcess.password if user == BrokerProcess.user else PASSWORD
    return mom_client.connect(address, login=user, passcode=password, reconnect=False, **options)


def add_users(broker: BrokerProcess, *names: str) -> None:
    for name in names:
        made = broker.request("PUT", f"/api/v1/users/{name}", json_body={"password": PASSWORD})
        assert made.status == 201, made.body


def set_password(broker: BrokerProcess, user: str, password: str) -> None:
    said = {"password": password}
    changed = broker.request("PUT", f"/api/v1/users/{user}", json_body=said, if_match="*")
    assert changed.status == 200, changed.body


def source(bridge: str, queue: str) -> str:
    return Forwarded(bridge, queue).address


def depth(broker: BrokerProcess, queue: str) -> int:
    """Messages in a queue, those that are on their way to consumers too; 0 where there is none."""
    found = broker.request("GET", f"/api/v1/queues?queue={queue}")
    assert found.status in (200, 404), found.body
    facts = found.json()
    return int(facts["depth"] + facts["unsettled"]) if found.status == 200 else 0


def sockets(broker: HasProcess, port: int) -> set[tuple[int, int]]:
    """The open connections of a broker's process to a port: (local port, inode)."""
    inodes = set()
    for descriptor in Path(f"/proc/{broker.pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(descriptor))
        except FileNotFoundError:
            continue  # it was closed meanwhile
    found = set()
    for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]:
        (
            _,
            local,
            remote,
            state,
            *_,
        ) = line.split()[:4]
        inode = int(line.split()[9])
        if state == "01" and int(remote.split(":")[1], 16) == port and f"socket:[{inode}]" in inodes:
            found.add((int(local.split(":")[1], 16), inode))
    return found


class Home:
    """`broker` follows `zero.config` and `brokers.config` in `folder`."""

    def __init__(self, folder: Path, start_broker: StartBroker, main: str = "", *options: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "zero.config").write_text('/config/messaging/broker/name = "home"\n' + main + BOTH_LINES)
        self.save("")
        self.broker = start_broker("--config-file", str(folder / "zero.config"), *options)

    def save(self, text: str) -> None:
        """Put a new file of connections in the place of the former one."""
        new = self.folder / "brokers.new"
        new.write_text(text)
        new.replace(self.folder / "brokers.config")

    def change(self, text: str) -> dict[str, Any]:
        """Save, and wait until the broker has read it; what came of it."""
        before = len(self.reloads())
        self.save(text)
        poll(lambda: len(self.reloads()) > before)
        return self.reloads()[0]

    def reloads(self) -> list[dict[str, Any]]:
        """The readings of the files, the newest first."""
        reloads: list[dict[str, Any]] = self.broker.request("GET", "/api/v1/config/files").json()["reloads"]
        return reloads

    def status(self, bridge: str) -> dict[str, Any]:
        reply = self.broker.request("GET", f"/api/v1/bridges/{bridge}/status")
        assert reply.status == 200, reply.body
        found: dict[str, Any] = reply.json()
        return found

    def flow(self, bridge: str, queue: str) -> dict[str, Any]:
        """The status of the flow to a remote queue; empty if there is none yet."""
        return next((flow for flow in self.status(bridge)["flows"] if flow["queue"] == queue), {})
