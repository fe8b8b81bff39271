"""Getting, browsing and operating queues, against a real broker."""

import pytest

from broker_app.cli.base.failures import CONFLICT, EMPTY, NOT_FOUND, OK, REFUSED, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient


def fill(broker: BrokerProcess, queue: str, *bodies: bytes, content_type: str = "text/plain") -> None:
    for body in bodies:
        reply = broker.request("POST", f"/api/v1/queues/{queue}/messages", body, content_type=content_type)
        assert reply.status == 201


def depth(broker: BrokerProcess, queue: str) -> int:
    rows = broker.request("GET", "/api/v1/queues?limit=500").json()["items"]
    return next((row["depth"] + row["unsettled"] for row in rows if row["name"] == queue), 0)


def test_get_takes_and_acknowledges(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "get.ack", b"one", b"two\twith\na tab", b"three")
    got = mom("get", "get.ack", "-n", "2")
    assert got.code == OK
    assert got.rows[0] == ["id", "time", "attempt", "content_type", "body"]
    assert [row[2:] for row in got.rows[1:]] == [
        ["1", "text/plain", "one"],
        ["1", "text/plain", "two\\twith\\na tab"],
    ]
    assert depth(broker, "get.ack") == 1


def test_get_gives_back(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "get.nack", b"one")
    assert mom("get", "get.nack", "--nack", "-o", "json").json()[0]["redelivered"] is False
    again = mom("get", "get.nack", "-o", "json").json()
    assert [(item["body"], item["attempt"], item["redelivered"]) for item in again] == [("one", 2, True)]


def test_get_leaves_the_lease(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "get.leave", b"one")
    left = mom("get", "get.leave", "--leave", "--lease", "60", "--no-header")
    receipt = left.rows[0][0]
    assert mom("get", "get.leave").code == EMPTY
    assert broker.request("DELETE", f"/api/v1/leases/{receipt}").status == 204
    assert depth(broker, "get.leave") == 0


def test_get_of_no_queue_makes_none(mom: CommandLine) -> None:
    missing = mom("get", "get.mistyped")
    assert (missing.code, "there is no queue" in missing.err) == (NOT_FOUND, True), missing.err
    assert mom("queue", "show", "get.mistyped").code == NOT_FOUND
    assert mom("move", "get.mistyped", "--to", "x").code == NOT_FOUND


def test_a_mistyped_queue_is_answered_with_the_nearest_name(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "near.orders", b"one")
    for words in (["queue", "show"], ["browse"], ["queue", "purge", "--yes"]):
        missing = mom(*words, "near.ordrs")
        assert missing.code == NOT_FOUND
        assert "there is no queue" in missing.err and "; did you mean near.orders?" in missing.err, words


def test_get_of_an_empty_queue(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "get.emptied", b"one")
    assert mom("get", "get.emptied").code == OK
    assert mom("get", "get.emptied").code == EMPTY
    empty = mom("get", "get.empty", "--wait", "0.2")
    assert (empty.code, empty.out) == (EMPTY, "")
    assert "queue get.empty had no message for 0.2 s" in empty.err


def test_get_waits(broker: BrokerProcess, mom: CommandLine) -> None:
    with mom.popen("get", "get.wait", "--wait", "30", "-o", "id") as waiting:
        fill(broker, "get.wait", b"at last")
        out, _ = waiting.communicate(timeout=patient(30))
    assert waiting.returncode == OK
    assert len(out.strip()) == 36


def test_one_settling_only(mom: CommandLine) -> None:
    assert mom("get", "get.two", "--ack", "--nack").code == USAGE


def test_browse_changes_nothing(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "browse", b'{"a": 1}', content_type="application/json")
    fill(broker, "browse", b"\x00\xff", content_type="application/octet-stream")
    for _ in range(2):
        rows = mom("browse", "browse", "--no-header").rows
        assert [row[2:] for row in rows] == [
            ["ready", "1", "8", "application/json", '{"a": 1}'],
            ["ready", "1", "2", "application/octet-stream", "\\x00\\xff"],
        ]
    assert len(mom("browse", "browse", "-n", "1", "-o", "ndjson").out.splitlines()) == 1


def test_browse_of_no_queue(mom: CommandLine) -> None:
    missing = mom("browse", "nowhere")
    assert missing.code == NOT_FOUND
    assert "there is no queue 'nowhere' (not-found)" in missing.err
    assert "/api/v1/queues/nowhere/messages" in missing.err


def test_queue_list_and_show(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "list", b"1", b"2")
    row = next(row for row in mom("queue", "ls", "-o", "json").json() if row["name"] == "list")
    assert (row["depth"], row["unsettled"], row["consumers"]) == (2, 0, 0)
    assert "list" in mom("-o", "id", "queue", "ls").out.split()
    facts = dict(mom("queue", "show", "list").rows)
    assert facts["depth"] == "2"
    assert mom("queue", "show", "nowhere").code == NOT_FOUND


def test_purge(broker: BrokerProcess, mom: CommandLine) -> None:
    fill(broker, "purge", b"1", b"2")
    unconfirmed = mom("queue", "purge", "purge")
    assert unconfirmed.code == USAGE
    assert "add --yes" in unconfirmed.err
    assert "2 waiting messages" in mom("queue", "purge", "purge", "--dry-run").err
    assert depth(broker, "purge") == 2
    assert mom("queue", "purge", "purge", "--yes", "-q").err == ""
    assert depth(broker, "purge") == 0
    assert mom("queue", "purge", "nowhere", "--yes").code == NOT_FOUND


def test_bad_name_is_wrong_use(mom: CommandLine) -> None:
    assert mom("get", "x" * 300).code == USAGE


@pytest.mark.parametrize("token", ["", "mom_wrong"])
def test_without_the_right_token(token: str, broker: BrokerProcess, command_line: CommandLine) -> None:
    refused = command_line("queue", "ls", environment={"MOM_URL": broker.url, "MOM_TOKEN": token})
    assert refused.code == REFUSED
    assert "mom token create" in refused.err


def test_unreachable_broker(command_line: CommandLine) -> None:
    gone = command_line("queue", "ls", "--url", "http://127.0.0.1:1")
    assert gone.code == UNREACHABLE
    assert "Connection refused" in gone.err
    assert "mom up" in gone.err
    assert "Traceback" not in gone.err


def test_unknown_format_and_unknown_option(mom: CommandLine) -> None:
    assert mom("queue", "ls", "-o", "xml").code == USAGE
    assert mom("queue", "ls", "--colour").code == USAGE
    assert mom().code == USAGE


def test_a_queue_with_messages_is_removed_by_force_as_the_refusal_says(
    broker: BrokerProcess, mom: CommandLine
) -> None:
    """The refusal named no option."""
    fill(broker, "rm.full", b"one")
    refused = mom("queue", "rm", "rm.full", "--yes")
    assert refused.code == CONFLICT
    assert "1 waiting, 0 delayed, 0 unsettled" in refused.err
    assert "fix:   `mom queue purge rm.full`, or --force" in refused.err
    assert mom("queue", "rm", "rm.full", "--yes", "--force").code == OK
    assert mom("queue", "show", "rm.full").code == NOT_FOUND
