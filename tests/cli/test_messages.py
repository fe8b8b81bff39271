"""Sending and receiving by STOMP, against a real broker."""

import json
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from broker_app.cli.base.failures import FAILED, NOT_FOUND, OK, REFUSED, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient
from tests.support.samples import sample


def bodies(mom: CommandLine, queue: str, count: int) -> list[str]:
    return [item["body"] for item in mom("get", queue, "-n", str(count), "-o", "json").json()]


def test_pub_and_get(mom: CommandLine) -> None:
    sent = mom("pub", "pub.one", "grüße", "-H", "tenant=acme", "-H", "when={{now}}", "-t", "text/plain")
    assert sent.code == OK
    assert sent.err == "1 message to /queue/pub.one\n"
    item = mom("get", "pub.one", "-o", "json").json()[0]
    assert (item["body"], item["content_type"], item["headers"]["tenant"]) == ("grüße", "text/plain", "acme")
    assert item["headers"]["when"].endswith("Z")


def test_many_with_templates(mom: CommandLine) -> None:
    assert mom("pub", "pub.many", "no {{n}}", "-n", "3", "-q").err == ""
    assert bodies(mom, "pub.many", 10) == ["no 1", "no 2", "no 3"]


def test_rate(mom: CommandLine) -> None:
    began = time.monotonic()
    assert mom("pub", "pub.rate", "{{n}}", "-n", "3", "--rate", "2").code == OK
    assert time.monotonic() - began >= 1, "the third is due a second after the first"
    times = [item["time"] for item in mom("browse", "pub.rate", "-o", "json").json()]
    assert times == sorted(times)
    assert len(times) == 3


def test_bodies_from_elsewhere(mom: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text('{"a": 1}')
    assert mom("pub", "pub.from", f"@{tmp_path / 'body.json'}").code == OK
    assert mom("pub", "pub.from", "-", stdin="from stdin").code == OK
    assert mom("pub", "pub.from", "@@home").code == OK
    assert mom("pub", "pub.from", "{{braces}}", "--plain").code == OK
    assert mom("pub", "pub.from", "").code == OK
    assert bodies(mom, "pub.from", 10) == ['{"a": 1}', "from stdin", "@home", "{{braces}}", ""]


def test_the_standard_input_of_pub_is_the_message(mom: CommandLine) -> None:
    assert mom("pub", "pub.piped", stdin="hi\n").code == OK
    assert bodies(mom, "pub.piped", 2) == ["hi\n"]


def test_an_empty_standard_input_is_no_message(mom: CommandLine) -> None:
    refused = mom("pub", "pub.nothing", stdin="")
    assert (refused.code, "standard input is empty" in refused.err) == (USAGE, True)
    assert mom("queue", "show", "pub.nothing").code == NOT_FOUND


def test_pub_without_a_message_at_a_terminal_is_wrong_use(mom: CommandLine) -> None:
    asked = mom.at_terminal("pub", "pub.nothing")
    assert (asked.code, "there is no body" in asked.out) == (USAGE, True), asked.out
    assert mom("queue", "show", "pub.nothing").code == NOT_FOUND


OTHER_THINGS = [
    ("pub", "queue/orders", "x"),
    ("pub", "topic/orders", "x"),
    ("pub", "orders.>", "x"),
    ("pub", "orders.*.new", "x"),
    ("sub", "orders.>", "-n", "1"),
    ("get", "/topic/prices"),
    ("browse", "/topic/prices"),
    ("count", "/topic/prices"),
    ("import", "/topic/prices"),
    ("move", "/topic/prices", "--to", "x"),
    ("move", "x", "--to", "/topic/prices"),
    ("queue", "create", "topic/prices"),
    ("queue", "purge", "/topic/prices"),
    ("queue", "show", "/topic/prices"),
    ("topic", "create", "/queue/prices"),
]


@pytest.mark.parametrize("words", sample(OTHER_THINGS, 4), ids=" ".join)
def test_a_name_of_something_else_makes_no_queue(mom: CommandLine, words: tuple[str, ...]) -> None:
    before = mom("queue", "ls", "-o", "id").out
    refused = mom(*words)
    assert (refused.code, "fix:" in refused.err) == (USAGE, True), refused.err
    assert mom("queue", "ls", "-o", "id").out == before


def test_wrong_use_of_pub(mom: CommandLine) -> None:
    assert mom("pub", "q", "{{braces}}").code == USAGE
    assert mom("pub", "q", "x", "-H", "nothing").code == USAGE
    assert mom("pub", "q", "@/nowhere/at/all").code == FAILED
    refused = mom("pub", "/nonsense/q", "x")
    assert refused.code == USAGE
    assert "bad-destination" in refused.err


def test_the_confirmed_messages_of_many_are_counted(mom: CommandLine) -> None:
    assert mom("queue", "create", "pub.full", "max_messages=5", "limit_behavior=reject_newest").code == OK
    full = mom("pub", "pub.full", "x", "-n", "7")
    assert (full.code, full.err.splitlines()[0]) == (FAILED, "5 of 7 messages to /queue/pub.full")
    assert "queue-full" in full.err and "exception" not in full.err.lower()


def test_sub_listens_only_once_it_is_subscribed(mom: CommandLine) -> None:
    wrong = mom("sub", "sub.wrong", "--selector", "a ===", "-n", "1")
    assert wrong.code == USAGE
    assert "listening" not in wrong.err


def test_later_features_are_refused(mom: CommandLine) -> None:
    refused = mom("pub", "q", "x", "-H", "AMQ_SCHEDULED_CRON=0 * * * *")
    assert refused.code == FAILED
    assert "unsupported" in refused.err


def test_selectors(mom: CommandLine) -> None:
    for colour in ("red", "blue", "red"):
        mom("pub", "sub.select", colour, "-H", f"colour={colour}")
    assert (
        len(mom("browse", "sub.select", "--where", "selector:\"colour = 'red'\"", "-o", "json").json()) == 2
    )
    shown = mom("sub", "sub.select", "-n", "1", "--raw", "--selector", "colour = 'blue'", "--exclusive")
    assert shown.out == "blue\n"
    refused = mom("browse", "sub.select", "--where", 'selector:"colour ="')
    assert refused.code == USAGE
    assert "line 1 column 9" in refused.err


def test_sub_shows_messages(mom: CommandLine) -> None:
    mom("pub", "sub.show", "line {{n}}\n", "-n", "3")
    shown = mom("sub", "sub.show", "-n", "2")
    assert shown.code == OK
    assert [row[1:] for row in shown.rows] == [["/queue/sub.show", "1", f"line {n}\\n"] for n in (1, 2)]
    assert mom("sub", "sub.show", "-n", "1", "--raw", "--ack", "auto").out == "line 3\n\n"


COUNTS = list(product(("each", "auto"), (1, 2, 10, 25)))


@pytest.mark.parametrize(("ack", "count"), sample(COUNTS, 2))
def test_sub_receives_exactly_count_messages(mom: CommandLine, ack: str, count: int) -> None:
    """With one attempt, each message that is handed out and given back would be a dead letter."""
    queue = f"sub.exactly.{ack}.{count}"
    assert mom("queue", "create", queue, "max_attempts=1").code == OK
    assert mom("pub", queue, "{{n}}", "-n", str(count + 15)).code == OK
    taken = mom("sub", queue, "-n", str(count), "--raw", "--ack", ack)
    assert taken.out.split() == [str(n) for n in range(1, count + 1)]
    facts = mom("queue", "show", queue, "-o", "json").json()
    assert (facts["depth"], facts["unsettled"], facts["delivered"], facts["dead"]) == (15, 0, count, 0)


def test_sub_receives_no_more_than_its_commands_process(mom: CommandLine) -> None:
    mom("queue", "create", "sub.exactly.exec", "max_attempts=1")
    mom("pub", "sub.exactly.exec", "{{n}}", "-n", "3")
    assert mom("sub", "sub.exactly.exec", "-n", "1", "--exec", "true").code == OK
    facts = mom("queue", "show", "sub.exactly.exec", "-o", "json").json()
    assert (facts["depth"], facts["dead"]) == (2, 0)


def test_sub_of_a_topic(mom: CommandLine) -> None:
    with mom.popen("sub", "/topic/news.>", "-n", "1", "-o", "ndjson") as listening:
        assert listening.stderr is not None
        while listening.poll() is None:
            mom("pub", "/topic/news.sport", "goal")
        out, _ = listening.communicate(timeout=patient(30))
    message = json.loads(out.splitlines()[0])
    assert (message["destination"], message["body"]) == ("/topic/news.sport", "goal")
    assert message["headers"]["message-id"] == message["id"]


def test_sub_runs_a_command(mom: CommandLine) -> None:
    mom("pub", "sub.exec", "a b; $(c)")
    code = "import sys; print([sys.argv[1], sys.stdin.read()])"
    ran = mom("sub", "sub.exec", "-n", "1", "--exec", f'{sys.executable} -c "{code}" {{}}')
    assert ran.out == "['a b; $(c)', 'a b; $(c)']\n"


def test_message_of_a_failed_command_comes_back(mom: CommandLine) -> None:
    mom("pub", "sub.fail", "x")
    failed = mom("sub", "sub.fail", "-n", "2", "--exec", "false")
    assert failed.code == FAILED
    assert failed.err.count("false ended with 1") == 2 and "failed for 2 of 2 messages" in failed.err
    assert mom("get", "sub.fail", "-o", "json").json()[0]["attempt"] == 3


def test_command_that_cannot_run(mom: CommandLine) -> None:
    mom("pub", "sub.cannot", "x")
    for command in ("", "'", "/no/such/program"):
        failed = mom("sub", "sub.cannot", "-n", "1", "--exec", command)
        assert failed.code in (USAGE, FAILED)
        assert any(line.startswith("mom: --exec") for line in failed.err.splitlines())


def test_refused_and_unreachable(broker: BrokerProcess, command_line: CommandLine) -> None:
    refused = command_line("pub", "q", "x", environment={"MOM_URL": broker.url, "MOM_TOKEN": "mom_wrong"})
    assert refused.code == REFUSED
    assert "mom token create" in refused.err
    gone = command_line("pub", "q", "x", "--url", "stomp://127.0.0.1:1")
    assert gone.code == UNREACHABLE
    assert "Traceback" not in gone.err + refused.err


def test_a_stomp_address_has_no_rest_commands(mom: CommandLine, broker: BrokerProcess) -> None:
    password = broker.password.replace(" ", "%20")
    address = f"stomp://admin:{password}@127.0.0.1:{broker.stomp_port}"
    assert mom("pub", "tcp", "over tcp", "--url", address).code == OK
    assert mom("queue", "ls", "--url", address).code == USAGE
    assert bodies(mom, "tcp", 1) == ["over tcp"]


CLIENTS = ("1", "2")


@pytest.mark.parametrize("clients", sample(CLIENTS, 1))
def test_bench(clients: str, mom: CommandLine) -> None:
    sizes = ("--msgs", "1k", "--clients", clients)
    pub = mom("bench", "pub", "bench.q", *sizes, "--size", "100", "-o", "json").json()[0]
    assert (pub["messages"], pub["size"], pub["clients"]) == (1000, 100, int(clients))
    assert pub["rate"] > 0
    assert 0 < pub["p50_ms"] <= pub["p99_ms"] <= pub["max_ms"]
    sub = mom("bench", "sub", "bench.q", *sizes, "-o", "json").json()[0]
    assert sub["rate"] > 0
    assert sub["p50_ms"] is None
    e2e = mom("bench", "e2e", "bench.q", *sizes).rows
    assert e2e[0][0] == "workload"
    assert e2e[1][:4] == ["e2e", "1000", "256", clients]
    assert dict(mom("queue", "show", "bench.q").rows).get("depth", "0") == "0"


def test_wrong_use_of_bench(mom: CommandLine) -> None:
    assert mom("bench", "pub", "--msgs", "many").code == USAGE
    assert mom("bench", "e2e", "--size", "3").code == USAGE
    assert mom("bench", "pub", "/nonsense/q", "--msgs", "10").code == USAGE


def test_a_system_topic_needs_no_prefix(mom: CommandLine) -> None:
    heard = mom("sub", "$mom.stats", "-n", "1", "--raw")
    assert (heard.code, '"connections"' in heard.out) == (OK, True), heard.err
