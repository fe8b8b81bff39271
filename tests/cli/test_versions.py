"""Versions, definitions and the audit log at the command line."""

import json
import signal
from pathlib import Path

import pytest
import yaml

from broker_app.cli.base.failures import NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient


def newest(mom: CommandLine) -> int:
    return int(mom("config", "history", "-n", "1", "-o", "id").out)


@pytest.fixture
def group(mom: CommandLine, request: pytest.FixtureRequest) -> str:
    """The name of a group that one test made."""
    name = f"g-{abs(hash(request.node.name)) % 10**8}"
    assert mom("group", "create", name, "--reason", "für einen Test").code == OK
    return name


def test_versions_are_listed_with_what_they_changed(mom: CommandLine, group: str) -> None:
    listed = mom("config", "history", "-n", "1")
    assert listed.rows[0] == ["version", "time", "author", "via", "changes", "reason"]
    assert listed.rows[1][2:] == ["admin", "api", f"groups/{group} created", "für einen Test"]
    (whole,) = mom("config", "history", "-n", "1", "-o", "json").json()
    assert whole["changes"] == [{"kind": "groups", "name": group, "action": "created"}]
    assert len(mom("config", "history", "--kind", "groups", "--name", group).rows) == 2
    assert mom("config", "history", "--kind", "group").code == USAGE


def test_versions_are_compared(mom: CommandLine, group: str) -> None:
    version = newest(mom)
    assert mom("config", "diff", str(version)).out == (
        f"--- (nothing)\n+++ groups/{group} (version {version})\n@@ -0,0 +1 @@\n+{{}}\n"
    )
    assert mom("config", "diff", str(version), str(version)).out == ""
    assert (
        mom("config", "diff", str(version), str(version - 1), "-o", "json").json()["changes"][0]["action"]
        == "removed"
    )
    assert mom("config", "diff", "0").code == USAGE
    assert mom("config", "diff", "0", "999999").code == NOT_FOUND


def test_a_rollback_is_previewed_confirmed_and_made(mom: CommandLine, group: str) -> None:
    version = newest(mom)
    dry = mom("config", "rollback", str(version - 1), "--dry-run")
    assert (dry.code, dry.rows) == (OK, [["action", "kind", "name"], ["removed", "groups", group]])
    assert mom("config", "rollback", str(version - 1)).code == USAGE, "confirmation needs a terminal"
    assert newest(mom) == version
    done = mom("config", "rollback", str(version - 1), "--yes", "--reason", "oops")
    assert done.code == OK, done.err
    assert f"this is version {version + 1}" in done.err
    assert mom("group", "show", group).code == NOT_FOUND
    assert mom("config", "history", "-n", "1").rows[1][-1] == f"back to version {version - 1}: oops"
    again = mom("config", "rollback", str(version - 1), "--yes")
    assert (again.code, "nothing to do" in again.err) == (OK, True)
    assert mom("config", "rollback", "999999", "--yes").code == NOT_FOUND


def test_one_resource_is_rolled_back(mom: CommandLine, group: str) -> None:
    version = newest(mom)
    mom("group", "rm", group, "--yes")
    mom("group", "create", f"{group}-b")
    assert mom("config", "rollback", str(version), "--only", f"groups/{group}", "--yes").code == OK
    assert mom("group", "show", group).code == mom("group", "show", f"{group}-b").code == OK
    assert mom("config", "rollback", str(version), "--only", group, "--yes").code == USAGE


def test_definitions_are_exported_planned_and_imported(mom: CommandLine, group: str, tmp_path: Path) -> None:
    written = mom("definitions", "export")
    document = yaml.safe_load(written.out)
    assert document["mom_definitions"] == 1 and group in document["groups"]
    assert mom("definitions", "export", "-o", "json").json() == document
    file = tmp_path / "definitions.yaml"
    file.write_text(written.out)
    same = mom("definitions", "import", str(file), "--prune")
    assert (same.code, same.rows) == (OK, [["action", "kind", "name"]])

    del document["groups"][group]
    document["rules"][f"r-{group}"] = {"users": ["jane"], "comment": "Größe"}
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    planned = mom("definitions", "plan", str(file), "--prune")
    assert sorted(planned.rows[1:]) == [["created", "rules", f"r-{group}"], ["removed", "groups", group]]
    assert "1 created, 0 changed, 1 removed" in planned.err
    assert mom("definitions", "plan", str(file), "-o", "json").json()["removed"] == 0
    assert mom("definitions", "import", str(file), "--prune", "--dry-run").code == OK
    assert mom("definitions", "import", str(file), "--prune").code == USAGE, "confirmation needs a terminal"
    assert mom("group", "show", group).code == OK
    done = mom("definitions", "import", str(file), "--prune", "--yes", "--reason", "as planned")
    assert done.code == OK, done.err
    assert mom("group", "show", group).code == NOT_FOUND
    assert mom("config", "history", "-n", "1").rows[1][-1] == "as planned"
    assert mom("rule", "rm", f"r-{group}", "--yes").code == OK


def test_invalid_definitions_are_refused(mom: CommandLine, tmp_path: Path) -> None:
    wrong = mom("definitions", "plan", "-", stdin="mom_definitions: 1\nrules: {r: {efect: deny}}")
    assert wrong.code == USAGE
    assert "/rules/r/efect" in wrong.err and "did you mean effect?" in wrong.err
    assert mom("definitions", "plan", str(tmp_path / "nowhere.yaml")).code == USAGE


def test_the_audit_log_is_listed_and_verified(mom: CommandLine, group: str) -> None:
    listed = mom("audit", "ls", "--kind", "groups", "--name", group)
    assert listed.rows[0] == ["number", "time", "author", "via", "action", "kind", "name", "reason"]
    assert [row[2:] for row in listed.rows[1:]] == [
        ["admin", "api", "created", "groups", group, "für einen Test"]
    ]
    verified = mom("audit", "verify", "-o", "json")
    assert (verified.code, verified.json()["valid"]) == (OK, True)
    assert mom("audit", "ls", "--from", "yesterday").code == USAGE


def test_the_audit_log_is_exported(mom: CommandLine, group: str, tmp_path: Path) -> None:
    exported = mom("audit", "export", "--kind", "groups", "--name", group)
    assert [json.loads(line)["name"] for line in exported.out.splitlines()] == [group]
    assert mom("audit", "export", str(tmp_path / "audit.ndjson")).code == OK
    numbers = [json.loads(line)["number"] for line in (tmp_path / "audit.ndjson").read_text().splitlines()]
    assert numbers == sorted(numbers) and len(numbers) > 1
    assert mom("audit", "export", str(tmp_path)).code == USAGE


def test_the_audit_log_is_followed(mom: CommandLine, broker: BrokerProcess, group: str) -> None:
    arguments = ("audit", "tail", "-n", "1", "--every", "0.1", "--kind", "queues", "-o", "ndjson")
    broker.request("POST", f"/api/v1/queues/{group}/messages", b"x")
    broker.request("DELETE", f"/api/v1/queues/{group}/messages?all=true")
    with mom.popen(*arguments) as following:
        assert following.stdout is not None
        seen = json.loads(following.stdout.readline())
        while seen["name"] != f"/queue/{group}":
            seen = json.loads(following.stdout.readline())
        assert (seen["action"], seen["author"]) == ("purged", "admin")
        broker.request("DELETE", f"/api/v1/queues/{group}/messages?all=true")
        assert json.loads(following.stdout.readline())["number"] > seen["number"]
        following.send_signal(signal.SIGINT)
        assert following.wait(patient(10)) == OK
