"""Spark reads journals: batches, and streams that are stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_mom import schema
from pyspark_mom.errors import InvalidOption
from pyspark_mom.options import parse
from tests.pipeline.conftest import MakeStage
from tests.pipeline.stage import ALL, JournalStage
from tests.pipeline.test_ranges import without_the_beginning
from tests.pipeline.test_segment_files import SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ("position", "event", "message_position")
DDL = "position bigint, event string, message_position bigint"
Row = dict[str, Any]

pytestmark = pytest.mark.xdist_group("spark")


def work(stage: JournalStage, count: int) -> None:
    """Send and consume some messages, with headers and bodies."""
    client = stage.client()
    for number in range(count):
        client.publish(f"/queue/q{number % 3}", b"x" * number, block=b"correlation-id:%d\n" % number)
        stage.now_us += 1_000_001
    client.subscribe("/queue/q1")
    client.settle(*client.tags)
    client.disconnect()


def batch_of(spark: SparkSession, stage: JournalStage, **given: str) -> DataFrame:
    return spark.read.format("mom").options(url=stage.url, broker="A", **given).load()


def rows_of(frame: DataFrame, names: tuple[str, ...] = NAMES) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select(*names).collect()]


def expected(stage: JournalStage, names: tuple[str, ...] = NAMES) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in stage.expected]


def test_a_batch_query_has_all_rows_and_columns(spark: SparkSession, stage: JournalStage) -> None:
    work(stage, 20)
    table = batch_of(spark, stage, minPartitions="3").toArrow()
    names = tuple(column.name for column in schema.columns(schema.EVENTS, headers=False))
    assert tuple(table.column_names) == names
    assert [tuple(row.values()) for row in table.to_pylist()] == expected(stage, names)


def test_messages_have_bodies_and_headers(spark: SparkSession, stage: JournalStage) -> None:
    work(stage, 20)
    given = {"content": "messages", "includeHeaders": "true", "destinations": "q1,q2"}
    table = batch_of(spark, stage, **given).toArrow()
    found = [{**row, "headers": list(row["headers"])} for row in table.to_pylist()]
    assert tuple(table.column_names) == ALL
    assert found == [
        row for row in stage.expected if row["event"] == "ENQUEUE" and row["destination"] != "/queue/q0"
    ]


def test_a_query_without_rows_is_a_table_without_rows(spark: SparkSession, stage: JournalStage) -> None:
    assert rows_of(batch_of(spark, stage)) == []
    work(stage, 3)
    assert rows_of(batch_of(spark, stage, destinations="nowhere")) == []


def test_sql_counts_what_the_model_counts(spark: SparkSession, stage: JournalStage) -> None:
    work(stage, 20)
    batch_of(spark, stage).createOrReplaceTempView("journal_event")
    found = spark.sql("SELECT destination, event, count(*) FROM journal_event GROUP BY ALL").collect()
    counted: dict[tuple[Any, ...], int] = {}
    for row in expected(stage, ("destination", "event")):
        counted[row] = counted.get(row, 0) + 1
    assert {tuple(row)[:2]: row[2] for row in found} == counted


@pytest.mark.parametrize(
    ("ddl", "given", "refusal"),
    [
        ("position int", {}, "the column position has the type bigint, not int"),
        ("positon bigint", {}, "no column 'positon'; position is similar"),
        ("position bigint", {"minpartition": "1"}, "no option 'minpartition'; did you mean minPartitions"),
    ],
)
def test_a_wrong_query_is_refused_in_one_sentence(
    spark: SparkSession, stage: JournalStage, ddl: str, given: dict[str, str], refusal: str
) -> None:
    with pytest.raises(Exception, match=r"\[INVALID_OPTION\]") as raised:
        spark.read.format("mom").schema(ddl).options(url=stage.url, **given).load().collect()
    assert refusal in str(raised.value)


def test_the_columns_of_a_schema_are_those_that_spark_compares(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    options = parse({"url": "file:///x", "content": "messages", "includeHeaders": "true"})
    wanted = StructType.fromDDL(schema.ddl(options))
    assert isinstance(wanted, StructType)
    assert schema.requested(wanted).equals(to_arrow_schema(wanted, timezone="UTC"))
    with pytest.raises(InvalidOption, match="leave NOT NULL out"):
        schema.requested(StructType().add("body", "binary", nullable=False))


# ------------------------------------------------------------------------------------- streams


class Stream:
    """A query that reads a journal into Parquet files, as far as it is written, and then ends."""

    def __init__(self, spark: SparkSession, place: Path, **given: str) -> None:
        self._spark = spark
        self._place = place
        self._given = {"broker": "A", "startingOffsets": "earliest", **given}

    def run(self, batch: Callable[[DataFrame, int], None] | None = None) -> list[Any]:
        """Read what is there; the progress of the batches with rows."""
        reader = self._spark.readStream.format("mom").options(**self._given).schema(DDL)
        writer = reader.load().writeStream.option("checkpointLocation", str(self._place / "checkpoint"))
        if batch is None:
            writer = writer.format("parquet").option("path", str(self._place / "rows"))
        else:
            writer = writer.foreachBatch(batch)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(100)
        assert not query.isActive
        return [one for one in query.recentProgress if one["numInputRows"]]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All that was written, in the order of positions."""
        frame = self._spark.read.schema(DDL).parquet(str(self._place / "rows"))
        return sorted(rows_of(frame))


def test_a_stream_continues_from_its_checkpoint_with_exactly_the_rest(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    work(stage, 40)
    stream = Stream(spark, tmp_path, url=stage.url, maxRowsPerTrigger="15")
    first = stream.run()
    assert [one["numInputRows"] for one in first][:2] == [15, 15]
    assert stream.rows == sorted(expected(stage))
    (source,) = first[-1]["sources"]
    end = {"A": {"epoch": 1, "pos": stage.end, "tag": stage.tag}}
    assert json.loads(source["endOffset"]) == json.loads(source["latestOffset"]) == end

    stage.reopen()
    work(stage, 5)
    stage.reopen()
    assert sum(one["numInputRows"] for one in stream.run()) == len(stage.expected) - len(
        first_rows(first, stage)
    )
    assert stream.rows == sorted(expected(stage))
    assert stream.run() == []


def first_rows(progress: list[Any], stage: JournalStage) -> list[Row]:
    """The rows that these batches had."""
    end = json.loads(progress[-1]["sources"][0]["endOffset"])["A"]["pos"]
    return [row for row in stage.expected if row["position"] < end]


def test_a_batch_that_failed_is_repeated_with_the_same_rows(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    work(stage, 10)
    seen: list[tuple[int, list[tuple[Any, ...]]]] = []

    def fail_once(frame: DataFrame, number: int) -> None:
        seen.append((number, rows_of(frame)))
        if len(seen) == 2:
            raise ValueError("the sink is away")

    stream = Stream(spark, tmp_path, url=stage.url, maxRowsPerTrigger="5")
    with pytest.raises(Exception, match="the sink is away"):
        stream.run(fail_once)
    stage.reopen()
    work(stage, 3)
    stream.run(fail_once)
    assert seen[1] == seen[2] and seen[0][0] + 1 == seen[1][0]
    assert [row for _, rows in (*seen[:1], *seen[2:]) for row in rows] == expected(stage)


def test_a_stream_reads_several_brokers(spark: SparkSession, make_stage: MakeStage, tmp_path: Path) -> None:
    one, two = make_stage("one"), make_stage("two")
    work(one, 6)
    work(two, 9)
    brokers = json.dumps({"A": one.url, "B": two.url})
    query = (
        spark.readStream.format("mom")
        .options(brokers=brokers, startingOffsets="earliest", minPartitions="3")
        .schema("broker string, position bigint")
        .load()
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .format("memory")
        .queryName("both")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    found = [tuple(row) for row in spark.sql("SELECT * FROM both").collect()]
    assert found == [
        (name, row["position"]) for name, stage in (("A", one), ("B", two)) for row in stage.expected
    ]


def test_a_stream_whose_positions_are_gone_fails_and_continues_if_that_is_wanted(
    spark: SparkSession, make_stage: MakeStage, tmp_path: Path
) -> None:
    stage = make_stage(options=SMALL)
    work(stage, 2)
    Stream(spark, tmp_path, url=stage.url).run()
    before = stage.end
    low = without_the_beginning(stage)
    with pytest.raises(Exception, match=rf"\[DATA_LOSS\] A: the positions {before} to {low - 1} are gone"):
        Stream(spark, tmp_path, url=stage.url).run()
    stream = Stream(spark, tmp_path, url=stage.url, failOnDataLoss="false")
    stream.run()
    assert stream.rows == sorted(row for row in expected(stage) if row[0] < before or row[0] >= low)
