"""Rules, users, groups, brokers and bridges at the command line, against a real broker."""

from itertools import product
from pathlib import Path

import pytest

from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, OK, REFUSED, USAGE
from broker_app.cli.configuration.resource_types import (
    BRIDGES,
    BROKERS,
    CALLBACKS,
    GROUPS,
    RULES,
    USERS,
    ResourceType,
)
from broker_app.web.api.schemas import SECRETS, SPEC_FIELDS
from tests.cli.conftest import CommandLine
from tests.support.broker_process import StartBroker
from tests.support.samples import sample

CONDITION = "(/event/queue == storeAndForward:broker2/queue/queue1) && (/event/method == POST)"


def test_a_rule_is_created_shown_changed_and_removed(mom: CommandLine) -> None:
    made = mom(
        "rule",
        "create",
        "john-sends",
        f"conditions={CONDITION}",
        "users=john",
        "--reason",
        "für alle",
        "--yes",
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
    assert mom("rule", "rm", "john-sends").code == USAGE, "confirmation needs a terminal"
    assert mom("rule", "rm", "john-sends", "--yes").code == OK
    assert mom("rule", "rm", "john-sends", "--yes").code == NOT_FOUND
    assert mom("rule", "rm", "john-sends", "--yes", "--idempotent").code == OK


def test_a_rule_for_an_unknown_user_is_created_with_a_warning(mom: CommandLine) -> None:
    words = ("users=amdin", "groups=nogroup")
    warnings = ("there is no user amdin; did you mean admin?", "there is no group nogroup")
    for option in ("--dry-run", "--yes"):
        made = mom("rule", "create", "bad", *words, option)
        assert made.code == OK
        assert all(f"warning: {warning}" in made.err for warning in warnings)
    assert mom("rule", "rm", "bad", "--yes").code == OK


def test_a_setting_is_not_accepted_as_a_field_of_a_broker(mom: CommandLine) -> None:
    refused = mom("broker", "set", "mom", "max_attempts=3")
    assert (refused.code, "`mom config set max_attempts=…`" in refused.err) == (USAGE, True)


def test_an_invalid_condition_is_reported_with_its_position(mom: CommandLine) -> None:
    refused = mom("rule", "create", "wrong", "conditions=(/event/quue == a)")
    assert refused.code == USAGE
    assert "line 1 column 2" in refused.err and "/event/queue?" in refused.err


def test_a_user_is_created_with_a_password_from_a_file(mom: CommandLine, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n")
    assert mom("group", "create", "ops").code == OK
    made = mom("user", "create", "nora", "groups=ops", f"password=@{secret}", "-o", "json")
    assert made.code == OK, made.err
    assert made.json()["groups"] == ["ops"]
    assert "correct horse" not in made.out + made.err
    assert dict(mom("user", "set", "nora", "active=no").rows)["active"] == "no"


WRONG_ARGUMENTS = [
    (("user", "create", "otto", "password=secret-in-ps"), "password=@FILE"),
    (("user", "create", "otto", "password=@nowhere"), "cannot read nowhere"),
    (("user", "create", "otto", "active=perhaps"), "active"),
    (("user", "create", "otto", "colour=red"), "colour"),
    (("user", "set", "admin"), "no field to change"),
    (("user", "set", "admin", "administrator"), "FIELD=VALUE"),
]


@pytest.mark.parametrize(("words", "said"), sample(WRONG_ARGUMENTS, 2))
def test_wrong_arguments_change_nothing_and_name_the_fix(
    mom: CommandLine, words: tuple[str, ...], said: str
) -> None:
    refused = mom(*words)
    assert refused.code == USAGE
    assert said in refused.err
    assert "secret-in-ps" not in refused.err


WITH_FIELDS = list(product((RULES, USERS, BROKERS, BRIDGES, CALLBACKS), ("create", "set")))


@pytest.mark.parametrize(("kind", "action"), sample(WITH_FIELDS, 3))
def test_help_lists_the_fields_and_an_example(
    command_line: CommandLine, kind: ResourceType, action: str
) -> None:
    shown = command_line(kind.noun, action, "--help").out
    for field in kind.fields:
        assert f" {field} " in shown, (kind.noun, field)
    assert f"mom {kind.noun} create " in shown


def test_the_fields_of_the_commands_are_those_of_the_broker() -> None:
    for kind in (RULES, USERS, GROUPS, BROKERS, BRIDGES, CALLBACKS):
        stated = set(SPEC_FIELDS[kind.path[1:]]) | set(SECRETS.get(kind.path[1:], {}))
        assert set(kind.fields) == stated, kind.noun


def test_a_mistyped_name_is_answered_with_the_nearest(mom: CommandLine) -> None:
    assert mom("rule", "create", "billing", "--yes").code == OK
    for words in (("show", "biling"), ("set", "biling", "effect=deny"), ("rm", "biling", "--yes")):
        refused = mom("rule", *words)
        assert (refused.code, "did you mean billing?" in refused.err) == (NOT_FOUND, True)
    wrong = mom("rule", "set", "billing", "efect=deny")
    assert (wrong.code, "did you mean effect?" in wrong.err) == (USAGE, True)


def test_a_resource_is_changed_in_an_editor(mom: CommandLine) -> None:
    assert mom("rule", "create", "edited", "comment=before", "--yes").code == OK
    same = mom("rule", "edit", "edited", environment={"EDITOR": "true"})
    assert (same.code, "nothing was changed" in same.err) == (OK, True)
    editor = {"EDITOR": "sed -i s/before/after/"}
    tried = mom("rule", "edit", "edited", "--dry-run", environment=editor)
    assert tried.rows[1:] == [["rules/edited/comment", "before", "after"]], tried.err
    assert mom("rule", "edit", "edited", environment=editor).code == USAGE, "confirmation needs a terminal"
    assert mom("rule", "edit", "edited", "--yes", environment=editor).code == OK
    assert dict(mom("rule", "show", "edited").rows)["comment"] == "after"
    broken = mom("rule", "edit", "edited", environment={"EDITOR": "sed -i s/{/[/"})
    assert (broken.code, "not JSON" in broken.err) == (USAGE, True)
    absent = mom("rule", "edit", "edited", environment={"EDITOR": "false"})
    assert (absent.code, "EDITOR" in absent.err) == (USAGE, True)


def test_brokers_and_bridges_are_defined(mom: CommandLine, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("bridge secret\n")
    made = mom("bridge", "create", "broker1", "hostname=localhost", "port=61614", f"password=@{secret}")
    assert made.code == OK, made.err
    assert "bridge secret" not in made.out + made.err
    assert dict(made.rows)["port"] == "61614"
    assert mom("bridge", "create", "a/b", "hostname=localhost").code != OK
    listed = next(row for row in mom("broker", "ls", "-o", "json").json() if row["name"] == "mom")
    assert (listed["origin"], listed["settings"]) == ("built-in", {}), "the one that answers is there"
    set_live = mom("broker", "set", "mom", 'settings={"credit": 50}', "-o", "json")
    assert set_live.code == OK, set_live.err
    assert set_live.json()["settings"] == {"credit": 50}
    assert mom("broker", "set", "mom", 'settings={"port": 1}').code == USAGE


def test_the_first_rule_shows_its_impact_and_asks(
    start_broker: StartBroker, command_line: CommandLine
) -> None:
    broker, mom = start_broker(), command_line
    mom.about(broker)
    secret = Path(mom.environment["HOME"], "password")
    secret.write_text("correct horse battery\n")
    assert mom("user", "create", "other", f"password=@{secret}").code == OK
    about_other = {"MOM_URL": broker.url.replace("//", "//other:correct%20horse%20battery@")}
    assert mom("pub", "orders", "one", environment=about_other).code == OK

    rule = ("rule", "create", "seller-sends", "conditions=/event/method == POST", "users=seller")
    unasked = mom(*rule)
    assert (unasked.code, "this is the first rule" in unasked.err) == (USAGE, True), unasked.err
    assert "denied: other send" in unasked.err
    assert mom.at_terminal(*rule, answer="n\n").code == REFUSED
    assert mom("rule", "ls", "-o", "json").json() == []
    assert mom.at_terminal(*rule, answer="y\n").code == OK
    second = mom("rule", "create", "nobody-manages", "conditions=/event/method == MANAGE", "effect=deny")
    assert second.code == OK, "it takes nothing away from anybody"

    assert mom("pub", "orders", "two", environment=about_other).code == REFUSED
    denied = mom("rule", "denials", "-o", "json").json()[0]
    assert (denied["user"], denied["destination"]) == ("other", "queue:orders")
    assert len(mom("rule", "denials", "--user", "other", "--destination", "orders").rows) == 2
    assert len(mom("rule", "denials", "--destination", "/topic/orders").rows) == 1


def test_settings_of_the_running_broker_are_set_by_name(mom: CommandLine) -> None:
    done = mom("config", "set", "max_attempts=3", "max_bytes_per_second=1MiB", "-o", "json")
    assert done.code == OK, done.err
    assert done.json()["settings"].items() >= {"max_attempts": 3, "max_bytes_per_second": 1048576}.items()
    shown = {row["name"]: row["value"] for row in mom("config", "show", "-o", "json").json()}
    assert shown["max_attempts"] == 3
    tried = mom("config", "set", "max_attempts=4", "--dry-run")
    assert tried.rows[1:] == [["brokers/mom/settings/max_attempts", "3", "4"]], tried.err
    back = mom("config", "set", "max_attempts=", "max_bytes_per_second=", "-o", "json")
    assert "max_attempts" not in back.json()["settings"]
    for wrong, said in (
        ("max_atempts=3", "did you mean max_attempts?"),
        ("max_attempts=many", "must be a number"),
    ):
        refused = mom("config", "set", wrong)
        assert (refused.code, said in refused.err) == (USAGE, True), refused.err


def test_a_resource_of_a_file_is_refused_before_an_editor_opens(
    start_broker: StartBroker, command_line: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "zero.config"
    file.write_text('/config/mom/groups/ops = {}\n/config/mom/users/john = {"groups": ["ops"]}\n')
    command_line.about(start_broker("--config-file", str(file)))
    opened = tmp_path / "opened"
    refused = command_line("user", "edit", "john", environment={"EDITOR": f"touch {opened} #"})
    assert (refused.code, "zero.config:2" in refused.err) == (CONFLICT, True), refused.err
    assert not opened.exists()
    command_line.environment.pop("EDITOR", None)
    command_line.environment.pop("VISUAL", None)
    unattended = command_line("user", "edit", "admin")
    assert (unattended.code, "needs a terminal" in unattended.err) == (USAGE, True), unattended.err
