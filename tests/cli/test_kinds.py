"""Rules, users, groups, brokers and bridges at the command line, against a real broker."""

from pathlib import Path

import pytest

from broker_app.cli.failures import CONFLICT, NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine

CONDITION = "(/event/queue == storeAndForward:broker2/queue/queue1) && (/event/method == POST)"


def test_a_rule_is_made_shown_changed_and_removed(mom: CommandLine) -> None:
    made = mom(
        "rule", "create", "john-sends", f"conditions={CONDITION}", "users=john", "--reason", "für alle"
    )
    assert made.code == OK, made.err
    assert dict(made.rows)["conditions"] == CONDITION
    again = mom("rule", "create", "john-sends")
    assert again.code == CONFLICT and "mom rule set" in again.err
    assert mom("rule", "create", "john-sends", "--idempotent").code == OK

    tried = mom("rule", "set", "john-sends", "users=john,mary", "--dry-run")
    assert tried.rows == [["what", "before", "after"], ["rules/john-sends/users", "john", "john,mary"]]
    assert dict(mom("rule", "show", "john-sends").rows)["users"] == "john"
    assert dict(mom("rule", "set", "john-sends", "users=john,mary").rows)["users"] == "john,mary"

    assert mom("rule", "rm", "john-sends", "--dry-run").code == OK
    assert ["john-sends"] in mom("rule", "ls", "-o", "id").rows
    assert mom("rule", "rm", "john-sends").code == USAGE, "nobody is there to confirm"
    assert mom("rule", "rm", "john-sends", "--yes").code == OK
    assert mom("rule", "rm", "john-sends", "--yes").code == NOT_FOUND
    assert mom("rule", "rm", "john-sends", "--yes", "--idempotent").code == OK


def test_a_condition_that_cannot_be_read_is_told_with_its_place(mom: CommandLine) -> None:
    refused = mom("rule", "create", "wrong", "conditions=(/event/quue == a)")
    assert refused.code == USAGE
    assert "line 1 column 2" in refused.err and "/event/queue?" in refused.err


def test_a_user_is_made_with_a_password_from_a_file(mom: CommandLine, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n")
    assert mom("group", "create", "ops").code == OK
    made = mom("user", "create", "nora", "groups=ops", f"password=@{secret}", "-o", "json")
    assert made.code == OK, made.err
    assert made.json()["groups"] == ["ops"]
    assert "correct horse" not in made.out + made.err
    assert dict(mom("user", "set", "nora", "active=no").rows)["active"] == "no"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("user", "create", "otto", "password=secret-in-ps"), "password=@FILE"),
        (("user", "create", "otto", "password=@nowhere"), "cannot read nowhere"),
        (("user", "create", "otto", "active=perhaps"), "active"),
        (("user", "create", "otto", "colour=red"), "colour"),
        (("user", "set", "admin"), "nothing to change"),
        (("user", "set", "admin", "administrator"), "FIELD=VALUE"),
    ],
)
def test_wrong_words_change_nothing_and_say_what_is_right(
    mom: CommandLine, words: tuple[str, ...], said: str
) -> None:
    refused = mom(*words)
    assert refused.code == USAGE
    assert said in refused.err
    assert "secret-in-ps" not in refused.err


def test_brokers_and_bridges_are_defined(mom: CommandLine, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("bridge secret\n")
    made = mom("bridge", "create", "broker1", "hostname=localhost", "port=61614", f"password=@{secret}")
    assert made.code == OK, made.err
    assert "bridge secret" not in made.out + made.err
    assert dict(made.rows)["port"] == "61614"
    assert mom("bridge", "create", "a/b", "hostname=localhost").code != OK
    set_live = mom("broker", "create", "mom", 'settings={"credit": 50}', "-o", "json")
    assert set_live.code == OK, set_live.err
    assert set_live.json()["settings"] == {"credit": 50}
    assert mom("broker", "set", "mom", 'settings={"port": 1}').code == USAGE
