"""The worked examples of docs/callbacks.md run as they stand: a webhook, and a callback broker."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker_app.cli.base.failures import OK
from broker_app.web.resource_types.callbacks import DEFAULTS
from tests.cli.conftest import CommandLine
from tests.support.broker_process import ROOT, StartBroker
from tests.support.children import Child
from tests.support.polling import poll
from tests.support.ports import reserve_port

TEXT = (ROOT / "docs" / "callbacks.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```(sh|python)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.process
def test_the_example_runs(start_broker: StartBroker, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    port, mom = str(reserve_port()), CommandLine(tmp_path / "home")
    (_, up), (_, create), (_, receiver), (_, commands), *_ = SNIPPETS
    assert up.split()[:2] == ["mom", "up"]
    mom.about(start_broker(*up.split()[2:]))
    export, create = create.splitlines()
    assert export == "export MOM_TOKEN=$(mom token create first)"
    assert mom("token", "create", "first").code == OK
    made = mom(*shlex.split(create.replace("9000", port))[1:])
    assert made.code == OK, made.err
    program, log = tmp_path / "hook.py", tmp_path / "log"
    program.write_text(receiver.replace("9000", port))
    with (
        log.open("wb") as into,
        Child(
            [sys.executable, program, dict(made.rows)["secret"]], stdout=into, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            poll(lambda: _listens(int(port)))
            for line in commands.splitlines():
                found = mom(*shlex.split(line)[1:])
                assert found.code == OK, (line, found.err)
            poll(lambda: "message {'id': 7}" in log.read_text())
            assert "mom.test" in log.read_text()
        finally:
            process.kill()


@pytest.mark.process
def test_the_example_of_a_callback_broker_runs(start_broker: StartBroker, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    mom = CommandLine(tmp_path / "home")
    run, program, commands = _snippets_of("A callback broker in five minutes")
    remote = start_broker("--reflex-file", "CBdefault.cnf")
    assert "-c CBdefault.cnf" in run
    mom.about(remote)
    (tmp_path / "stock.py").write_text(program)
    environment = {
        **mom.environment,
        "MOM_AUTOCB": "1",
        "BROKER": f"stomp://127.0.0.1:{remote.stomp_port}",
        "PASSCODE": remote.password,
    }
    list_services, list_origins, stop = (shlex.split(line)[1:] for line in commands.splitlines())
    with Child(
        [sys.executable, tmp_path / "stock.py"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "through the callback broker: True\n"
            assert mom("pub", "stock", "one").code == OK
            assert process.stdout.readline() == "one\n"
            del mom.environment["MOM_URL"]
            assert "ws://127.0.0.1" in mom(*list_services).out
            (origin,) = mom(*list_origins, "-o", "json").json()
            assert (origin["state"], origin["services"], origin["fetched"]) == ("connected", 1, 1)
        finally:
            process.kill()
            assert mom(*stop).code == OK
    mom.about(remote)
    facts = dict(mom("queue", "show", "stock").rows)
    assert (facts["polls"], facts["fetched"]) == ("0", "1")


def test_every_setting_is_described() -> None:
    described = set(
        re.findall(r"`(\w+)`", "".join(line for line in TEXT.splitlines() if line.startswith("|")))
    )
    assert set(DEFAULTS) - {"comment"} <= described


def _snippets_of(section: str) -> list[str]:
    text = TEXT.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(?:sh|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
