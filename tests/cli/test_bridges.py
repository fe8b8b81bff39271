"""`mom bridge` between two real brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.cli.base.failures import CONFLICT, FAILED, NOT_FOUND, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.samples import sample

COLUMNS = [
    "name", "state", "error", "health", "backlog", "oldest_s", "address", "accepted_rate", "sent_rate",
    "progress_at", "desired", "flow_count",
]  # fmt: skip


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    other = BrokerProcess(tmp_path_factory.mktemp("west") / "data", environment={"MOM_NAME": "west"})
    other.start()
    yield other
    other.kill()


@pytest.fixture
def bridged(mom: CommandLine, west: BrokerProcess, tmp_path: Path) -> CommandLine:
    """`mom` at a broker with the bridge `west` to another."""
    secret = tmp_path / "secret"
    secret.write_text(west.password)
    made = mom(
        "bridge", "create", "west", f"hostname={west.host}", f"port={west.stomp_port}", f"user={west.user}",
        f"password=@{secret}", "retry_s=0.3", "--idempotent",
    )  # fmt: skip
    assert made.code == OK, made.err
    return mom


def listed(mom: CommandLine, name: str) -> dict[str, str]:
    heads, *rows = mom("bridge", "ls").rows
    assert heads == COLUMNS
    return next(dict(zip(heads, row, strict=False)) for row in rows if row[0] == name)


def test_a_bridge_is_listed_shown_paused_and_resumed(bridged: CommandLine) -> None:
    mom = bridged
    assert mom("pub", "/bridge/west/orders", "one").code == OK
    poll(lambda: mom("bridge", "show", "west", "-o", "json").json()["accepted"] == 1, 30)
    shown = mom("bridge", "show", "west")
    facts, flows = shown.out.split("\n\n")
    assert "state\trunning" in facts and "delivery\texactly-once" in facts
    heads, flow = (line.split("\t") for line in flows.splitlines())
    told = dict(zip(heads, flow, strict=False))
    assert (told["queue"], told["sent"], told["accepted"], told["gap"]) == ("orders", "1", "1", "0")

    assert mom("bridge", "pause", "west", "--queue", "orders").code == OK
    assert mom("bridge", "pause", "west", "-Q", "bills", "-o", "json").json()["paused_queues"] == [
        "orders",
        "bills",
    ]
    mistyped = mom("bridge", "pause", "west", "-Q", "oders")
    assert "west has no flow to oders yet; did you mean orders?" in mistyped.err
    assert mom("bridge", "resume", "west", "-Q", "oders").code == OK
    assert mom("pub", "/bridge/west/orders", "two").code == OK
    assert listed(mom, "west")["backlog"] == "1"
    assert dict(mom("bridge", "resume", "west", "-Q", "orders").rows)["paused_queues"] == "bills"
    assert "is not paused" in mom("bridge", "resume", "west", "-Q", "orders").err
    poll(lambda: listed(mom, "west")["backlog"] == "0", 30)
    for action, desired in (("drain", "draining"), ("pause", "paused"), ("resume", "running")):
        assert dict(mom("bridge", action, "west").rows)["desired"] == desired
    assert mom("bridge", "retry", "west").code == OK
    events = mom("bridge", "logs", "west", "-n", "200").rows
    assert events[0] == ["at", "queue", "event", "code", "detail", "times"]
    assert events[1:] == sorted(events[1:], key=lambda event: event[0])
    assert len(mom("bridge", "logs", "west", "-n", "1").rows) == 2


def test_a_connection_is_tested_step_by_step(bridged: CommandLine) -> None:
    tested = bridged("bridge", "test", "west", "--queue", "orders")
    assert tested.code == OK, tested.err
    assert [(row[0], row[1]) for row in tested.rows] == [
        ("step", "answer"), ("dns", "yes"), ("tcp", "yes"), ("login", "yes"), ("sync-queue", "yes"),
        ("target", "yes"),
    ]  # fmt: skip
    assert bridged("bridge", "clone", "west", "astray", "port=1").code == OK
    failed = bridged("bridge", "test", "astray")
    assert failed.code == FAILED
    assert "tcp: no broker listens" in failed.err and "fix:   correct hostname and port" in failed.err
    assert bridged("bridge", "test", "astray", "-o", "json").json()["ok"] is False
    assert bridged("bridge", "rm", "astray", "--yes").code == OK


def test_events_are_followed(bridged: CommandLine) -> None:
    assert bridged("bridge", "clone", "west", "lost", "port=1").code == OK
    assert bridged("pub", "/bridge/lost/orders", "one").code == OK
    with bridged.popen("bridge", "logs", "lost", "--follow", "-n", "0", "--every", "0.1") as following:
        assert following.stdout is not None
        # Each failed attempt is an event: it happened again.
        told = [following.stdout.readline().split("\t") for _ in range(3)]
        following.terminate()
    assert told[-1][3] == "REFUSED", told
    assert bridged("bridge", "rm", "lost", "--yes").code == OK


def test_orphans_and_incoming_offsets_are_listed(mom: CommandLine, bridged: CommandLine) -> None:
    assert mom("pub", "/bridge/gone/orders", "one").code == OK
    orphan = ["gone", "orders", "1", "/queue/storeAndForward:gone/queue/orders"]
    assert orphan in mom("bridge", "orphans").rows
    assert "queues without a bridge: " in mom("bridge", "ls").err
    assert mom("bridge", "incoming").rows == [["sender", "source", "owner", "accepted", "count", "at"]]


def test_the_other_broker_lists_the_offset_and_deletes_it(
    bridged: CommandLine, command_line: CommandLine, broker: BrokerProcess, west: BrokerProcess
) -> None:
    assert bridged("pub", "/bridge/west/marked", "one").code == OK
    poll(lambda: west.request("GET", "/api/v1/queues/marked").status == 200, 30)
    command_line.about(west)
    rows = command_line("bridge", "incoming").rows[1:]
    (row,) = (row for row in rows if row[1].endswith("/marked"))
    assert row[2:5:2] == [west.user, "1"]
    forgets = ("bridge", "forget", *row[:2], "--yes")
    warned = command_line("bridge", "forget", *row[:2], "--dry-run")
    assert (warned.code, "may arrive twice" in warned.err) == (OK, True)
    refused = command_line(*forgets)
    assert (refused.code, "pause or remove its bridge" in refused.err) == (CONFLICT, True), refused.err
    command_line.about(broker)
    assert command_line("bridge", "pause", "west").code == OK
    command_line.about(west)
    hand_over = ("bridge", "hand-over", *row[:2], west.user)
    assert "handed over" not in command_line(*hand_over, "--dry-run").err
    poll(lambda: command_line(*hand_over).code == OK, 30)
    unknown = command_line(*hand_over[:-1], f"{west.user}x")
    assert (unknown.code, f"did you mean {west.user}?" in unknown.err) == (NOT_FOUND, True)
    poll(lambda: command_line(*forgets).code == OK, 30)
    assert row[:2] not in [row[:2] for row in command_line("bridge", "incoming").rows]
    assert command_line(*forgets).code == NOT_FOUND
    assert command_line(*forgets, "--idempotent").code == OK
    command_line.about(broker)
    assert command_line("bridge", "resume", "west").code == OK


WRONG_USES = [
    (("show", "wset"), NOT_FOUND, "did you mean west?"),
    (("pause", "wset"), NOT_FOUND, "did you mean west?"),
    (("test", "wset"), NOT_FOUND, "did you mean"),
    (("logs", "wset"), NOT_FOUND, "did you mean"),
    (("test", "west", "-Q", "q" * 80), USAGE, "at most 79"),
    (("pause", "west", "-Q", "q" * 80), USAGE, "79"),
    (("create", "b" * 21, "hostname=x"), USAGE, "20"),
    (("set", "west", "prt=1"), USAGE, "did you mean port?"),
]


@pytest.mark.parametrize(("words", "code", "said"), sample(WRONG_USES, 2))
def test_errors_name_the_fix(bridged: CommandLine, words: tuple[str, ...], code: int, said: str) -> None:
    refused = bridged("bridge", *words)
    assert (refused.code, said in refused.err) == (code, True), refused.err


def test_errors_of_a_flow_are_listed_and_explain_its_waiting_messages(
    bridged: CommandLine, west: BrokerProcess
) -> None:
    """The connection stands, and the queue there takes nothing."""
    mom = bridged
    assert west.request("PUT", "/api/v1/queues/shut", json_body={"paused": "producers"}).status in (200, 201)
    sent = mom("pub", "/bridge/west/shut", "one")
    assert sent.code == OK
    poll(lambda: "shut: " in listed(mom, "west")["error"], 30)
    source = "storeAndForward:west/queue/shut"
    (waiting,) = mom("browse", source, "-o", "json").json()
    reasons = mom("queue", "why", waiting["id"], "--queue", source).rows[1:]
    assert reasons[0][0] == "bridge" and "bridge west forwards it to shut" in reasons[0][1], reasons
    assert "no-consumer" not in [row[0] for row in reasons]
    assert mom("pub", "/bridge/gone/why", "one").code == OK
    orphan = "storeAndForward:gone/queue/why"
    (waiting,) = mom("browse", orphan, "-o", "json").json()
    assert "no connection is configured for gone" in mom("queue", "why", waiting["id"], "--queue", orphan).out
    assert west.request("DELETE", "/api/v1/queues/shut?force=true", if_match="*").status == 204
    mom("bridge", "retry", "west")
    poll(lambda: listed(mom, "west")["backlog"] == "0", 60)
