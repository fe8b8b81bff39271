"""`mom pipeline run`, `ls`, `lag` and `stop` with a real broker and a real Spark."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.main import get_command

from broker_app.cli.base.failures import NOT_FOUND, OK, USAGE, Failure
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.output import Output
from broker_app.cli.pipelines import command_line as pipeline_command
from broker_app.cli.pipelines import run as pipeline_run
from broker_app.cli.pipelines import run_context as pipeline_surroundings
from mom_pipeline.errors import TEMPORARY
from tests.cli.conftest import CommandLine
from tests.pipeline.runs import BrokerApi, surroundings
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.java import QUICK, require_java
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.samples import sample

SPARK = ("--nice", "0", "--master", "local[1]")


def archived(root: Path) -> list[str]:
    """The bodies in an archive, in order."""
    files = f"{root}/message/v=1/*/*/*/*.parquet"
    if not any(root.glob("message/v=1/*/*/*/*.parquet")):
        return []
    sql = f"SELECT decode(body) FROM read_parquet('{files}', hive_partitioning = false) ORDER BY position"
    return [row[0] for row in duckdb.execute(sql).fetchall()]


def produce_and_consume(broker: BrokerProcess, first: int, count: int) -> list[str]:
    """Send messages and acknowledge them, so that only the cursor of the archive keeps them."""
    bodies = [f"order {number}" for number in range(first, first + count)]
    for body in bodies:
        path = "/api/v1/queues/orders/messages"
        assert broker.request("POST", path, body.encode(), content_type="text/plain").status == 201
    taken = broker.request("POST", "/api/v1/queues/orders/receive", json_body={"max": count, "ack": "auto"})
    assert taken.status == 200, taken.body
    return bodies


@pytest.mark.soak  # as tests/pipeline/test_runs.py says it of one process; here two start Java
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_archive_is_stopped_and_continued_and_has_each_message_once(
    command_line: CommandLine, start_broker: StartBroker, tmp_path: Path
) -> None:
    require_java()
    broker = start_broker()
    command_line.about(broker)
    command_line.environment["JDK_JAVA_OPTIONS"] = " ".join((*QUICK, "-XX:+UseSerialGC"))
    out = tmp_path / "archive"
    command = ("pipeline", "run", "archive", "--out", str(out), "--messages", *SPARK, "-o", "json")
    sent = produce_and_consume(broker, 0, 20)
    with command_line.popen(*command, "--every", "1s") as resident:
        poll(lambda: len(archived(out)) == 20, 200)
        sent += produce_and_consume(broker, 20, 10)
        poll(lambda: len(archived(out)) == 30, 60)
        second = command_line(*command, "--state", str(tmp_path / "other"))
        assert (second.code, "archive runs already, on" in second.err) == (TEMPORARY, True)
        stopped = command_line("pipeline", "stop", "archive", "--wait", "-o", "json")
        assert (stopped.code, stopped.json()["state"]) == (OK, "stopped"), stopped.err
        written, complaint = resident.communicate(timeout=patient(60))
    assert (resident.returncode, '"state": "stopped"' in written) == (OK, True), complaint
    sent += produce_and_consume(broker, 30, 10)
    again = command_line(*command, "--available-now", timeout_s=200)
    assert (again.code, again.json()["state"]) == (OK, "done"), again.err
    assert archived(out) == sent
    (run,) = command_line("pipeline", "ls", "-o", "json").json()
    assert (run["name"], run["state"], run["lag"], run["error"]) == ("archive", "done", 0, "")
    lags = {row["name"]: row for row in command_line("pipeline", "lag", "-o", "json").json()}
    end = broker.request("GET", "/api/v1/journal/span").json()["end"]
    assert (lags["archive"]["position"], lags["archive"]["lag"]) == (end, 0)
    other = command_line("pipeline", "run", "archive", "--out", str(tmp_path / "b"))
    assert (other.code, "out: " in other.err) == (USAGE, True)


OUT = ("--out", "/nowhere")
WRONG_OPTIONS = [
    ((), "missing option '--out'"),
    ((*OUT, "--every", "soon"), "'soon' is no interval"),
    ((*OUT, "--every", "5s", "--once"), "more than one trigger"),
    ((*OUT, "--from", "yesterday"), "no time with a time zone"),
    ((*OUT, "--name", "My Run"), "is no name of a run"),
    ((*OUT, "--source", "ftp://a"), "is no scheme of an address"),
    ((*OUT, "--credential", "s3cret"), "never the secret itself"),
]


@pytest.mark.parametrize(("given", "what"), sample(WRONG_OPTIONS, 2))
def test_wrong_options_are_refused_before_spark_starts(
    mom: CommandLine, given: tuple[str, ...], what: str
) -> None:
    tried = mom("pipeline", "run", "archive", *given)
    assert (tried.code, what in tried.err) == (USAGE, True), tried.err


def test_a_broker_that_is_away_is_tried_later_and_one_that_refuses_says_why(
    command_line: CommandLine, broker: BrokerProcess, tmp_path: Path
) -> None:
    command = ("pipeline", "run", "archive", "--out", str(tmp_path / "out"))
    away = command_line(*command, environment={"MOM_URL": "http://127.0.0.1:1"})
    assert (away.code, "start the broker" in away.err) == (TEMPORARY, True), away.err
    url = f"http://{broker.host}:{broker.port}"
    refused = command_line(*command, environment={"MOM_URL": url, "MOM_TOKEN": "wrong"})
    assert (refused.code, "set MOM_TOKEN" in refused.err) == (USAGE, True), refused.err


def test_a_run_that_is_not_known_cannot_be_stopped(mom: CommandLine) -> None:
    tried = mom("pipeline", "stop", "nothing")
    assert (tried.code, "nothing" in tried.err) == (NOT_FOUND, True)


def test_lag_shows_cursors_without_a_run(broker: BrokerProcess, mom: CommandLine) -> None:
    assert broker.request("PUT", "/api/v1/pipeline/cursors/mine", json_body={"position": 1}).status == 200
    (row,) = mom("pipeline", "lag", "-o", "json").json()
    assert (row["name"], row["position"], row["state"]) == ("mine", 1, None)


def test_the_console_knows_the_command_of_a_run_without_its_password(
    broker: BrokerProcess, command_line: CommandLine
) -> None:
    password = broker.password.replace(" ", "%20")
    url = f"http://{broker.user}:{password}@{broker.host}:{broker.port}"
    (home := Path(command_line.environment["HOME"]) / "my archive").mkdir()
    words = ("--out", home.name, "--before", "2026-11-25T03:00Z", "--name", "mine", "-q")
    done = command_line("pipeline", "run", "compact", *words, "--url", url)
    assert done.code == OK, done.err
    run = broker.request("GET", "/api/v1/pipeline/runs/mine").json()
    assert shlex.split(run["command"]) == [
        "mom", "pipeline", "run", "compact", "--out", str(home), "--before", "2026-11-25T03:00Z",
        "--name", "mine", "--url", f"http://{broker.host}:{broker.port}",
    ]  # fmt: skip
    again = shlex.split(run["command"])[1:]
    assert command_line(*again, environment={"MOM_URL": url}, cwd="/").code != USAGE


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (
            ("--bridge", "a", "--bridge", "b", "--sender", "file:///s"),
            "--bridge a --bridge b --sender file:///s",
        ),
        (
            ("--bridge", "a", "--receiver-credential", "WEST", "--verbose"),
            "--receiver-credential WEST --verbose",
        ),
        (("--bridge", "a", "--sender-credential", "/run/token"), "--sender-credential /run/token"),
        (("--bridge", "a", "--out", "x" * 4000), ""),
    ],
)
def test_a_command_has_each_option_that_was_given(words: tuple[str, ...], command: str) -> None:
    run: Any = get_command(pipeline_run.app)
    given = run.commands["reconcile"].make_context("reconcile", ["--receiver", "https://u:p@w", *words])
    given.obj = Invocation(None, "https://admin:p@ss@home:8000/mom", None, Output("json"))
    found = pipeline_command.command_of(given)
    assert "p@" not in found
    if command:
        assert found.startswith("mom pipeline run reconcile ") and command in found
        assert found.endswith("--url https://home:8000/mom") and "--receiver https://w " in found
    else:
        assert found == ""


def test_a_shared_store_is_read_under_the_name_of_the_broker(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    store = tmp_path / "shared"
    broker = start_broker("--name", "B2", "--journal", f"file:{store}", "--lease-s", "1")
    run: Any = get_command(pipeline_run.app)
    ctx = run.commands["statistics"].make_context("statistics", [])
    ctx.obj = Invocation(None, broker.url, None, Output("json"))
    around = surroundings(tmp_path, BrokerApi(broker))
    given = {"source": f"file://{store}"}
    found = pipeline_surroundings.source(ctx, given, around)
    assert (found.url, found.broker) == (given["source"], "B2")
    other = start_broker()
    with pytest.raises(Failure, match="is not the journal of B2"):
        pipeline_surroundings.source(ctx, {"source": f"file://{other.data}/journal"}, around)
