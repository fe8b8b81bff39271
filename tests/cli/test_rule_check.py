"""`mom rule test|explain` against a real broker."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from broker_app.cli.base.failures import NOT_FOUND, OK, REFUSED, USAGE
from broker_app.cli.base.impact import sentences
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


def test_a_permission_is_tested_with_the_exit_code(mom: CommandLine, tmp_path: Path) -> None:
    allowed = mom("rule", "test", "--user", "john", "--action", "POST", "--queue", "orders")
    assert allowed.code == OK
    assert "rule 2 (john)" in allowed.out
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"name": "no", "effect": "deny"}]))
    denied = mom("rule", "test", "--user", "john", "--action", "send", "-Q", "orders", "--rules", str(rules))
    assert denied.code == REFUSED
    assert "rule 1 (no)" in denied.out


def test_rules_are_explained_one_after_the_other(mom: CommandLine) -> None:
    found = mom("rule", "explain", "--user", "john", "--action", "POST", "--topic", "news")
    assert found.code == OK
    assert "allowed: rule 2 (john)" in found.err
    assert found.rows[1:] == [
        ["1", "bills", "allow", "no", "there is no queue"],
        ["2", "john", "allow", "yes", "it matches: allow"],
    ]
    assert "rules after it, not evaluated: 1" in found.err


def test_wrong_use(mom: CommandLine, tmp_path: Path) -> None:
    assert mom("rule", "test", "--action", "POST").code == USAGE
    assert mom("rule", "test", "--action", "POST", "-Q", "a", "-T", "a").code == USAGE
    wrong = mom("rule", "test", "--action", "sent", "-Q", "a")
    assert (wrong.code, "did you mean send?" in wrong.err) == (USAGE, True)
    assert mom("rule", "test", "--action", "POST", "-Q", "a", "--user", "nobody").code == NOT_FOUND
    assert mom("rule", "test", "--action", "POST", "-Q", "a", "--rules", str(tmp_path / "none")).code == USAGE


def test_a_dry_run_shows_decisions_that_would_change(mom: CommandLine, broker: BrokerProcess) -> None:
    john = "Basic " + base64.b64encode(b"john:correct horse battery").decode()
    for _ in range(2):
        path = "/api/v1/queues/foretold/messages"
        assert broker.request("POST", path, b"x", authorization=john).status == 201
    found = mom("rule", "create", "closed", "effect=deny", "position=1", "users=john", "--dry-run")
    assert found.code == OK
    assert "  denied: john send queue:foretold, 2 times: rule 1 (closed)" in found.err
    assert "0 allowed" in found.err


def test_an_impact_is_reported_in_sentences() -> None:
    event = {
        "user": "john",
        "right": "send",
        "destination": "queue:a",
        "times": 3,
        "decided_by": "rule 1 (a)",
    }
    client = {"user": "mary", "address": None, "protocol": "local", "loses": [event]}
    told = list(
        sentences(
            {
                "decisions": {
                    "allowed_stay": 4, "denied_stay": 5, "become_denied": 36, "become_allowed": 3,
                    "left_out": 9,
                    "would_be_denied": [event] * 12, "would_be_allowed": [event],
                },
                "clients": [client] * 11, "clients_affected": 11, "clients_left_out": 2,
            }
        )
    )  # fmt: skip
    assert told[0] == (
        "of the decisions of the last 24 hours 4 stay allowed and 5 denied; 36 would be denied, 3 allowed"
    )
    assert told[1:11] == ["  denied: john send queue:a, 3 times: rule 1 (a)"] * 10
    assert told[11:13] == ["  denied: and more", "  allowed: john send queue:a, 3 times: rule 1 (a)"]
    assert told[13] == "connected: mary from local would lose send queue:a"
    assert told[-2:] == [
        "connected: 11 clients in total would lose a right",
        "9 decisions and 2 clients could not be checked in time",
    ]
