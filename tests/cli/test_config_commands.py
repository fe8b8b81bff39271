"""`mom config`: what holds, and trying a file with and without a broker."""

from pathlib import Path

from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess, StartBroker

RULE = '@include "security/messaging_rule.config" {"conditions": "/event/queue == %s", "users": ["john"]}\n'


def test_a_file_is_checked_without_a_broker(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "rules.config").write_text(RULE % "orders")
    file = tmp_path / "zero.config"
    file.write_text('@include "rules.config"\n/config/mom/credit = 7\n')
    good = command_line("config", "check", str(file), "--offline")
    assert (good.code, good.out) == (0, "")
    assert "is valid; settings: 1, rules: 1" in good.err
    file.write_text("/config/mom/credits = 7\n/config/mom/lease 8\n")
    bad = command_line("config", "check", str(file), "--offline")
    assert bad.code == 1
    assert [row[:3] for row in bad.rows] == [
        ["file", "line", "column"], ["zero.config", "1", "1"], ["zero.config", "2", "19"],
    ]  # fmt: skip


def test_documents_are_checked_without_a_broker_too(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text(
        '/config/connection/messaging/b = {"hostname": "h", "port": 0}\n'
        '@include "security/messaging_rule.config" {"conditions": "/event/queue = a"}\n'
        '/config/mom/destinations/queue/a = {"max_messages": -1}\n'
        "/config/mom/users/token = {}\n"
    )
    bad = command_line("config", "check", str(file), "--offline", "-o", "json")
    assert bad.code == 1
    assert {error["line"] for error in bad.json()} == {1, 2, 3, 4}


def test_without_a_token_no_broker_is_asked(
    command_line: CommandLine, broker: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "zero.config"
    file.write_text(RULE % "a")
    checked = command_line("config", "check", str(file), environment={"MOM_DATA": str(broker.data)})
    assert (checked.code, "changes are not known" in checked.err) == (0, True), checked.err


def test_a_check_needs_no_broker(command_line: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "zero.config"
    file.write_text(RULE % "a")
    checked = command_line("--url", "http://127.0.0.1:9", "config", "check", str(file))
    assert checked.code == 0
    assert "changes are not known: cannot reach the broker" in checked.err


def test_a_broker_reports_changes_and_effective_settings(
    command_line: CommandLine, start_broker: StartBroker, tmp_path: Path
) -> None:
    file, rules = tmp_path / "zero.config", tmp_path / "rules.config"
    file.write_text('@include "rules.config"\n/config/mom/credit = 7\n')
    rules.write_text(RULE % "orders")
    broker = start_broker("--config-file", str(file))
    command_line.about(broker)
    shown = {row[0]: row[1:] for row in command_line("config", "show", "--sources", "--non-default").rows}
    assert shown["credit"] == ["7", "", "zero.config:2", "100", "while it runs"]
    assert shown["port"][-1] == "needs a restart"
    assert shown["port"][2] == "MOM_PORT"
    assert shown["admin_password"][0] == "********"
    assert "lease" not in shown
    assert [row[:2] for row in command_line("config", "files").rows] == [
        ["name", "state"], ["zero.config", "read"], ["rules.config", "read"],
        ["security/messaging_rule.config", "missing"],
    ]  # fmt: skip

    other = tmp_path / "other"
    other.mkdir()
    (other / "zero.config").write_text('@include "rules.config"\n/config/mom/credit = 8\n')
    (other / "rules.config").write_text(RULE % "orders" + RULE % "invoices")
    checked = command_line("config", "check", str(other / "zero.config"))
    assert checked.code == 0, checked.err
    assert [(row[0], row[1]) for row in checked.rows] == [
        ("action", "kind"), ("added", "rules"), ("restart", "settings"),
    ]  # fmt: skip
    assert "changes at the broker: 2; unchanged: 1" in checked.err
    assert len(broker.request("GET", "/api/v1/rules").json()["items"]) == 1
