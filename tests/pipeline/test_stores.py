"""Journals in stores that brokers share are read as those in files, without their lease."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis

from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at
from pyspark_mom.errors import BrokerUnreachable, DataLoss, MomError
from pyspark_mom.options import parse
from pyspark_mom.ranges import Range, checked
from pyspark_mom.transport import open_journal
from tests.pipeline.stage import JournalStage
from tests.pipeline.test_brokers import ALL, positions, publish, rows, stream_of
from tests.support.samples import sample
from tests.support.stores import STORES, Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = itertools.count()
ONE = Holder("one:8000", "stomp://one:61613")
SECRET = "MOM_TEST_CREDENTIAL"

SERVERS = ["postgres", "redis"]


@pytest.fixture(scope="module", params=STORES)
def stores(processes: None, request: pytest.FixtureRequest) -> Iterator[Stores]:
    with STORES[request.param]() as server:
        yield server


@pytest.fixture
def name() -> str:
    return f"broker{next(NUMBERS)}"


@pytest.fixture
def shared(stores: Stores, name: str) -> Iterator[JournalStage]:
    def journal() -> SharedJournal:
        return SharedJournal(store_at(stores.url(), name), ONE, segment_bytes=4096)

    stage = JournalStage(journal, stores.url().replace("file:", "file://"))
    yield stage
    stage.journal.close()


def test_the_rows_are_those_of_the_broker(shared: JournalStage, name: str) -> None:
    client = shared.client()
    for _ in range(30):
        publish(shared, 3, b"x" * 100)
        shared.decide(client.sending("/queue/b", *[b"y"] * 7))
    client.subscribe("/queue/a")
    client.settle(*client.tags)
    expected = [{**row, "broker": name} for row in shared.expected]
    assert shared.rows(broker=name) == expected
    # Partitions begin within batches.
    assert shared.rows(broker=name, minPartitions="17") == expected


def test_a_stream_follows_the_broker_and_a_takeover(shared: JournalStage, name: str) -> None:
    publish(shared, 3)
    stream = stream_of({name: shared.url})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end) == [(name, 1), (name, 2), (name, 3)]
    shared.reopen()
    assert stream.latestOffset(end, ALL) == end
    publish(shared, 2)
    following = stream.latestOffset(end, ALL)
    assert following[name]["epoch"] > end[name]["epoch"]
    assert rows(stream, end, following) == [(name, 4), (name, 5)]
    assert positions(following) == {name: shared.end}
    stream.stop()


@pytest.mark.parametrize("stores", sample(STORES, 1), indirect=True)
def test_spark_follows_the_broker(
    spark: SparkSession, shared: JournalStage, name: str, tmp_path: Path
) -> None:
    publish(shared, 30)
    given = {"url": shared.url, "broker": name, "startingOffsets": "earliest", "maxRowsPerTrigger": "12"}
    stream = spark.readStream.format("mom").options(**given).schema("broker string, position bigint").load()
    query = (
        stream.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert [tuple(row) for row in spark.table(name).collect()] == [(name, number) for number in range(1, 31)]


def test_a_position_is_found_by_its_time(shared: JournalStage, name: str) -> None:
    start = shared.now_us
    publish(shared, 50, b"x" * 300)
    with closing(open_journal(name, shared.options(broker=name))) as journal:
        assert [journal.position_at(start + 1000 * number) for number in range(50)] == list(range(1, 51))
        assert journal.position_at(0) == 1
        assert journal.position_at(shared.now_us + 1) == shared.end == 51


def test_positions_that_are_gone_are_noticed(shared: JournalStage, name: str) -> None:
    publish(shared, 60, b"x" * 300)
    shared.client().purge("/queue/a")
    shared.snapshot()
    publish(shared, 1)
    with closing(open_journal(name, shared.options(broker=name))) as journal:
        low, end, epoch, tag = journal.span()
        assert 1 < low < end == shared.end
        part = Range(name, 1, end, epoch, tag)
        with pytest.raises(DataLoss, match=f"{name}: the positions 1 to {low - 1} are gone from the journal"):
            list(checked(journal, part, fail_on_loss=True))
        found = list(checked(journal, part, fail_on_loss=False))
        assert [found[0].frame.first_position, found[-1].frame.next_position] == [low, end]


def test_a_broker_that_was_never_started_is_refused_in_words(stores: Stores) -> None:
    url = stores.url().replace("file:", "file://")
    with (
        closing(open_journal("nobody", parse({"url": url, "broker": "nobody"}))) as journal,
        pytest.raises(BrokerUnreachable, match=r"\[BROKER_UNREACHABLE\] nobody: .* holds no journal"),
    ):
        journal.span()


@pytest.mark.parametrize("stores", SERVERS, indirect=True)
def test_a_store_that_does_not_answer_is_a_broker_that_is_away(stores: Stores, name: str) -> None:
    with (
        closing(open_journal(name, parse({"url": stores.url(1), "broker": name}))) as journal,
        pytest.raises(BrokerUnreachable, match=name),
    ):
        journal.span()


@pytest.mark.parametrize("stores", SERVERS, indirect=True)
def test_user_and_password_come_from_the_credential(
    stores: Stores, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(stores, "reader", "pass/word")
    url = f"{stores.url().partition('://')[0]}://127.0.0.1:{stores.port}"
    url += "/postgres" if url.startswith("postgres") else ""
    options = parse({"url": url, "broker": name, "credential": SECRET})
    for secret, problem in (
        ("reader:pass/word", "holds no journal"),
        ("unknown:pass/word", "unknown|invalid username"),
        ("token", "contains no USER:PASSWORD"),
    ):
        monkeypatch.setenv(SECRET, secret)
        journal = open_journal(name, options)
        with closing(journal), pytest.raises(MomError, match=problem) as raised:
            journal.span()
        assert "pass/word" not in str(raised.value)


@pytest.mark.parametrize("stores", ["postgres"], indirect=True)
def test_the_documented_role_for_readers_reads_the_journal_and_not_the_configuration(
    stores: Stores, shared: JournalStage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(shared, 3)
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text("utf-8")
    (statements,) = [part for part in page.split("```") if part.startswith("sql\nCREATE ROLE mom_reader")]
    with psycopg.connect(stores.url(), autocommit=True) as owner:
        owner.execute(statements.removeprefix("sql\n").replace("mom_journal_B1", f"mom_journal_{name}"))  # type: ignore[arg-type]
    url = f"postgresql://127.0.0.1:{stores.port}/postgres"
    monkeypatch.setenv(SECRET, "mom_reader:PASSWORD")
    stage_options = parse({"url": url, "broker": name, "credential": SECRET})
    with closing(open_journal(name, stage_options)) as journal:
        low, end, epoch, tag = journal.span()
        found = list(checked(journal, Range(name, low, end, epoch, tag), fail_on_loss=True))
        assert found[-1].frame.next_position == end == 4
        assert journal.position_at(shared.now_us + 1) == end
    with psycopg.connect(url, user="mom_reader", autocommit=True) as reader:
        for statement in ("SELECT content FROM note", "DELETE FROM batch", "UPDATE lease SET epoch = 9"):
            reader.execute(f"SET search_path = mom_journal_{name}")  # type: ignore[arg-type]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)  # type: ignore[arg-type]


def add_user(stores: Stores, user: str, password: str) -> None:
    """Add a user to a server."""
    if stores.url().startswith("postgres"):
        with psycopg.connect(stores.url(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")  # type: ignore[arg-type]
        return
    with redis.Redis(port=stores.port) as client:
        client.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "+@all")
