"""`mom up` is `manage.py broker`."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_app.cli.base.failures import FAILED, OK, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.polling import poll


def test_prints_what_a_newcomer_needs_and_stops_on_sigterm(command_line: CommandLine, tmp_path: Path) -> None:
    options = ("--port", "0", "--stomp-port", "0", "--data", str(tmp_path / "data"))
    with running(command_line, *options) as welcome:
        assert re.search(r"console +http://127\.0\.0\.1:\d+/console/", welcome)
        assert f"the password is in {tmp_path}/data/first_password" in welcome
        assert f"the link in {tmp_path}/data/login_link" in welcome
        assert re.search(
            r"send +curl -u admin -H '\S+ \S+' -d hello http://\S+/api/v1/queues/hello/messages", welcome
        )


@contextmanager
def running(command_line: CommandLine, *options: str, **more: Any) -> Iterator[str]:
    """The output of `mom up` when it is ready; it runs until the end of the block."""
    with command_line.popen("up", *options, **more) as broker:
        assert broker.stdout is not None
        welcome = ""
        for line in broker.stdout:
            welcome += line
            if "send" in line:
                break
        try:
            yield welcome
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=patient(30))
    assert broker.returncode == OK


@pytest.mark.timeout(200)  # two starts, each with all imports
def test_a_restart_is_the_same_process_with_the_same_ports_and_messages(
    command_line: CommandLine, tmp_path: Path
) -> None:
    broker = BrokerProcess(
        tmp_path / "data",
        *("--stomp-port", "0"),
        environment=command_line.environment,
        program=subprocess.Popen,
    )
    broker.command = (sys.executable, "-m", "broker_app.cli", "up")
    broker.start()
    try:
        pid, port = broker.pid, broker.stomp_port
        kept = broker.request("POST", "/api/v1/queues/a/messages", b"kept", content_type="text/plain")
        assert kept.status == 201
        before = broker.request("GET", "/api/v1/broker").json()
        assert (before["restart_refusal"], before["state"]) == ("", "OPERATING")
        broker.request("POST", "/api/v1/broker/quiesce", json_body={"name": "mom"})
        command_line.about(broker)
        assert command_line("broker", "restart", "mom", "--reason", "new kernel", "--yes").code == OK
        poll(lambda: broker.log.count("serves at") == 2)
        assert f"{port} (STOMP)" in broker.log.rpartition("serves at")[2]
        assert "broker mom: restarts: by admin: new kernel" in broker.log
        assert "stops: an operator restarts it" in broker.log
        after = broker.request("GET", "/api/v1/broker").json()
        assert (after["state"], after["started_at"] > before["started_at"]) == ("OPERATING", True)
        assert broker.pid == pid
        assert broker.request("GET", "/api/v1/queues/a").json()["depth"] == 1
        assert broker.terminate() == OK
    finally:
        broker.kill()


def test_commands_find_the_broker_by_the_data_directory(command_line: CommandLine, tmp_path: Path) -> None:
    """Another port than the usual one needs no address: as in the README."""
    with running(command_line, "--port", "0", "--stomp-port", "0", cwd=tmp_path):
        token = command_line("token", "create", "first", cwd=tmp_path).out.strip()
        by_folder = command_line("queue", "ls", cwd=tmp_path, environment={"MOM_TOKEN": token})
        assert by_folder.code == OK, by_folder.err
        named = {"MOM_TOKEN": token, "MOM_DATA": str(tmp_path / "data")}
        assert command_line("pub", "orders", "one", environment=named).code == OK
        other = command_line("queue", "ls", "--url", "http://127.0.0.1:1", cwd=tmp_path)
        assert other.code == UNREACHABLE


def test_an_option_that_is_none_is_compared_with_those_there_are(command_line: CommandLine) -> None:
    refused = command_line("up", "--prt", "3")
    assert (refused.code, "there is no option --prt; did you mean --port?" in refused.err) == (USAGE, True)


def test_a_port_in_use_leaves_nothing_behind_and_costs_no_password(
    command_line: CommandLine, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for option in ("--port", "--stomp-port"):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            others = ["--port", "0", "--stomp-port", "0"]
            refused = command_line("up", "--data", str(data), *others, option, port)
        assert refused.code == FAILED
        assert refused.err.startswith(f"mom: port {port} ({option}) is in use by process {os.getpid()} ("), (
            refused.err
        )
        assert not data.exists()
    with running(command_line, "--data", str(data), "--port", "0", "--stomp-port", "0") as welcome:
        assert "first_password" in welcome


@pytest.mark.parametrize("option", ["--help", "--prot"])
def test_help_and_mistakes_write_nothing(command_line: CommandLine, tmp_path: Path, option: str) -> None:
    command_line("up", option, cwd=tmp_path)
    assert not (tmp_path / "data").exists()


def test_opens_a_browser(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "browser").write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/page\n'
    )
    (tmp_path / "browser").chmod(0o755)
    options = ("--port", "0", "--stomp-port", "0", "--data", str(tmp_path / "data"), "--open")
    with command_line.popen("up", *options, environment={"BROWSER": f"{tmp_path}/browser %s"}) as broker:
        poll((tmp_path / "page").exists, deadline_s=30)
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=patient(15))
    assert re.match(r"http://127\.0\.0\.1:\d+/login/once/\S{20,}", (tmp_path / "page").read_text())


def test_help_lists_the_settings(command_line: CommandLine) -> None:
    shown = command_line("up", "--help")
    assert shown.code == OK
    assert all(
        option in shown.out for option in ("--stomp-port", "--admin-password-file", "MOM_DATA", "--open")
    )
    assert not any(option in shown.out for option in ("--settings", "--pythonpath", "--traceback"))


def test_wrong_settings(command_line: CommandLine) -> None:
    unknown = command_line("up", environment={"MOM_PROT": "1"})
    assert unknown.code == USAGE
    assert "did you mean MOM_PORT?" in unknown.err
    assert command_line("up", environment={"MOM_PORT": "many"}).err.startswith("mom: MOM_PORT: 'many' is not")
    assert command_line("up", "--prot", "1").code == USAGE


def test_a_wrong_option_is_named_as_it_was_given(command_line: CommandLine) -> None:
    wrong = command_line("up", "--max-body-bytes", "64XB")
    assert wrong.code == USAGE
    assert wrong.err.startswith("mom: --max-body-bytes: '64XB' is not a size")


def test_a_broker_that_cannot_start_reports_the_reason_in_one_line(
    command_line: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    free = ("--port", "0", "--stomp-port", "0")
    unusable = command_line("up", *free, "--data", str(tmp_path / "file" / "data"))
    assert unusable.code == FAILED
    assert unusable.err.startswith("mom: the data directory cannot be used: Not a directory\n")
