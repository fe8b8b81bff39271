"""Many messages at once from the command line, and why one of them is where it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.cli.base.failures import CONFLICT, FAILED, NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll

#: `manage.py` whose jobs take few messages
SMALL = Path(__file__).with_name("manage_small_jobs.py")


def fill(broker: BrokerProcess, queue: str, *bodies: str, **headers: str) -> list[str]:
    """Publish texts; their ids."""
    found = []
    for body in bodies:
        reply = broker.request(
            "POST", f"/api/v1/queues/{queue}/messages", body.encode(), content_type="text/plain", **headers
        )
        assert reply.status == 201
        found.append(reply.json()["id"])
    return found


def bodies(broker: BrokerProcess, queue: str) -> list[str]:
    page = broker.request("GET", f"/api/v1/queues/{queue}/messages?limit=500").json()
    return [item["body"] for item in page.get("items", [])]


def test_a_move_shows_what_it_would_do_and_asks(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "move.a", "1", "2", mom_header_tenant="acme")
    fill(broker, "move.a", "3")
    wish = ("move", "move.a", "--to", "move.b", "--where", "header.tenant:acme")
    dry = mom(*wish, "--dry-run")
    facts = dict(dry.rows)
    assert (dry.code, facts["matches"], facts["count"]) == (OK, "2", "2")
    assert facts["warnings"] == "move.b does not exist and will be created; it has no consumer"
    unconfirmed = mom(*wish)
    assert (unconfirmed.code, "add --yes" in unconfirmed.err) == (USAGE, True)
    assert "move 2 of 2 messages" in unconfirmed.err
    assert bodies(broker, "move.a") == ["1", "2", "3"]
    done = mom(*wish, "--yes")
    assert (done.code, dict(done.rows)["done"]) == (OK, "2")
    assert (bodies(broker, "move.a"), bodies(broker, "move.b")) == (["3"], ["1", "2"])


def test_a_move_is_undone(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "undo.a", "1", "2")
    job = dict(mom("move", "undo.a", "--to", "undo.b", "--yes").rows)
    assert mom("job", "undo", job["id"]).code == OK
    assert bodies(broker, "undo.a") == ["1", "2"]
    again = mom("job", "undo", job["id"])
    assert (again.code, "did it already" in again.err) == (CONFLICT, True)
    shown = mom("job", "show", job["id"], "-o", "json").json()
    assert (shown["state"], shown["can_undo"]) == ("done", False)
    listed = [row["op"] for row in mom("job", "ls", "-o", "json").json()[:2]]
    assert listed == ["undo", "move"]
    results = [json.loads(line) for line in mom("job", "results", job["id"]).out.splitlines()]
    assert [(line["i"], line["status"]) for line in results] == [(0, "done"), (1, "done")]


def test_a_slow_job_is_cancelled(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "slow", *map(str, range(100)))
    begun = mom("delete", "slow", "--rate", "1", "--yes", "--detach")
    job = dict(begun.rows)["id"]
    ended = mom("job", "cancel", job)
    assert (ended.code, dict(ended.rows)["state"]) == (OK, "cancelled")
    assert bodies(broker, "slow")


def test_dead_letters_are_retried(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "retry.a", "1", "2")
    taken = broker.request("POST", "/api/v1/queues/retry.a/receive", json_body={"max": 2}).json()["items"]
    nack = [{"receipt": item["receipt"], "dead": True, "reason": "no good"} for item in taken]
    broker.request("POST", "/api/v1/leases/settle", json_body={"nack": nack})
    dry = dict(mom("retry", "retry.a.dead", "--where", 'reason:"no good"', "--dry-run").rows)
    assert (dry["by_origin"], dry["by_reason"]) == ("retry.a 2", "no good 2")
    why = mom("queue", "why", taken[0]["id"])
    assert [row[0] for row in why.rows[1:]] == ["dead-letter", "no-consumer"]
    assert "queue retry.a.dead" in why.err
    assert mom("retry", "retry.a.dead", "--yes", "-q").code == OK
    assert bodies(broker, "retry.a") == ["1", "2"]


def test_a_retry_without_dead_letters_reports_that(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "alive", "1")
    refused = mom("retry", "alive", "--yes")
    assert (refused.code, "1 message refused" in refused.err) == (FAILED, True)
    assert bodies(broker, "alive") == ["1"]


def test_a_copy_stays(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "copy.a", "1", "2")
    assert mom("copy", "copy.a", "--to", "copy.b", "-n", "1", "--yes").code == OK
    assert (bodies(broker, "copy.a"), bodies(broker, "copy.b")) == (["1", "2"], ["1"])


def test_export_and_import(broker: BrokerProcess, mom: CommandLine, tmp_path: Path) -> None:
    fill(broker, "out", "one", "two", mom_header_x="y")
    file = tmp_path / "messages.ndjson"
    assert mom("export", "out", "-f", str(file)).code == OK
    assert [json.loads(line)["body"] for line in file.read_text().splitlines()] == ["one", "two"]
    piped = mom("export", "out", "--where", "two", "-q")
    assert [json.loads(line)["headers"] for line in piped.out.splitlines()] == [{"x": "y"}]
    imported = mom("import", "in", str(file))
    assert (imported.code, dict(imported.rows)["done"]) == (OK, "2")
    assert mom("import", "in", stdin=piped.out).code == OK
    assert bodies(broker, "in") == ["one", "two", "two"]
    poll(lambda: broker.request("GET", "/api/v1/stats").json()["node"]["job_bytes"] > 0, 30)
    missing = mom("import", "in", str(tmp_path / "nothing"))
    assert (missing.code, "No such file" in missing.err) == (FAILED, True)


def test_count(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "count", "red one", "green", "Red two")
    assert mom("count", "count").out == "3\n"
    assert mom("count", "count", "--where", "red").out == "2\n"
    wrong = mom("count", "count", "--where", "colour:red")
    assert (wrong.code, "there is no field 'colour'" in wrong.err) == (USAGE, True)
    assert mom("count", "nowhere").code == NOT_FOUND


def test_why_of_a_message_that_does_not_exist(broker: BrokerProcess, mom: CommandLine) -> None:
    (found,) = fill(broker, "why", "1")
    assert mom("queue", "why", found, "--queue", "why", "-o", "json").json()[0]["code"] == "no-consumer"
    gone = found[:-4] + "ffff"
    assert mom("queue", "why", "why", found, "-o", "json").json()[0]["code"] == "no-consumer"
    assert mom("queue", "why", gone).code == NOT_FOUND
    assert mom("queue", "why", gone, "--queue", "why").code == NOT_FOUND


def test_at_a_terminal_a_result_is_one_line_unless_a_format_is_requested(
    broker: BrokerProcess, mom: CommandLine
) -> None:
    fill(broker, "brief.a", "1", "2")
    shown = mom.at_terminal("move", "brief.a", "--to", "brief.b", "--yes").out.splitlines()
    told = re.fullmatch(r"moved 2 messages to brief\.b in [\d.]+ s; undo: mom job undo (j_\w+)", shown[-1])
    assert told, shown
    undone = mom.at_terminal("job", "undo", told[1]).out.splitlines()
    assert undone[-1].startswith("moved back 2 messages to brief.a in "), undone
    details = mom.at_terminal("copy", "brief.a", "--to", "brief.b", "--yes", "-o", "table").out
    assert re.search(r"^unsettled +0\s*$", details, re.MULTILINE)


def test_progress_is_one_line_that_is_redrawn(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "progress", *map(str, range(3)))
    told = mom.at_terminal("delete", "progress", "--rate", "1", "--yes", environment={"TERM": "xterm"}).out
    drawn = [line for line in told.splitlines() if " 1/3 " in line or " 2/3 " in line]
    assert drawn and "deleted 3 messages of progress" in told, told
    assert told.count("\n") < 15, told
    fill(broker, "progress", "1", "2")
    quiet = mom("delete", "progress", "--rate", "1", "--yes")
    assert " of 2  " not in quiet.err, "where every line is kept, there is one in ten seconds"


@pytest.fixture
def small(command_line: CommandLine, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose jobs take three messages, and not a million."""
    process = BrokerProcess(tmp_path / "small")
    process.command = (sys.executable, str(SMALL), "broker")
    process.start()
    command_line.about(process)
    yield process
    process.kill()


def test_more_messages_than_one_job_takes_need_several_jobs(
    small: BrokerProcess, command_line: CommandLine
) -> None:
    mom = command_line
    fill(small, "large", *map(str, range(8)))
    copied = mom("copy", "large", "--to", "copies", "--yes")
    assert (copied.code, "5 messages that match are left" in copied.err) == (FAILED, True), copied.err
    assert mom("copy", "large", "--to", "copies", "-n", "3", "--yes").code == OK
    exported = mom("export", "large")
    assert (exported.code, len(exported.out.splitlines())) == (FAILED, 3)
    detached = mom("move", "large", "--to", "moved", "--detach", "--yes")
    assert (detached.code, "5 messages that match are left" in detached.err) == (FAILED, True)
    moved = mom("move", "large", "--to", "moved", "--yes", "-q")
    assert moved.code == OK, moved.err
    assert (bodies(small, "large"), len(bodies(small, "moved"))) == ([], 8)
    assert mom("delete", "moved", "-n", "3", "--yes").code == OK
    assert mom("delete", "moved", "--yes").code == OK
    assert bodies(small, "moved") == []
