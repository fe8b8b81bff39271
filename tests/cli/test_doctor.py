"""Findings of `mom doctor`."""

import socket
from pathlib import Path

from broker_app.cli.base.failures import FAILED, OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


def states(rows: list[list[str]]) -> dict[str, str]:
    return {row[0]: row[1] for row in rows[1:]}


def test_a_healthy_broker_passes_all_checks(broker: BrokerProcess, mom: CommandLine) -> None:
    looked = mom("doctor", "--data", str(broker.data), environment={"MOM_STOMP_PORT": str(broker.stomp_port)})
    found = states(looked.rows)
    assert looked.code == OK, looked.err
    for check in ("Python", "data", "STOMP port", "web port", "broker", "login", "version", "clock"):
        assert found[check] == "ok", looked.out
    assert "refused" not in broker.log, "its questions are no trouble of a client"


def test_without_a_broker(command_line: CommandLine) -> None:
    looked = command_line("doctor", "--url", "http://127.0.0.1:1", "-o", "json")
    broker = next(row for row in looked.json() if row["check"] == "broker")
    assert broker["state"] == "warning"
    assert "mom up" in broker["fix"]


def test_port_of_another_program(command_line: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        looked = command_line("doctor", environment={"MOM_STOMP_PORT": str(port)})
    assert looked.code == FAILED
    assert states(looked.rows)["STOMP port"] == "error"
    assert "--stomp-port" in looked.out


def test_wrong_login(broker: BrokerProcess, command_line: CommandLine) -> None:
    given = {"MOM_URL": broker.url, "MOM_TOKEN": "mom_wrong", "MOM_STOMP_PORT": str(broker.stomp_port)}
    looked = command_line("doctor", "--data", str(broker.data), environment=given)
    assert looked.code == FAILED
    assert states(looked.rows)["login"] == "error"
    assert "mom token create" in looked.out


def test_open_data(command_line: CommandLine, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    looked = command_line("doctor", "--data", str(data), "--url", "http://127.0.0.1:1")
    assert states(looked.rows)["data"] == "warning"
    assert f"chmod 700 {data}" in looked.out


def test_a_file_that_others_can_write(command_line: CommandLine, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o646)
    looked = command_line("doctor", "-o", "json", environment={"MOM_SECRET_KEY_FILE": str(key)})
    found = next(row for row in looked.json() if row["check"] == "MOM_SECRET_KEY_FILE")
    assert looked.code == 1
    assert (found["state"], f"chmod o-w {key}" in found["fix"]) == ("error", True)
