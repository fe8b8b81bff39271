"""Spark writes into a broker: batches and streams, each row once, whatever is repeated or killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.published import bodies, messages
from tests.support.broker_process import BrokerProcess
from tests.support.java import require_java
from tests.support.polling import poll

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.process]

#: each kill starts Spark again, which takes seconds
KILLS = int(os.environ.get("SINK_KILLS", "1"))
CREDENTIAL = "MOM_TEST_SINK"


@pytest.fixture(autouse=True)
def credential(broker: BrokerProcess, tmp_path: Path) -> str:
    """A file, because the workers have the environment that they were started with."""
    path = tmp_path / "credential"
    path.write_text(f"{broker.user}:{broker.password}")
    return str(path)


@pytest.fixture
def options(broker: BrokerProcess, credential: str) -> dict[str, str]:
    return {"url": broker.url, "credential": credential, "retrySeconds": "20"}


def write(frame: DataFrame, options: dict[str, str], **more: str) -> None:
    frame.write.format("mom").options(**options, **more).mode("append").save()


def staged(broker: BrokerProcess) -> list[str]:
    return [path.name for path in (broker.data / "bulk").glob("*")]


# ---------------------------------------------------------------------- batches


def test_a_batch_query_publishes_its_rows_in_order(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str]
) -> None:
    frame = spark.range(25_000).selectExpr("cast(id AS string) AS body")
    write(frame.coalesce(1), options, destination="/queue/batch.order")
    assert bodies(broker, "batch.order") == [str(number) for number in range(25_000)]
    assert not staged(broker)


def test_columns_become_what_they_are_called(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str]
) -> None:
    frame = spark.sql(
        "SELECT cast('x' AS binary) AS body, concat('/queue/batch.', name) AS destination, "
        "map('tenant', name, 'none', null) AS headers, 7 AS priority, 'c1' AS correlation_id, "
        "'text/plain' AS content_type, 60 AS expires_s, true AS persistent "
        "FROM VALUES ('one'), ('two') AS t(name)"
    )
    write(frame, options)
    for name in ("one", "two"):
        (message,) = messages(broker, f"batch.{name}")
        assert message["headers"] == {"tenant": name}
        assert (message["body"], message["priority"], message["correlation_id"]) == ("x", 7, "c1")
        assert message["content_type"] == "text/plain"


def test_a_batch_of_a_producer_is_published_once(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str]
) -> None:
    frame = spark.range(3).selectExpr("cast(id AS string) AS body")
    for number in (5, 5, 4, 6):
        write(frame, options, destination="/queue/batch.once", producerId="nightly", batchId=str(number))
    assert len(bodies(broker, "batch.once")) == 6
    for _ in range(2):
        write(frame, options, destination="/queue/batch.once")
    assert len(bodies(broker, "batch.once")) == 12, "queries without a producer are different batches"
    assert not staged(broker)


def test_nothing_is_published_when_a_task_fails(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str]
) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr(
        "CASE WHEN id = 99 THEN raise_error('broken row') ELSE cast(id AS string) END AS body"
    )
    with pytest.raises(Exception, match="broken row"):
        write(frame, options, destination="/queue/batch.none")
    assert broker.request("GET", "/api/v1/queues/batch.none").status == 404
    assert not staged(broker)


def test_a_refused_row_fails_the_query_or_becomes_a_dead_letter(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str]
) -> None:
    frame = spark.sql(
        "SELECT 'x' AS body, d AS destination FROM VALUES ('/queue/batch.good'), ('bad') AS t(d)"
    )
    with pytest.raises(Exception, match=r"\[ROWS_REFUSED\] 400 1 of \d rows were refused"):
        write(frame, options)
    assert broker.request("GET", "/api/v1/queues/batch.good").status == 404
    write(frame, options, onError="deadLetter")
    assert len(bodies(broker, "batch.good")) == 1
    (dead,) = messages(broker, "$bulk.dead")
    assert (dead["headers"]["origin"], dead["headers"]["dead-reason"]) == ("bad", "REFUSED")


@pytest.mark.parametrize(
    ("sql", "more", "refusal"),
    [
        ("SELECT 'x' AS body", {}, "destination: give the destination of all rows"),
        ("SELECT 1 AS body", {"destination": "/queue/a"}, "the column body has the type int"),
        ("SELECT 'x' AS body", {"destination": "/queue/a", "retrySecond": "1"}, "did you mean retrySeconds"),
    ],
)
def test_a_wrong_query_is_refused_before_it_runs(
    spark: SparkSession, options: dict[str, str], sql: str, more: dict[str, str], refusal: str
) -> None:
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\]") as raised:
        write(spark.sql(sql), options, **more)
    assert refusal in str(raised.value)


def test_a_missing_right_fails_the_query(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], credential: str
) -> None:
    Path(credential).write_text("admin:wrong")
    with pytest.raises(Exception, match=r"\[ACCESS_DENIED\] 401"):
        write(spark.sql("SELECT 'x' AS body"), options, destination="/queue/batch.denied")
    assert broker.request("GET", "/api/v1/queues/batch.denied").status == 404


# ---------------------------------------------------------------------- streams


def add_file(folder: Path, lines: list[str]) -> None:
    """Add a file with these lines. Spark reads files in the order of their times."""
    number = len(list(folder.iterdir()))
    path = folder / f"{number:04}.txt"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class Stream:
    """A query that writes the lines of files into a queue, the file of a batch in each."""

    def __init__(self, spark: SparkSession, place: Path, options: dict[str, str]) -> None:
        self._spark = spark
        self._source, self._checkpoint = place / "source", place / "checkpoint"
        self._source.mkdir()
        self._options = options
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        """Add a file."""
        add_file(self._source, list(lines))
        self.lines += lines

    def run(self) -> None:
        """Write what is there."""
        rows = self._spark.readStream.option("maxFilesPerTrigger", "1").text(str(self._source))
        writer = rows.selectExpr("value AS body").writeStream.format("mom").options(**self._options)
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(100)
        assert not query.isActive

    @property
    def commits(self) -> list[Path]:
        """The files by which Spark knows that a batch is complete, in order."""
        found = [path for path in (self._checkpoint / "commits").iterdir() if path.name.isdigit()]
        return sorted(found, key=lambda path: int(path.name))


def test_a_stream_continues_with_what_is_new(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, {**options, "destination": "/queue/stream.new"})
    stream.add("1", "2")
    stream.add("3")
    stream.run()
    assert bodies(broker, "stream.new") == ["1", "2", "3"]
    stream.add("4")
    stream.run()
    stream.run()
    assert bodies(broker, "stream.new") == stream.lines
    (producer,) = [
        one
        for one in broker.request("GET", "/api/v1/bulk/producers").json()["items"]
        if one["last_batch"] == 2
    ]
    assert len(producer["name"]) == 36, "it is the id of the query"


def test_a_batch_that_spark_does_not_know_to_be_complete_is_a_duplicate(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, {**options, "destination": "/queue/stream.replayed"})
    for number in range(3):
        stream.add(*(f"{number}.{row}" for row in range(5)))
    stream.run()
    last = stream.commits[-1]
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    stream.add("new")
    stream.run()
    assert bodies(broker, "stream.replayed") == stream.lines
    assert not staged(broker)


def test_a_stream_waits_for_a_broker_that_is_away(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, {**options, "destination": "/queue/stream.away"})
    stream.add("1")
    broker.kill()
    rows = spark.sql("SELECT 'first' AS body")
    with pytest.raises(Exception, match=r"\[BROKER_UNREACHABLE\]"):
        write(rows, {**options, "retrySeconds": "0"}, destination="/queue/stream.away")
    broker.start()
    stream.run()
    assert bodies(broker, "stream.away") == ["1"]


# ---------------------------------------------------------------------- killed


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(300 * (KILLS + 2))
def test_every_row_is_published_once_by_a_stream_whose_processes_are_killed(
    broker: BrokerProcess, options: dict[str, str], tmp_path: Path
) -> None:
    require_java()
    source = tmp_path / "source"
    source.mkdir()
    batches = 4 * (KILLS + 1)
    lines = [[f"{batch}.{row}" for row in range(200)] for batch in range(batches)]
    for content in lines:
        add_file(source, content)
    program = [sys.executable, "-m", "tests.pipeline.writing", str(source), str(tmp_path / "checkpoint")]
    program += [broker.url, options["credential"], "/queue/killed"]
    chance = random.Random(random.random())

    def published() -> int:
        depth: int = broker.request("GET", "/api/v1/queues/killed").json().get("depth", 0)
        return depth

    for kill in range(KILLS):
        with subprocess.Popen(program, start_new_session=True) as process:
            before = published()
            poll(lambda before=before: published() > before or process.poll() is not None, 300)  # type: ignore[misc]
            time.sleep(chance.random() * 0.5)
            assert process.poll() is None, f"it ended before kill {kill}"
            os.killpg(process.pid, signal.SIGKILL)
    subprocess.run(program, check=True, timeout=300)
    assert bodies(broker, "killed") == [line for content in lines for line in content]
