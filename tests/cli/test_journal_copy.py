"""`mom journal copy`: a broker that moves between backends keeps its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, OK, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient
from tests.support.postgres import Postgres, postgres_server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


def leave_messages(mom: CommandLine, broker: BrokerProcess) -> None:
    """Waiting, redelivered, delayed and deduplicated messages, and one of a durable subscription."""
    with mom.popen("sub", "/topic/t", "--durable", "kept", "-n", "1") as leaving:
        assert leaving.stderr is not None and "listening" in leaving.stderr.readline()
        assert mom("pub", "/topic/t", "taken").code == OK
        leaving.communicate(timeout=patient(30))
    assert mom("pub", "/topic/t", "for the durable subscription").code == OK
    assert mom("pub", "q", "number {{n}}", "-n", "20", "-H", "tenant=acme").code == OK
    assert mom("get", "q", "-n", "3").code == OK
    leased = broker.request("POST", "/api/v1/queues/q/receive", json_body={"max": 2}).json()["items"]
    receipts = [{"receipt": item["receipt"]} for item in leased]
    assert broker.request("POST", "/api/v1/leases/settle", json_body={"nack": receipts}).status == 200
    assert mom("pub", "q", "once", "--dedup-id", "a").code == OK
    assert mom("pub", "q", "later", "--delay", "3600").code == OK


def state(mom: CommandLine) -> dict[str, Any]:
    """The messages of the queue in order, and what waits in the broker."""
    queue = json.loads(mom("queue", "show", "q", "-o", "json").out)
    shown = json.loads(mom("browse", "q", "-o", "json").out)
    fields = ("id", "body", "headers", "priority", "attempt", "redelivered", "time")
    return {
        "messages": [{name: message[name] for name in fields} for message in shown],
        "counts": {name: queue[name] for name in ("depth", "delayed", "unsettled")},
    }


def test_a_broker_moves_to_postgres_and_to_other_files_with_its_messages(
    start_broker: StartBroker, command_line: CommandLine, postgres: Postgres, tmp_path: Path
) -> None:
    broker = start_broker("--name", "B1")
    command_line.about(broker)
    leave_messages(command_line, broker)
    before = state(command_line)
    assert [message["attempt"] for message in before["messages"]] == [2, 2, *[1] * 16]
    assert before["counts"] == {"depth": 18, "delayed": 1, "unsettled": 0}
    assert broker.terminate() == OK

    done = command_line("journal", "copy", str(broker.data), postgres.url, "--name", "B1", "-o", "json")
    assert done.code == OK, done.err
    assert "Start the broker with the copy, and do not use the original again." in done.err
    (counts,) = done.json()
    assert counts["live_records"] == 20
    moved = start_broker("--name", "B1", data=broker.data, environment={"MOM_JOURNAL": postgres.url})
    assert f"the journal in {moved.data}/journal is not used, since the journal is shared" in moved.log
    command_line.about(moved)
    assert state(command_line) == before
    assert command_line("pub", "q", "again", "--dedup-id", "a").code == OK
    assert state(command_line) == before, "a repeat was stored"
    assert moved.terminate() == OK

    other = tmp_path / "other"
    done = command_line("journal", "copy", postgres.url, str(other), "--name", "B1")
    assert done.code == OK, done.err
    assert "notes of mirrors were not copied" in done.err
    back = start_broker("--name", "B1", data=other)
    command_line.about(back)
    assert state(command_line) == before
    received = command_line("sub", "/topic/t", "--durable", "kept", "-n", "1")
    assert "for the durable subscription" in received.out


def test_a_running_broker_is_not_copied(broker: BrokerProcess, command_line: CommandLine) -> None:
    refused = command_line("journal", "copy", str(broker.data), "other")
    assert refused.code == CONFLICT
    assert f"in use by process {broker.pid}" in refused.err
    assert "stop that broker first" in refused.err


def test_wrong_places_are_refused_with_what_to_write(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    data, store = str(tmp_path / "data"), f"file:{tmp_path}"
    same = command_line("journal", "copy", data, f"{data}/")
    assert (same.code, "FROM and TO are the same place" in same.err) == (USAGE, True)
    scheme = command_line("journal", "copy", "mysql://me:secret@host/db", data)
    assert (scheme.code, "postgresql://USER" in scheme.err, "secret" in scheme.err) == (USAGE, True, False)
    nothing = command_line("journal", "copy", data, store)
    assert nothing.code == NOT_FOUND
    assert "name the data directory of the broker (MOM_DATA)" in nothing.err
    never = command_line("journal", "copy", store, data, "--name", "never")
    assert (never.code, "the name of the broker with --name" in never.err) == (NOT_FOUND, True)
    gone = command_line("journal", "copy", "redis://127.0.0.1:1", data)
    assert gone.code == UNREACHABLE
    bad = command_line("journal", "copy", store, data, "--name", "../x")
    assert bad.code == USAGE, bad.err


def test_the_help_shows_how_a_broker_moves(command_line: CommandLine) -> None:
    shown = command_line("journal", "copy", "--help")
    assert shown.code == OK
    assert "mom journal copy data postgresql://mom@db/mom --name B1" in shown.out
