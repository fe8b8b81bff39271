"""The callback broker of a machine: started with the first program, one for all, until it is shut down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.support.polling import poll

PROGRAM = """
import logging
import mom_client.callback_launch as launch
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
launch.REPORT_S = 0.1
broker = launch.find()
print(broker.pid if broker else "none", flush=True)
"""


class Machine:
    """Programs of one user, and the command line."""

    def __init__(self, home: Path) -> None:
        self.mom = CommandLine(home)
        self.environment = {**self.mom.environment, "MOM_AUTOCB": "1"}
        self.state = home / ".local" / "state" / "mom" / "REcallback"

    def program(self, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> int:
        """Shut the callback broker down; the exit code."""
        return self.mom("--context", "REcallback", "broker", "stop", "REcallback", "--yes").code


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.stop()


def test_two_programs_that_start_together_share_one_callback_broker_that_outlives_them(
    machine: Machine,
) -> None:
    programs = [machine.program() for _ in range(2)]
    (first, log), (second, other_log) = (program.communicate(timeout=120) for program in programs)
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
    assert machine.program(MOM_AUTOCB="0").communicate(timeout=60)[0].strip() == first
    assert (machine.state / "programs.json").stat().st_mode & 0o077 == 0
    listed = machine.mom("--context", "REcallback", "queue", "ls")
    assert listed.code == 0, listed
    assert machine.stop() == 0
    poll(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid))
    assert not (machine.state / "programs.json").exists()
    assert machine.program(MOM_AUTOCB="").communicate(timeout=60)[0].strip() == "none"


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
