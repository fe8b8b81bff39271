"""`mom up` is `manage.py broker`."""

import re
import signal
import socket
from pathlib import Path

from broker_app.cli.failures import FAILED, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.polling import poll


def test_prints_what_a_newcomer_needs_and_stops_on_sigterm(command_line: CommandLine, tmp_path: Path) -> None:
    options = ("--port", "0", "--stomp-port", "0", "--data", str(tmp_path / "data"))
    with command_line.popen("up", *options) as broker:
        assert broker.stdout is not None
        welcome = ""
        for line in broker.stdout:
            welcome += line
            if "send" in line:
                break
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=15)
    assert broker.returncode == OK
    assert re.search(r"console +http://127\.0\.0\.1:\d+/console/", welcome)
    assert re.search(r"log in +http://127\.0\.0\.1:\d+/login/once/\S{20,}", welcome)
    assert re.search(r"send +curl -u admin:\S+ -d hello http://\S+/api/v1/queues/hello/messages", welcome)


def test_opens_a_browser(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "browser").write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/page\n'
    )
    (tmp_path / "browser").chmod(0o755)
    options = ("--port", "0", "--stomp-port", "0", "--data", str(tmp_path / "data"), "--open")
    with command_line.popen("up", *options, environment={"BROWSER": f"{tmp_path}/browser %s"}) as broker:
        poll((tmp_path / "page").exists, deadline_s=30)
        broker.send_signal(signal.SIGTERM)
        broker.communicate(timeout=15)
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
    assert command_line("up", "--port", "many").code == USAGE
    assert command_line("up", "--prot", "1").code == USAGE


def test_a_broker_that_cannot_start_says_why_in_one_line(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unusable = command_line("up", "--data", str(tmp_path / "file" / "data"))
    assert unusable.code == FAILED
    assert unusable.err.startswith("mom: the data directory cannot be used: Not a directory\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = (
            "--port",
            str(taken.getsockname()[1]),
            "--stomp-port",
            "0",
            "--data",
            str(tmp_path / "data"),
        )
        ended = command_line("up", *options)
    assert ended.code == FAILED
    assert ended.err.splitlines()[-1].startswith("mom: the broker ended: [Errno 98]")
