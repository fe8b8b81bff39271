"""Clients of other languages and other authors, unchanged: sends with receipts, six messages in one segment,
ACK, NACK, a transaction that is aborted and one that is committed. Each has a program in `clients`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.broker_process import BUILD_COMMANDS, BrokerProcess, StartBroker
from tests.support.missing import missing

CLIENTS = Path(__file__).parent / "clients"
#: what runs the programs, by their endings
NODE = str(BUILD_COMMANDS / "node")
RUN_BY = {".rb": "ruby", ".pl": "perl", ".php": "php", ".cjs": NODE, ".mjs": NODE, ".py": sys.executable}
#: clients that cannot be imported, or whose language is not there, are missing
ASKED = {
    "with_ruby.rb": ("ruby", "-e", "require 'stomp'"),
    "with_perl.pl": ("perl", "-MNet::Stomp", "-e1"),
    "with_php.php": ("php", "-r", "exit(class_exists('Stomp') ? 0 : 1);"),
}
PROGRAMS = sorted(path.name for path in CLIENTS.iterdir() if path.suffix in RUN_BY)


def runner(program: str) -> str:
    """The command that runs a program. Skips the test where that, or the client's library, is missing."""
    command = RUN_BY[Path(program).suffix]
    if shutil.which(command) is None:
        missing(f"{command} is not installed; `make test-tools` as root installs it")
    if program in ASKED and subprocess.run(ASKED[program], check=False, capture_output=True).returncode:
        missing(f"the library of {program} is not installed; `make test-tools` as root installs it")
    if program.endswith(".cjs") and not (CLIENTS / "node_modules").is_dir():
        missing("the clients of npm are not installed; `make test-tools` installs them")
    return command


def run(program: str, broker: BrokerProcess, port: int, *more: str) -> None:
    name = f"foreign.{uuid.uuid4().hex}"
    given = [broker.host, str(port), broker.user, broker.password, name, *more]
    ended = subprocess.run(
        [runner(program), str(CLIENTS / program), *given],
        env={**os.environ, "NODE_NO_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_over_tcp(broker: BrokerProcess, program: str) -> None:
    run(program, broker, broker.stomp_port)


def test_perl_sends_in_its_own_transactions_where_the_listener_confirms_each_frame(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("--transport-connector", "stomp?transactionReceipts=frame")
    run("with_perl.pl", broker, broker.stomp_port, "transactional")


def test_stompjs_2_over_websocket_in_text_messages(broker: BrokerProcess) -> None:
    run("with_stompjs_2.cjs", broker, broker.port, "/ws")
