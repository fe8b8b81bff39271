"""Runs with Spark, which report to an API."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from broker_app.core import commands as c
from broker_app.core.message import Envelope
from broker_app.pipeline import reconciliations
from mom_pipeline import archive_tables
from mom_pipeline.errors import DATA_LOSS, PipelineError
from mom_pipeline.jobs import compact as job
from mom_pipeline.progress import IDLE, Progress
from mom_pipeline.runs import archive, compact, reconcile, statistics
from mom_pipeline.source import Source
from tests.pipeline.conftest import MakeStage
from tests.pipeline.runs import BrokerApi, RecordingApi, surroundings
from tests.pipeline.stage import JournalStage
from tests.pipeline.test_ranges import without_the_beginning
from tests.pipeline.test_segment_files import SMALL
from tests.pipeline.test_spark import work
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.xdist_group("spark")

MINUTES = "/pipeline/statistics"


def source(stage: JournalStage) -> Source:
    return Source(stage.url, "A")


def now_us() -> int:
    return round(datetime.now(UTC).timestamp() * 1_000_000)


def rows_of(root: Path, table: str, what: str) -> list[Any]:
    files = f"read_parquet('{root}/{table}/v=1/*/*/*/*.parquet', hive_partitioning = false)"
    return duckdb.execute(f"SELECT {what} FROM {files} ORDER BY ALL").fetchall()


def events(stage: JournalStage) -> list[Any]:
    return sorted((row["position"], row["event"], row["message_position"]) for row in stage.expected)


def test_an_archive_goes_on_where_it_ended(spark: SparkSession, stage: JournalStage, tmp_path: Path) -> None:
    api, out = RecordingApi(), tmp_path / "archive"
    wish, around = archive.Archive(out, archive_tables.TABLES), surroundings(tmp_path, api)
    for _ in range(2):
        work(stage, 10)
        done = archive.run("archive", source(stage), wish, around)
        assert (done.progress.lag, api.states[-1]) == (0, "done")
        assert rows_of(out, "event", "position, event, message_position") == events(stage)
    sent = [position for position, event, _ in events(stage) if event == "ENQUEUE"]
    assert rows_of(out, "message", "position") == [(position,) for position in sent]
    assert done.progress.rows == (len(events(stage)) + len(sent)) / 2


def test_a_resident_archive_ends_when_the_console_asks_for_it(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    work(stage, 10)
    api = RecordingApi()
    api.stop_requested = True
    wish = archive.Archive(tmp_path / "archive", every_s=3600)
    done = archive.run("archive", source(stage), wish, surroundings(tmp_path, api))
    assert done.stop.requested
    assert api.states[-1] == "stopped"
    assert not spark.streams.active


def test_a_journal_that_has_lost_its_beginning_ends_a_run(
    spark: SparkSession, make_stage: MakeStage, tmp_path: Path
) -> None:
    stage = make_stage(options=SMALL)
    work(stage, 10)
    wish, around = archive.Archive(tmp_path / "archive"), surroundings(tmp_path, RecordingApi())
    archive.run("archive", source(stage), wish, around)
    work(stage, 10)
    without_the_beginning(stage)
    with pytest.raises(PipelineError) as caught:
        archive.run("archive", source(stage), wish, around)
    assert caught.value.code == DATA_LOSS
    assert caught.value.what.startswith("[DATA_LOSS] A: ")


def test_statistics_of_minutes_are_stored_once_in_files_and_in_the_console(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    api, out = RecordingApi(), tmp_path / "statistics"
    around = surroundings(tmp_path, api)
    begin = datetime.now(UTC) - timedelta(hours=3)
    found: dict[tuple[str, str], Any] = {}
    for hours in range(2):
        stage.now_us = round((begin + timedelta(hours=hours)).timestamp() * 1_000_000)
        work(stage, 200)
        end = datetime.fromtimestamp(stage.now_us / 1e6, UTC) + timedelta(minutes=1)
        statistics.run("statistics", source(stage), statistics.Statistics(out, end=end), around)
    for body in api.bodies("POST", MINUTES):
        for row in body["rows"]:
            found[row["destination"], row["minute"]] = row["enqueued"]
    sent: dict[tuple[str, str], int] = {}
    for row in stage.expected:
        if row["event"] == "ENQUEUE":
            minute = row["event_ts"].replace(second=0, microsecond=0).isoformat()
            sent[row["destination"], minute] = sent.get((row["destination"], minute), 0) + 1
    assert {key: count for key, count in found.items() if count} == sent
    assert rows_of(out, "stat_minute", "sum(enqueued), count(*), count(DISTINCT (destination, minute))") == [
        (400, len(found), len(found))
    ]
    again = statistics.Statistics(out, start=begin - timedelta(hours=1))
    before = rows_of(out, "stat_minute", "* EXCLUDE kll")
    statistics.run("statistics", source(stage), again, around)
    assert rows_of(out, "stat_minute", "* EXCLUDE kll") == before


def test_statistics_without_the_console_are_in_the_files(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    api, said = RecordingApi(), list[str]()
    api.reachable = False
    stage.now_us = round((datetime.now(UTC) - timedelta(minutes=9)).timestamp() * 1_000_000)
    work(stage, 10)
    around = surroundings(tmp_path, api, said)
    statistics.run("statistics", source(stage), statistics.Statistics(tmp_path / "out"), around)
    assert rows_of(tmp_path / "out", "stat_minute", "sum(enqueued)") == [(10,)]
    assert any("--from" in sentence for sentence in said)
    with pytest.raises(PipelineError, match="the minutes cannot be stored"):
        statistics.run("console", source(stage), statistics.Statistics(), around)


def test_a_resident_run_shows_the_minute_that_is_not_over(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    """It is in the console, and not in the files."""
    api, out, looks = RecordingApi(), tmp_path / "statistics", 0

    def show(progress: Progress) -> None:
        nonlocal looks
        if progress.state == IDLE:
            looks += 1
            if looks == 1:
                stage.now_us = now_us()  # the minute of the first ones may be over
                work(stage, 5)
            else:
                os.kill(os.getpid(), signal.SIGTERM)

    stage.now_us = now_us()
    work(stage, 10)
    wish = statistics.Statistics(out, every_s=0.1)
    done = statistics.run("statistics", source(stage), wish, surroundings(tmp_path, api, show=show))
    found: dict[tuple[str, str], Any] = {}
    for body in api.bodies("POST", MINUTES):
        for row in body["rows"]:
            found[row["destination"], row["minute"]] = row["enqueued"]
    assert sum(found.values()) == 15
    until = datetime.fromisoformat((done.folder.read("until.json") or {"until": "9999-01-01"})["until"])
    files = list(out.glob("stat_minute/**/minutes.parquet"))
    assert not files or rows_of(out, "stat_minute", "max(minute)")[0][0] < until


def test_minutes_that_a_resident_run_has_added_up_are_those_of_one_that_reads_all_at_once(
    spark: SparkSession, stage: JournalStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def show(progress: Progress) -> None:
        nonlocal looks
        looks += progress.state == IDLE
        if progress.state != IDLE:
            return
        if looks <= 3:
            stage.now_us = now_us()
            work(stage, 7)
        elif looks == 4:
            monkeypatch.setattr(statistics, "GRACE", timedelta(minutes=-2))  # all minutes are over
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    added_out, out = tmp_path / "added", tmp_path / "at-once"
    around = surroundings(tmp_path, RecordingApi(), show=show)
    statistics.run("added", source(stage), statistics.Statistics(added_out, every_s=0.1), around)
    around = surroundings(tmp_path, RecordingApi())
    statistics.run("at-once", source(stage), statistics.Statistics(out), around)
    names = (
        "destination, minute, enqueued, dequeued, delivered, bytes_in, bytes_out, queue_time_us_p50, "
        "queue_time_us_p99, queue_time_us_max, kll, final"
    )
    added = rows_of(added_out, "stat_minute", names)
    assert added == rows_of(out, "stat_minute", names)
    assert sum(row[2] for row in added) == 21
    assert sum(row[3] for row in added) > 0


def test_minutes_whose_events_are_gone_are_not_computed_again(
    spark: SparkSession, make_stage: MakeStage, tmp_path: Path
) -> None:
    """Their rows would take the place of complete ones."""
    stage = make_stage(options=SMALL)
    begin = (datetime.now(UTC) - timedelta(hours=2)).replace(minute=5, second=0, microsecond=0)
    stage.now_us = round(begin.timestamp() * 1_000_000)
    work(stage, 200)
    out, around = tmp_path / "statistics", surroundings(tmp_path, RecordingApi())
    statistics.run("statistics", source(stage), statistics.Statistics(out), around)
    before = rows_of(out, "stat_minute", "minute, destination, enqueued")
    without_the_beginning(stage)
    with pytest.raises(PipelineError, match="the journal begins within that of") as failure:
        statistics.run("statistics", source(stage), statistics.Statistics(out, start=begin), around)
    assert failure.value.code == DATA_LOSS
    assert rows_of(out, "stat_minute", "minute, destination, enqueued") == before
    from_ = datetime.strptime(failure.value.fix.rpartition(" ")[2], "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC)
    statistics.run("statistics", source(stage), statistics.Statistics(out, start=from_), around)
    kept = [row for row in before if row[0] < from_]
    assert kept
    assert rows_of(out, "stat_minute", "minute, destination, enqueued")[: len(kept)] == kept


def test_the_console_learns_which_minutes_were_computed(
    spark: SparkSession, stage: JournalStage, tmp_path: Path
) -> None:
    """Those without a row had no messages."""
    begin = (datetime.now(UTC) - timedelta(hours=2)).replace(second=0, microsecond=0)
    stage.now_us = round(begin.timestamp() * 1_000_000)
    work(stage, 5)
    api = RecordingApi()
    statistics.run("statistics", source(stage), statistics.Statistics(), surroundings(tmp_path, api))
    times = [body["computed"] for body in api.bodies("POST", MINUTES)]
    assert {time["broker"] for time in times} == {"A"}
    assert times[0]["begin"] == begin.isoformat()
    assert [time["end"] for time in times[:-1]] == [time["begin"] for time in times[1:]]
    assert datetime.now(UTC) - datetime.fromisoformat(times[-1]["end"]) < timedelta(minutes=2)


@pytest.fixture
def forwarded(make_stage: MakeStage) -> tuple[JournalStage, JournalStage]:
    """Two brokers: of five messages the third was lost, the second doubled, and the last one waits."""
    home, west = make_stage("home"), make_stage("west")
    for one in (home, west):
        one.now_us = round((datetime.now(UTC) - timedelta(minutes=9)).timestamp() * 1_000_000)
    queue = "/queue/storeAndForward:west/queue/orders"
    client = home.client()
    for number in range(5):
        client.publish(queue, b"%d" % number)
    client.subscribe(queue)
    client.settle(*client.tags[:4])
    positions = [row["position"] for row in home.expected if row["event"] == "ENQUEUE"]
    bridge = west.client()
    for flow, chosen in enumerate(([positions[0], positions[1], positions[3]], [positions[1]])):
        sender = f"home~{flow}"
        bridge.do(c.BeginFlow(bridge.peer, f"f{flow}", sender, f"{queue}{flow}", "/queue/orders"))
        entries = [(Envelope("/queue/orders"), b"x", None) for _ in chosen]
        west.decide(c.Forward(bridge.peer, f"f{flow}", entries, chosen))
    return home, west


@pytest.mark.process
def test_a_reconciliation_names_the_messages_that_were_lost_and_doubled_also_in_the_console(
    spark: SparkSession,
    forwarded: tuple[JournalStage, JournalStage],
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, west = forwarded
    sent = [row for row in home.expected if row["event"] == "ENQUEUE"]
    report = tmp_path / "report.ndjson"
    wish = reconcile.Reconcile(["west"], report)
    sources = Source(home.url, "home"), Source(west.url, "west")
    monkeypatch.setattr(reconcile, "MOST_ROWS", 2)
    result = reconcile.run("reconcile", *sources, wish, surroundings(tmp_path, BrokerApi(broker)))
    assert result.states == {"ok": 2, "doubled": 1, "lost": 1, "in-flight": 1}
    assert result.differs
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(line["state"], line["origin_position"], line["message_id"]) for line in lines] == [
        (state, sent[number]["position"], sent[number]["message_id"])
        for state, number in (("doubled", 1), ("lost", 2), ("in-flight", 4))
    ]
    shown = broker.request("GET", "/api/v1/pipeline/runs/reconcile/reconciliation").json()
    assert (shown["states"], shown["file"]) == (result.states, str(report))
    assert shown["rows"] == lines[:2], "rather than what is in flight"


def test_a_result_has_no_more_rows_than_the_console_takes() -> None:
    assert reconcile.MOST_ROWS == reconciliations.MOST_ROWS
    few, many = json.dumps({"message_id": "m"}), json.dumps({"message_id": "m" * 2_000})
    assert len(reconcile.excerpt([few] * 1_001)) == 1_000
    large = reconcile.excerpt([many] * 1_000)
    assert 400 < len(large) < 500
    assert len(json.dumps(large)) < 1_000_000


def test_a_receiver_whose_journal_begins_too_late_is_not_compared(
    spark: SparkSession, make_stage: MakeStage, tmp_path: Path
) -> None:
    home, west = make_stage("home"), make_stage("west", options=SMALL)
    home.client().publish("/queue/storeAndForward:west/queue/orders", b"1")
    west.now_us += 60_000_000
    without_the_beginning(west)
    sources = Source(home.url, "home"), Source(west.url, "west")
    around = surroundings(tmp_path, RecordingApi())
    with pytest.raises(PipelineError, match="--from") as caught:
        reconcile.run("reconcile", *sources, reconcile.Reconcile(["west"]), around)
    assert caught.value.code == DATA_LOSS


def test_small_files_of_an_archive_are_merged(
    spark: SparkSession, stage: JournalStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, around = tmp_path / "archive", surroundings(tmp_path, RecordingApi())
    for _ in range(2):
        stage.client().publish("/queue/a", b"1")
        archive.run("archive", source(stage), archive.Archive(out), around)
    assert len(list(out.glob("event/**/part-*.parquet"))) == 2
    end = datetime.fromtimestamp(stage.now_us / 1e6, UTC) + timedelta(hours=2)
    monkeypatch.setattr(job, "REPLACED_S", 0.0)
    done = compact.run("compact", compact.Compact(out, end), around)
    assert len(list(out.glob("event/**/part-*.parquet"))) == 1
    assert done.progress.rows == len(events(stage))
    assert rows_of(out, "event", "position, event, message_position") == events(stage)
