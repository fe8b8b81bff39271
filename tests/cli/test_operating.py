"""Watching a broker and its connections, against a real one."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.cli.base.failures import NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.polling import poll


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[tuple[socket.socket, str]]:
    """A STOMP connection that consumes the queue conn, and its id."""
    with socket.create_connection((broker.host, broker.stomp_port), timeout=10) as stomp:
        login = f"login:{broker.user}\npasscode:{broker.password}"
        stomp.sendall(f"CONNECT\naccept-version:1.2\nhost:/\n{login}\n\n\0".encode())
        connected = b""
        while b"\0" not in connected:
            connected += stomp.recv(4096)
        stomp.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/conn\nreceipt:r\n\n\0")
        receipt = b""
        while b"\0" not in receipt:
            receipt += stomp.recv(4096)
        yield stomp, connected.decode().partition("session:")[2].partition("\n")[0]


def test_connections_are_listed_shown_and_closed(
    mom: CommandLine, connection: tuple[socket.socket, str]
) -> None:
    stomp, id = connection
    listed = mom("conn", "ls")
    assert listed.rows[0][:4] == ["id", "user", "client", "transport"]
    assert [id, "admin", "", "tcp"] in [row[:4] for row in listed.rows]
    assert mom("conn", "ls", "--filter", id, "--sort=-unsettled", "--no-header").out.startswith(id)
    assert mom("conn", "ls", "--user", "nobody", "--no-header").out == ""
    shown = mom("conn", "show", id)
    assert f"id\t{id}" in shown.out
    assert "/queue/conn" in shown.out
    assert mom("conn", "show", id, "-o", "json").json()["consumers"][0]["destination"] == "/queue/conn"
    ended = mom("conn", "close", id, "--reason", "it is late")
    assert (ended.code, ended.err) == (OK, "closed\n")
    told = b""
    while piece := stomp.recv(4096):
        told += piece
    assert b"it is late" in told
    poll(lambda: id in mom("conn", "ls", "--closed").out)
    heads, *events = mom("conn", "events", id).rows
    assert heads[:2] == ["at", "event"]
    assert [event[1] for event in events] == ["closed", "disconnecting", "subscribed", "connected"]
    assert mom("conn", "drain", id, "--reason", "it is late").code == NOT_FOUND


def test_a_broker_is_quiesced_paused_and_shown(
    mom: CommandLine, broker: BrokerProcess, connection: tuple[socket.socket, str]
) -> None:
    assert "state\tOPERATING" in mom("broker", "query").out
    assert mom("broker", "quiesce", "mom").code == USAGE
    other = mom("broker", "quiesce", "b9", "--yes")
    assert (other.code, "this is broker mom" in other.err) == (USAGE, True)
    done = mom("broker", "quiesce", "mom", "--reason", "new disks", "--yes")
    assert (done.code, "state\tQUIESCE_STARTED" in done.out) == (OK, True)
    shown = mom("broker", "query").out
    assert "by admin: new disks" in shown
    assert "clients\t1 over STOMP" in shown
    refused = mom("pub", "orders", "one")
    assert "broker mom is quiesced (new disks) and takes no new clients" in refused.err
    assert broker.request("POST", "/api/v1/queues/a/messages", b"x", content_type="text/plain").status == 503
    assert mom("broker", "pause", "mom", "--yes").code == OK
    assert mom("broker", "unquiesce", "mom").code == OK
    assert "is paused and serves no clients" in mom("pub", "orders", "one").err
    assert mom("broker", "resume", "mom").code == OK
    assert mom("pub", "orders", "one").code == OK
    refused = mom("broker", "restart", "mom", "--yes")
    assert "it cannot start itself again" in refused.err
    assert mom("broker", "query", "-o", "json").json()["paused"] is None


def test_closing_needs_a_reason(mom: CommandLine) -> None:
    assert mom("conn", "close", "x").code == USAGE


def test_statistics_of_the_broker_and_of_a_queue(broker: BrokerProcess, mom: CommandLine) -> None:
    broker.request("POST", "/api/v1/queues/numbers/messages", b"x", content_type="text/plain")
    assert mom("stats", "-o", "json").json()["name"] == "mom"
    shown = mom("stats", "numbers", "-o", "json").json()
    assert (shown["name"], shown["depth"], shown["wait_p50_s"]) == ("/queue/numbers", 1, None)
    assert mom("stats", "none").code == NOT_FOUND
    broker.request("POST", "/api/v1/topics/numbers/messages", b"x", content_type="text/plain")
    assert mom("stats", "/topic/numbers", "-o", "json").json()["kind"] == "topic"


@pytest.mark.parametrize("command", [("stats", "--watch"), ("broker", "metrics", "--interval")])
def test_statistics_are_repeated_until_interrupted(mom: CommandLine, command: tuple[str, ...]) -> None:
    with mom.popen(*command, "0.1", "-o", "ndjson") as watching:
        assert watching.stdout is not None
        lines = [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(patient(10)) == OK
    assert all("in_rate" in line for line in lines)


def test_metrics_have_the_types_of_imqcmd(broker: BrokerProcess, mom: CommandLine) -> None:
    for body in (b"one", b"two"):
        broker.request("POST", "/api/v1/queues/measured/messages", body, content_type="text/plain")
    poll(lambda: mom("stats", "measured", "-o", "json").json()["published"] == 2)
    found = mom("queue", "metrics", "measured", "-m", "ttl", "-int", "0.1", "-msp", "2").rows
    assert (found[0][:3], [row[1:3] for row in found[1:]]) == (
        ["time", "published", "delivered"],
        [["2", "0"]] * 2,
    )
    rates = mom("queue", "metrics", "measured", "-m", "rts", "-msp", "1", "-o", "json").json()
    assert {"in_rate", "acked_rate"} < rates.keys()
    assert mom("queue", "metrics", "measured", "-m", "con", "-msp", "1").rows[1][1:3] == ["0", "0"]
    totals = mom("broker", "metrics", "-m", "ttl", "-msp", "1").rows
    assert int(totals[1][totals[0].index("published")]) >= 2
    assert mom("broker", "metrics", "-m", "cxn", "-msp", "1").rows[0][1:5] == [
        "connections",
        "stomp",
        "json",
        "rest",
    ]
    refused = mom("queue", "metrics", "measured", "-m", "dsk")
    assert (refused.code, "all are in one journal" in refused.err) == (USAGE, True)
    assert "use -m ttl, rts, cxn" in mom("broker", "metrics", "-m", "all").err


def test_top_lists_the_busiest_first_and_once_without_a_terminal(
    broker: BrokerProcess, mom: CommandLine
) -> None:
    for name, count in (("top.few", 1), ("top.many", 3)):
        for _ in range(count):
            broker.request("POST", f"/api/v1/queues/{name}/messages", b"x", content_type="text/plain")

    def busiest() -> list[list[str]]:
        return mom("top", "--sort", "depth", "-n", "2").rows

    poll(lambda: busiest()[1][0] == "/queue/top.many")  # figures are taken once a second
    rows = busiest()
    assert rows[0][0] == "name"
    assert len(rows) == 3
    names = [row[0] for row in mom("top", "--sort", "name", "--no-header").rows]
    assert names == sorted(names)
    assert mom("top", "--sort", "colour").code == USAGE
    busiest_first = {row["name"]: row["state"] for row in mom("top", "-o", "json").json()}
    assert busiest_first["/queue/top.many"] == "no-consumer"


def test_stop_ends_the_broker_that_commands_use(command_line: CommandLine, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        command_line.about(broker)
        stopped = command_line("stop", "--reason", "new disks", "--yes")
        assert (stopped.code, stopped.rows[0]) == (OK, ["name", "mom"])
        poll(lambda: not broker.running)
    finally:
        broker.kill()


def test_a_shutdown_is_planned_shown_called_off_and_carried_out(
    command_line: CommandLine, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        command_line.about(broker)
        planned = command_line("broker", "shutdown", "mom", "--time", "900", "--reason", "new disks", "--yes")
        assert (planned.code, [row[0] for row in planned.rows]) == (OK, ["name", "due"])
        shown = command_line("broker", "query").out
        left = r"^shutdown\tin (900|8\d\d) s, ordered \S+ by admin: new disks$"
        assert re.search(left, shown, re.MULTILINE), shown
        assert "is quiesced (new disks) and takes no new clients" in command_line("pub", "orders", "one").err
        assert command_line("broker", "unquiesce", "mom").code == OK
        assert "shutdown\tno" in command_line("broker", "query").out
        assert command_line("pub", "orders", "one").code == OK
        assert command_line("broker", "stop", "mom", "--time", "0.1", "--yes").code == OK
        poll(lambda: not broker.running)
    finally:
        broker.kill()


def test_status_is_a_few_lines_and_whole_as_json(broker: BrokerProcess, mom: CommandLine) -> None:
    broker.request("POST", "/api/v1/queues/status.shown/messages", b"x", content_type="text/plain")
    shown = mom("status")
    assert (shown.code, len(shown.rows)) == (OK, 7)
    facts = dict(shown.rows)
    assert facts["broker"].startswith("mom (") and facts["state"].startswith("OPERATING, for ")
    assert {"name", "node", "firing"} <= mom("status", "-o", "json").json().keys()


def test_top_at_a_terminal_has_totals_and_obeys_keys(broker: BrokerProcess, mom: CommandLine) -> None:
    broker.request("POST", "/api/v1/queues/keyed/messages", b"x", content_type="text/plain")
    poll(lambda: ["/queue/keyed"] in [row[:1] for row in mom("top").rows])
    shown = mom.at_terminal("top", "--every", "30s", answer="/keyed\rq")
    assert shown.code == OK, shown.out
    assert "all 1" in shown.out and "filter 'keyed': 1 of" in shown.out
    assert "no-consumer" in shown.out and "q quit" in shown.out
