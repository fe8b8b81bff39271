"""The callback broker of a machine: started with the first program, one for all, until it is shut down."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mom_client import callback_launch
from tests.cli.conftest import CommandLine
from tests.support.authority import Authority
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.polling import poll

PROGRAM = """
import logging
import mom_client.callback_launch as launch
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
launch.REPORT_S = 0.1
broker = launch.find()
print(broker.pid if broker else "none", flush=True)
"""
#: a client that stays until its standard input ends
CLIENT = """
import asyncio, os, sys
import mom_client
from mom_client.callback_broker import read_file

async def main():
    login = {"login": "admin", "passcode": os.environ["PASSCODE"]}
    async with mom_client.connect(os.environ["BROKER"], service=sys.argv[1], **login) as mom:
        async with mom.subscribe(f"/queue/{sys.argv[1]}") as messages:
            message = await messages.get(30)
            await message.ack(confirm=True)
            print(mom.uses_callback_broker, message.text, read_file().pid, flush=True)
            await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
#: the service of each of two clients
SERVICES = ("first", "second")
#: seconds for which a callback broker must go on without programs
OUTLIVES_S = 5.0


class Machine:
    """Programs of one user, and the command line."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mom = CommandLine(home)
        self.environment = {**self.mom.environment, "MOM_AUTOCB": "1"}
        self.state = home / ".local" / "state" / "mom" / "REcallback"

    def program(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", *(arguments or (PROGRAM,))],
            env={**self.environment, **environment},
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def callback_brokers(self) -> list[int]:
        """The processes that were started as a callback broker of this user."""
        found = []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                command = (process / "cmdline").read_bytes().split(b"\0")
                variables = (process / "environ").read_bytes().split(b"\0")
                if b"REcallback" in command and b"HOME=%b" % str(self.home).encode() in variables:
                    found.append(int(process.name))
        return found

    def stop(self) -> int:
        """Shut the callback broker down; the exit code."""
        return self.mom("--context", "REcallback", "broker", "stop", "REcallback", "--yes").code


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.stop()


@pytest.mark.process
def test_two_programs_that_start_together_share_one_callback_broker_that_outlives_them(
    machine: Machine,
) -> None:
    programs = [machine.program() for _ in range(2)]
    (first, log), (second, other_log) = (program.communicate(timeout=patient(120)) for program in programs)
    first, second = first.strip(), second.strip()
    assert first == second != "none"
    starts, waits = sorted((log, other_log), key=len, reverse=True)
    assert "INFO starting the callback broker of this machine; waiting up to 60 s" in starts
    assert "INFO still waiting for the callback broker" in starts
    assert "INFO the callback broker listens at stomp://127.0.0.1:" in starts
    assert waits.splitlines() in (
        ["INFO another program is starting the callback broker; waiting until it listens"],
        [],  # it was there already
    )
    pid = int(first)
    assert machine.program(MOM_AUTOCB="0").communicate(timeout=patient(60))[0].strip() == first
    assert (machine.state / "programs.json").stat().st_mode & 0o077 == 0
    listed = machine.mom("--context", "REcallback", "queue", "ls")
    assert listed.code == 0, listed
    assert machine.stop() == 0
    poll(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid))
    assert not (machine.state / "programs.json").exists()
    assert machine.program(MOM_AUTOCB="").communicate(timeout=patient(60))[0].strip() == "none"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A remote broker with callbacks, whose certificate is of a private authority, and a message for each of
    two services."""
    authority = Authority(tmp_path)
    environment = {f"MOM_{name.upper()}": str(value) for name, value in authority.server().items()}
    options = ("--reflex-file", "CBdefault.cnf")
    remote = BrokerProcess(tmp_path / "remote", *options, environment=environment, tls=authority.trusted())
    remote.start()
    for name in SERVICES:
        sent = remote.request("POST", f"/api/v1/queues/{name}/messages", b"hello", content_type="text/plain")
        assert sent.status < 300, sent.body
    yield remote
    remote.kill()


@pytest.mark.process
def test_two_clients_that_start_together_use_one_callback_broker_that_outlives_them(
    machine: Machine, remote: BrokerProcess
) -> None:
    """OM-T06"""
    given = {
        "MOM_AUTOCB": "",
        "REAUTOCB": "1",
        "PASSCODE": remote.password,
        "BROKER": f"stomp+tls://127.0.0.1:{remote.stomp_tls_port}",
        "MOM_CA_FILE": "ca.pem",
    }
    clients = [machine.program(CLIENT, name, **given) for name in SERVICES]
    printed = [client.stdout.readline() for client in clients if client.stdout is not None]
    pids = machine.callback_brokers()
    assert len(pids) == 1, printed
    assert printed == [f"True hello {pids[0]}\n"] * 2, [client.communicate()[1] for client in clients]
    listed = machine.mom("--context", "REcallback", "service", "ls")
    assert all(name in listed.out for name in SERVICES)
    assert [client.communicate(timeout=patient(60))[1] for client in clients] == ["", ""]
    ended_at = time.monotonic()
    while time.monotonic() < ended_at + OUTLIVES_S:
        assert machine.callback_brokers() == pids
        time.sleep(0.1)
    assert machine.stop() == 0
    poll(lambda: not machine.callback_brokers())


def test_a_callback_broker_is_started_with_the_files_of_tls_and_no_other_settings_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("MOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    given = {
        "MOM_CA_FILE": "ca.pem",
        "MOM_CERT_FILE": "/etc/me.pem",
        "MOM_TOKEN": "mom_secret",
        "MOM_DATA": "/srv/own",
        "DJANGO_SETTINGS_MODULE": "own.settings",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = callback_launch._environment()
    assert {name: value for name, value in found.items() if name.startswith(("MOM_", "DJANGO_"))} == {
        "MOM_CA_FILE": str(tmp_path / "ca.pem"),
        "MOM_CERT_FILE": "/etc/me.pem",
    }


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
