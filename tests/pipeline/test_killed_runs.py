"""Runs whose processes are killed at random moments and started again: their results are those of runs that
nothing kills."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest

from broker_app.cli.base.failures import OK
from mom_pipeline.archive_tables import MESSAGE
from mom_pipeline.job_folder import broker_folder, state_folder
from pyspark_mom.options import parse
from tests.cli.conftest import CommandLine
from tests.pipeline.archived import write
from tests.pipeline.published import contents
from tests.pipeline.stage import JournalStage, read_rows
from tests.pipeline.test_spark import work
from tests.pipeline.traffic import START_US, Journal, Message
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.java import QUICK, require_java
from tests.support.polling import poll

#: each kill starts Spark again, which takes seconds
KILLS = int(os.environ.get("RUN_KILLS", "1"))

pytestmark = [pytest.mark.soak, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300 * (KILLS + 2))]


class Runs:
    """Starts a run with a small Spark again and again, and kills it."""

    def __init__(self, mom: CommandLine, *command: str) -> None:
        require_java()
        mom.environment["JDK_JAVA_OPTIONS"] = " ".join(QUICK)
        self._mom = mom
        self._command = ("pipeline", "run", *command, "--master", "local[1]", "--nice", "0", "-o", "json")
        self._chance = random.Random(random.random())
        #: the seconds from the start to the first result
        self._usual_s = 0.0

    def kill(self, *options: str, progress: Callable[[], object]) -> None:
        """Start the run, and kill some of its processes: soon after `progress` has changed, or sooner."""
        with self._mom.popen(*self._command, *options) as process:
            began, before = time.monotonic(), progress()
            if self._usual_s and self._chance.random() < 0.5:
                time.sleep(self._chance.random() * self._usual_s)
            else:
                poll(lambda: progress() != before or process.poll() is not None, 300)
                self._usual_s = time.monotonic() - began
                time.sleep(self._chance.random() * 0.5)
            assert process.poll() is None, f"it ended before it was killed: {process.communicate()}"
            self._kill_some(process)

    def finish(self, *options: str) -> Any:
        """Run it to its end."""
        done = self._mom(*self._command, *options, timeout_s=300)
        assert done.code == OK, done.err
        return done.json()

    def _kill_some(self, process: subprocess.Popen[str]) -> None:
        """Kill Python, Java, a worker or all; Python ends when one of the others is away, or is killed."""
        driver = psutil.Process(process.pid)
        others = driver.children(recursive=True)
        java = [one for one in others if _name(one) == "java"]
        for one in self._chance.choice([[driver], java, others[-1:], [driver, *others]]):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def _name(process: psutil.Process) -> str:
    """Empty if the process has just ended."""
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


@pytest.fixture
def mom(processes: None, tmp_path: Path) -> CommandLine:
    """`mom` with a home of its own."""
    (tmp_path / "home").mkdir()
    return CommandLine(tmp_path / "home")


def rows_of(root: Path, table: str, what: str) -> list[Any]:
    if not any((root / table).rglob("*.parquet")):
        return []
    files = f"read_parquet('{root}/{table}/v=1/*/*/*/*.parquet', hive_partitioning = false)"
    return duckdb.execute(f"SELECT {what} FROM {files} ORDER BY ALL").fetchall()


def test_an_archive_has_each_event_and_each_message_once(
    start_broker: StartBroker, mom: CommandLine, tmp_path: Path
) -> None:
    broker, root = start_broker("--journal-retention-bytes", "1000000000"), tmp_path / "archive"
    mom.about(broker)

    def traffic() -> None:
        assert mom("pub", "orders", "order {{n}} {{now}}", "-n", "200").code == OK
        assert mom("sub", "orders", "-n", "150").code == OK

    runs = Runs(mom, "archive", "--out", str(root), "--messages")
    for _ in range(KILLS):
        traffic()
        runs.kill("--every", "1s", progress=lambda: len(list((root / "_manifest").glob("*/*.json"))))
        for table in ("event", "message"):
            seen = rows_of(root, table, "position, event, message_position")
            assert len(seen) == len(set(seen)), "what readers see behind a kill"
    traffic()
    runs.finish("--available-now")
    names = ("position", "event", "message_position")
    journal = parse({"url": f"file://{broker.data}", "broker": "mom"})
    events = sorted(tuple(row.values()) for row in read_rows(journal, *names))
    assert rows_of(root, "event", ", ".join(names)) == events
    sent = [(position,) for position, event, _ in events if event == "ENQUEUE"]
    assert len(sent) == 200 * (KILLS + 1)
    assert rows_of(root, "message", "position") == sent
    assert not [path for path in (root / "_staging").rglob("*") if path.is_file()]


def test_statistics_have_the_counts_of_each_minute(
    stage: JournalStage, broker: BrokerProcess, mom: CommandLine, tmp_path: Path
) -> None:
    mom.about(broker)
    hours, root = 3, tmp_path / "statistics"
    begin = datetime.now(UTC) - timedelta(hours=hours * (KILLS + 2))
    state = broker_folder(state_folder(mom.environment), f"http://127.0.0.1:{broker.port}", "statistics")
    until = state / "pipeline" / "statistics" / "until.json"
    passed = 0

    def traffic() -> None:
        nonlocal passed
        for _ in range(hours):
            stage.now_us = round((begin + timedelta(hours=passed)).timestamp() * 1_000_000)
            work(stage, 100)
            passed += 1

    command = ("--source", stage.url, "--broker", "A", "--out", str(root))
    runs = Runs(mom, "statistics", *command)
    for _ in range(KILLS):
        traffic()
        runs.kill("--every", "1s", progress=lambda: until.exists() and until.read_text())
    traffic()
    runs.finish("--available-now")
    wanted = Counter[tuple[str, datetime, str]]()
    for row in stage.expected:
        wanted[row["destination"], row["event_ts"].replace(second=0, microsecond=0), row["event"]] += 1
    enqueued = {key[:2]: count for key, count in wanted.items() if key[2] == "ENQUEUE"}
    dequeued = {key[:2]: count for key, count in wanted.items() if key[2] == "ACK"}
    stored = rows_of(root, "stat_minute", "destination, epoch_us(minute), enqueued, dequeued")
    assert len({row[:2] for row in stored}) == len(stored)
    counts = {(name, datetime.fromtimestamp(us / 1e6, UTC)): found for name, us, *found in stored}
    assert {key: count for key, (count, _) in counts.items() if count} == enqueued
    assert {key: count for key, (_, count) in counts.items() if count} == dequeued
    shown = {}
    for name in {name for name, _ in counts}:
        query = f"destination={name}&from={begin - timedelta(hours=1):%Y-%m-%dT%H:%MZ}"
        for row in broker.request("GET", f"/api/v1/pipeline/statistics?{query}").json()["items"]:
            minute = datetime.fromisoformat(row["minute"])
            shown[row["destination"], minute] = [row["enqueued"], row["dequeued"]]
    assert shown == counts


def test_a_replay_publishes_each_message_once_and_in_order(
    broker: BrokerProcess, mom: CommandLine, tmp_path: Path
) -> None:
    mom.about(broker)
    root, messages = tmp_path / "archive", 5_000 * (KILLS + 1)
    journal = Journal("a")
    for number in range(messages):
        journal.record("ENQUEUE", START_US + number, Message(number, "/queue/sent", START_US, b"%d" % number))
    write(root, "q", 0, journal.rows, table=MESSAGE)

    def published() -> int:
        depth: int = broker.request("GET", "/api/v1/queues/again").json().get("depth", 0)
        return depth

    runs = Runs(mom, "replay", "--archive", str(root), "--to", "again", "--yes")
    for _ in range(KILLS):
        runs.kill("--rate", "2000", progress=published)
    assert 0 < published() < messages
    assert runs.finish()["rows"] > 0
    assert contents(broker, "again") == [b"%d" % number for number in range(messages)]
