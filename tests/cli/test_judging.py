"""`mom rule test|explain` against a real broker."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker_app.cli.failures import NOT_FOUND, OK, REFUSED, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module", autouse=True)
def configured(broker: BrokerProcess) -> None:
    put("users/john", broker, {"password": "correct horse battery"})
    put("rules/bills", broker, {"conditions": "/event/queue == bills"})
    put("rules/john", broker, {"conditions": "/event/method == POST", "users": ["john"]})
    put("rules/last", broker, {})


def put(path: str, broker: BrokerProcess, said: dict[str, Any]) -> None:
    assert broker.request("PUT", f"/api/v1/{path}", json_body=said).status == 201


def test_a_right_is_tested_and_the_exit_code_tells_it(mom: CommandLine, tmp_path: Path) -> None:
    allowed = mom("rule", "test", "--user", "john", "--deed", "POST", "--queue", "orders")
    assert allowed.code == OK
    assert "rule 2 (john)" in allowed.out
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"name": "no", "effect": "deny"}]))
    denied = mom("rule", "test", "--user", "john", "--deed", "send", "-Q", "orders", "--rules", str(rules))
    assert denied.code == REFUSED
    assert "rule 1 (no)" in denied.out


def test_rules_are_explained_one_after_the_other(mom: CommandLine) -> None:
    found = mom("rule", "explain", "--user", "john", "--deed", "POST", "--topic", "news")
    assert found.code == OK
    assert "allowed: rule 2 (john)" in found.err
    assert found.rows[1:] == [
        ["1", "bills", "allow", "no", "there is no queue"],
        ["2", "john", "allow", "yes", "it matches: allow"],
    ]
    assert "1 rules behind it were not tried" in found.err


def test_wrong_use(mom: CommandLine, tmp_path: Path) -> None:
    assert mom("rule", "test", "--deed", "POST").code == USAGE
    assert mom("rule", "test", "--deed", "POST", "-Q", "a", "-T", "a").code == USAGE
    wrong = mom("rule", "test", "--deed", "sent", "-Q", "a")
    assert (wrong.code, "did you mean send?" in wrong.err) == (USAGE, True)
    assert mom("rule", "test", "--deed", "POST", "-Q", "a", "--user", "nobody").code == NOT_FOUND
    assert mom("rule", "test", "--deed", "POST", "-Q", "a", "--rules", str(tmp_path / "none")).code == USAGE
