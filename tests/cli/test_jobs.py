"""Many messages at once from the command line, and why one of them is where it is."""

from __future__ import annotations

import json
from pathlib import Path

from broker_app.cli.failures import CONFLICT, FAILED, NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


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
    assert facts["warnings"] == "move.b does not exist and will be made; nobody consumes it"
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
    fill(broker, "slow", *map(str, range(5)))
    begun = mom("delete", "slow", "--rate", "0.1", "--yes", "--detach")
    job = dict(begun.rows)["id"]
    ended = mom("job", "cancel", job)
    assert (ended.code, dict(ended.rows)["state"]) == (OK, "cancelled")
    assert len(bodies(broker, "slow")) >= 4


def test_dead_letters_are_retried(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "retry.a", "1", "2")
    taken = broker.request("POST", "/api/v1/queues/retry.a/receive", json_body={"max": 2}).json()["items"]
    nack = [{"receipt": item["receipt"], "dead": True, "reason": "no good"} for item in taken]
    broker.request("POST", "/api/v1/leases/settle", json_body={"nack": nack})
    dry = dict(mom("retry", "retry.a.dead", "--where", 'reason:"no good"', "--dry-run").rows)
    assert (dry["by_origin"], dry["by_reason"]) == ("retry.a 2", "no good 2")
    why = mom("queue", "why", taken[0]["id"])
    assert [row[0] for row in why.rows[1:]] == ["no-consumer", "dead-letter"]
    assert "queue retry.a.dead" in why.err
    assert mom("retry", "retry.a.dead", "--yes", "-q").code == OK
    assert bodies(broker, "retry.a") == ["1", "2"]


def test_a_retry_of_what_never_died_says_so(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "alive", "1")
    refused = mom("retry", "alive", "--yes")
    assert (refused.code, "1 messages were refused" in refused.err) == (FAILED, True)
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
    missing = mom("import", "in", str(tmp_path / "nothing"))
    assert (missing.code, "No such file" in missing.err) == (FAILED, True)


def test_count(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "count", "red one", "green", "Red two")
    assert mom("count", "count").out == "3\n"
    assert mom("count", "count", "--where", "red").out == "2\n"
    wrong = mom("count", "count", "--where", "colour:red")
    assert (wrong.code, "there is no field 'colour'" in wrong.err) == (USAGE, True)
    assert mom("count", "nowhere").code == NOT_FOUND


def test_why_of_a_message_that_there_is_not(broker: BrokerProcess, mom: CommandLine) -> None:
    (found,) = fill(broker, "why", "1")
    assert mom("queue", "why", found, "--queue", "why", "-o", "json").json()[0]["code"] == "no-consumer"
    gone = found[:-4] + "ffff"
    assert mom("queue", "why", gone).code == NOT_FOUND
    assert mom("queue", "why", gone, "--queue", "why").code == NOT_FOUND
