"""Replays: which messages of an archive are chosen, and that each is published once."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from broker_app.net.rest.messages import envelopes
from mom_pipeline import archive_tables, replay_batches
from mom_pipeline.archive_tables import MESSAGE
from mom_pipeline.errors import USAGE, PipelineError
from mom_pipeline.jobs import replay as job
from mom_pipeline.progress import Progress
from mom_pipeline.replay_batches import Stretch
from mom_pipeline.runner import Run, Surroundings
from mom_pipeline.runs import archive, replay
from mom_pipeline.runs.replay import Plan, Replay
from mom_pipeline.source import Source
from pyspark_mom import sink_options
from pyspark_mom.options import parse
from tests.pipeline import traffic
from tests.pipeline.archived import write
from tests.pipeline.published import contents
from tests.pipeline.published import messages as messages_of
from tests.pipeline.runs import BrokerApi, surroundings
from tests.pipeline.stage import read_rows
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.process]

QUEUE = "/queue/orders"


@pytest.fixture(scope="module")
def journals() -> list[traffic.Journal]:
    """Two brokers; the name of one looks like a number."""
    return [traffic.traffic("007", seed=5, messages=150), traffic.traffic("b", seed=6, messages=50)]


@pytest.fixture(scope="module")
def messages(journals: list[traffic.Journal]) -> list[dict[str, Any]]:
    """Their messages, in the order of a replay."""
    rows = [row for journal in journals for row in journal.rows if row["body"] is not None]
    return sorted(rows, key=lambda row: (row["broker"], row["position"]))


@pytest.fixture(scope="module")
def archived(journals: list[traffic.Journal], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of their messages, in small files."""
    root = tmp_path_factory.mktemp("archive")
    for journal in journals:
        rows = [row for row in journal.rows if row["body"] is not None]
        for number, start in enumerate(range(0, len(rows), 60)):
            write(root, journal.broker, number, rows[start : start + 60], table=MESSAGE)
    return root


# ---------------------------------------------------------------------------- the choice


def chosen(frame: DataFrame) -> list[tuple[str, int]]:
    return sorted((row.broker, row.position) for row in frame.select("broker", "position").collect())


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["broker"], row["position"]) for row in rows]


def test_messages_are_chosen_by_condition_pattern_and_time(
    spark: SparkSession, archived: Path, messages: list[dict[str, Any]]
) -> None:
    table = archive_tables.read(spark, archived, MESSAGE)
    three = datetime(2026, 11, 21, 3, tzinfo=UTC)
    limit = traffic.START_US + 10 * traffic.MINUTE_US
    for choice, wanted in (
        ({"condition": "body_size > 100"}, lambda row: row["body_size"] > 100),
        ({"condition": "headers['n'] LIKE '1%'"}, lambda row: dict(row["headers"])["n"].startswith("1")),
        ({"destinations": ["b*", "/queue/c"]}, lambda row: row["destination"][7] in "bc"),
        ({"destinations": ["/queue/_", "/queue/%", "/topic/a", "b.>"]}, lambda row: False),
        ({"start": three}, lambda row: row["event_ts"] >= limit),
        ({"end": three}, lambda row: row["event_ts"] < limit),
    ):
        found = job.choose(table, **choice)
        assert chosen(found) == places([row for row in messages if wanted(row)]), choice


def test_a_limit_takes_the_first_messages(
    spark: SparkSession, archived: Path, messages: list[dict[str, Any]]
) -> None:
    table = archive_tables.read(spark, archived, MESSAGE)
    ends = {row.broker: row.end for row in job.limited(table, 320).collect()}
    assert chosen(job.within(table, {}, ends)) == places(messages[:320])
    assert chosen(job.within(table, ends)) == places(messages[320:])


def test_a_dry_run_counts_what_would_be_sent(
    spark: SparkSession, archived: Path, messages: list[dict[str, Any]]
) -> None:
    counts = job.counts(archive_tables.read(spark, archived, MESSAGE)).toArrow().to_pylist()
    for row in counts:
        own = [
            each
            for each in messages
            if (each["broker"], each["destination"]) == (row["broker"], row["destination"])
        ]
        assert (row["messages"], row["bytes"]) == (len(own), sum(each["body_size"] for each in own))
        times = [each["event_ts"] for each in own]
        assert [row[name].timestamp() * 1e6 for name in ("first_ts", "last_ts")] == [min(times), max(times)]
        assert row["end"] == own[-1]["position"] + 1
    assert sum(row["messages"] for row in counts) == len(messages)


def test_headers_that_mean_something_become_columns_or_are_left_out(spark: SparkSession) -> None:
    headers = {"tenant": "acme", "content-type": "text/plain", "JMSXGroupID": "g", "persistent": "FALSE"}
    headers |= dict.fromkeys(("expires", "ttl-s", "dedup-id", "priority", "content-length"), "1")
    schema = ", ".join(f"{column.name} {column.ddl}" for column in archive_tables.columns(MESSAGE))
    names = archive_tables.names(MESSAGE)
    rows = [
        {"broker": "A", "position": 1, "destination": QUEUE, "headers": headers, "body": b"x", "priority": 7},
        {"broker": "A", "position": 2, "destination": "/topic-subscription/t/s", "headers": {}, "body": b""},
    ]
    table = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)
    first, _ = (row.asDict() for row in job.transform(table, "/queue/again").collect())
    assert first == {
        "broker": "A", "epoch": None, "position": 1, "destination": "/queue/again", "body": b"x",
        "headers": {"tenant": "acme"}, "content_type": "text/plain", "correlation_id": None, "type": None,
        "group": "g", "reply_to": None, "priority": 7, "persistent": False,
    }  # fmt: skip
    assert chosen(job.sendable(table)) == [("A", 1)]
    assert chosen(job.sendable(table, QUEUE)) == [("A", 1), ("A", 2)]
    for to, last in ((None, None), (QUEUE, "/topic-subscription/t/s")):
        counts = job.counts(table, to).toArrow().to_pylist()
        assert {(row["destination"], row["messages"]) for row in counts} == {(QUEUE, 1), (last, 1)}


def test_the_reserved_headers_are_those_of_the_broker() -> None:
    assert set(job.RESERVED) == envelopes._RESERVED


# ------------------------------------------------------------------------------ the runs


class Case:
    """A replay of an archive into a queue of a real broker, which can be run again."""

    def __init__(self, broker: BrokerProcess, archive: Path, place: Path, **wish: Any) -> None:
        self.broker = broker
        self.archive = archive
        self.place = place
        self.queue = f"replayed.{place.name}"
        self.wish = {"to": f"/queue/{self.queue}", **wish}
        self.name = re.sub("[^a-z0-9]", "-", place.name)
        self.show: Callable[[Progress], None] = lambda _: None
        (place / "credential").write_text(f"{broker.user}:{broker.password}")

    @property
    def around(self) -> Surroundings:
        return surroundings(self.place, BrokerApi(self.broker), show=lambda progress: self.show(progress))

    def plan(self) -> Plan:
        return replay.plan(self.name, Replay(self.archive, **self.wish), self.around)

    def run(self, planned: Plan | None = None) -> Run:
        """Run it, as `planned` or after a plan of its own."""
        sink = sink_options.parse({"url": self.broker.url, "credential": str(self.place / "credential")})
        return replay.run(
            self.name, Replay(self.archive, **self.wish), planned or self.plan(), sink, self.around
        )

    @property
    def published(self) -> list[bytes]:
        return contents(self.broker, self.queue)


def sent_bodies(messages: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in messages]


@pytest.fixture
def case(
    spark: SparkSession,
    broker: BrokerProcess,
    archived: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    """A replay of the whole archive, in many ranges and batches."""
    monkeypatch.setattr(replay_batches, "BATCH_ROWS", 50)
    monkeypatch.setattr(replay_batches, "RANGE_ROWS", 70)
    return Case(broker, archived, tmp_path)


def test_each_message_is_published_once_and_in_order_however_often_it_is_run(
    case: Case, messages: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Also when the run has forgotten its last batches, or all that it did; and what was archived after the
    plan is not sent."""
    case.archive = shutil.copytree(case.archive, tmp_path / "copy")
    plan = case.plan()
    assert (plan.messages, plan.sent, len(plan.sample)) == (len(messages), 0, replay.SAMPLE)
    assert not (case.place / "state").exists(), "a plan begins nothing"
    run = case.run()
    assert (run.progress.rows, run.progress.read) == (len(messages), run.progress.total)
    assert case.published == sent_bodies(messages)
    again = case.plan()
    assert (again.messages, again.sent, again.sample) == (0, len(messages), [])
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(archive_tables, "read")  # nothing is left to read
        assert case.run(again).progress.rows == 0
    assert len(case.published) == len(messages)

    folder = case.place / "state" / "pipeline" / case.name
    (folder / "sent.json").write_text(json.dumps({"places": {"007": {"epoch": 1, "pos": 100}}}))
    case.run()
    assert len(case.published) == len(messages)
    shutil.rmtree(folder)
    assert case.plan().messages == 0
    assert case.run().progress.rows == 0
    assert case.published == sent_bodies(messages)

    later = [row for row in traffic.traffic("b", seed=9, messages=20).rows if row["body"] is not None]
    for row in later:
        row["position"] += 1_000_000
    write(case.archive, "later", 0, later, table=MESSAGE)
    assert case.plan().messages == 0
    case.name = "another"
    assert case.plan().messages == len(messages) + 20


def test_a_run_that_is_stopped_goes_on_behind_its_last_batch(
    case: Case, messages: list[dict[str, Any]]
) -> None:
    def stop(progress: Progress) -> None:
        if progress.rows >= 100:
            os.kill(os.getpid(), signal.SIGTERM)

    case.show = stop
    assert case.run().stop.requested
    case.show = lambda _: None
    assert 100 <= len(case.published) < len(messages)
    run = case.run()
    assert run.progress.rows == len(messages) - 100
    assert case.published == sent_bodies(messages)


def test_a_limit_and_its_rate_are_kept(case: Case, messages: list[dict[str, Any]]) -> None:
    case.wish |= {"limit": 150, "rate": 500}
    began = time.monotonic()
    case.run()
    assert time.monotonic() - began > 100 / 500, "two of three batches wait for those before them"
    assert case.published == sent_bodies(messages[:150])
    assert case.run().progress.rows == 0


def test_other_messages_need_another_name(case: Case) -> None:
    case.wish["where"] = "body_size > 100"
    case.run()
    case.wish["where"] = "body_size > 50"
    with pytest.raises(
        PipelineError, match='where: "body_size > 100" before, "body_size > 50" now'
    ) as raised:
        case.plan()
    assert raised.value.code == USAGE


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("tenant = 'acme'", "name `tenant` cannot be resolved"),
        ("body_size >", "Syntax error"),
        ("body_size", "is not a boolean"),
    ],
)
def test_a_condition_that_is_not_understood_is_refused(
    case: Case, where: str, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    case.wish["where"] = where
    with pytest.raises(PipelineError, match="--where: ") as raised:
        case.plan()
    assert what in raised.value.what
    assert "about the columns broker, " in raised.value.fix
    assert raised.value.code == USAGE
    assert "Exception" not in capfd.readouterr().err, "the sentence is enough"


def test_an_archive_without_messages_is_refused(case: Case, tmp_path: Path) -> None:
    case.archive = tmp_path
    with pytest.raises(PipelineError, match="has no messages"):
        case.plan()


def test_what_a_broker_had_is_sent_as_it_was(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    given = {
        "mom-correlation-id": "c1", "mom-type": "order", "mom-reply-to": "/queue/replies", "mom-group": "g",
        "mom-priority": "7", "mom-expires-s": "3600", "mom-dedup-id": "d1", "mom-header-tenant": "acme",
        "content-type": "application/json", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    }  # fmt: skip
    reply = broker.request("POST", "/api/v1/queues/original/messages", b'{"a": 1}', **given)
    assert reply.status == 201, reply.body
    around = surroundings(tmp_path, BrokerApi(broker))
    archive.run(
        "archived", Source(f"file://{broker.data}", "A"), archive.Archive(tmp_path / "a", (MESSAGE,)), around
    )
    case = Case(broker, tmp_path / "a", tmp_path, destinations=["original"])
    case.run()
    (before,), (after,) = messages_of(broker, "original"), messages_of(broker, case.queue)
    assert before["headers"].pop("dedup-id") == "d1"
    for name in (
        "content_type",
        "correlation_id",
        "type",
        "reply_to",
        "headers",
        "trace",
        "priority",
        "body",
    ):
        assert after.get(name) == before.get(name), name
    assert after["id"] != before["id"]
    url = f"file://{broker.data}"
    expiry = [
        read_rows(parse({"url": url, "content": "messages", "destinations": queue}), "expires_ts")[0]
        for queue in ("original", case.queue)
    ]
    assert expiry[0]["expires_ts"] is not None
    assert expiry[1]["expires_ts"] is None


# --------------------------------------------------------------------------- the batches

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), max_size=40)


@given(SIZES, st.data())
def test_batches_are_the_same_wherever_a_run_begins_and_ranges_end(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """`sizes` are gaps between positions, and bytes of bodies."""
    positions = list(itertools.accumulate(gap for gap, _ in sizes))
    rows = pa.table(
        {
            "position": pa.array(positions, pa.int64()),
            "epoch": pa.array([3] * len(sizes), pa.int32()),
            "body": pa.array([b"x" * size for _, size in sizes], pa.binary()),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_batches, "BATCH_ROWS", 5)
        patch.setattr(replay_batches, "BATCH_BYTES", 60)
        whole = list(replay_batches.batches("A", [rows]))
        for batch in whole:
            assert batch.rows.num_rows <= 5
            assert sum(map(len, batch.rows["body"].to_pylist())) <= 60 or batch.rows.num_rows == 1
            assert (batch.broker, batch.epoch, batch.end) == ("A", 3, batch.rows["position"][-1].as_py() + 1)
        assert [each for batch in whole for each in batch.rows["position"].to_pylist()] == positions
        first = data.draw(st.integers(0, len(whole)))
        start = sum(batch.rows.num_rows for batch in whole[:first])
        cuts = sorted(data.draw(st.lists(st.integers(start, len(sizes)), max_size=4)))
        parts = [rows.slice(a, b - a) for a, b in itertools.pairwise([start, *cuts, len(sizes)])]
        assert [batch.rows for batch in replay_batches.batches("A", parts)] == [
            batch.rows for batch in whole[first:]
        ]


@given(
    st.lists(st.tuples(st.integers(1, 30_000), st.integers(0, 20 * 2**20)), max_size=20), st.integers(0, 50)
)
def test_ranges_have_all_positions_and_fit_into_memory(counts: list[tuple[int, int]], first: int) -> None:
    stretches = [Stretch(number * 3, rows, size) for number, (rows, size) in enumerate(counts)]
    end = 300 * len(counts)
    found = list(replay_batches.ranges(reversed(stretches), first, end))
    if not stretches:
        assert found == []
        return
    assert [start for start, _ in found] == [first, *(border for _, border in found[:-1])]
    assert found[-1][1] == end
    for number, (start, border) in enumerate(found):
        begin = 0 if number == 0 else start
        own = [each for each in stretches if begin <= each.number * replay_batches.STRETCH < border]
        assert own
        if len(own) > 1:
            assert sum(each.messages for each in own) <= replay_batches.RANGE_ROWS
            assert sum(each.bytes for each in own) <= replay_batches.RANGE_BYTES


def test_a_query_is_repeated_while_files_are_replaced() -> None:
    problems = iter([RuntimeError("[FAILED_READ_FILE.FILE_NOT_EXIST] x"), None, ValueError("other")])

    def query() -> str:
        problem = next(problems)
        if problem is not None:
            raise problem
        return "found"

    assert replay_batches.reading(query) == "found"
    with pytest.raises(ValueError, match="other"):
        replay_batches.reading(query)
