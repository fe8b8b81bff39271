"""Reconciliation of two brokers whose errors are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from broker_app.pipeline import reconciliations
from mom_pipeline.jobs import reconcile
from tests.pipeline import traffic

ORACLE = """
WITH home AS (SELECT * FROM read_parquet($1) WHERE peer_broker IS NOT NULL AND broker = 'home'),
     sent AS (SELECT message_position AS p, max(peer_broker) AS peer,
                     max(event) FILTER (event NOT IN ('ENQUEUE', 'FORWARD')) AS ended,
                     max(event_ts) FILTER (event = 'FORWARD_ACK') AS confirmed FROM home GROUP BY 1),
     arrived AS (SELECT origin_position AS p, count(*) AS n FROM read_parquet($2)
                 WHERE event = 'RECEIVE' GROUP BY 1)
SELECT p, CASE WHEN sent.peer IS NULL THEN 'foreign' WHEN n > 1 THEN 'doubled' WHEN n = 1 THEN 'ok'
               WHEN ended = 'EXPIRE' THEN 'expired' WHEN ended = 'DEADLETTER' THEN 'refused'
               WHEN ended IN ('DISCARD', 'PURGE', 'MOVE') THEN 'removed'
               WHEN epoch_us(confirmed) <= $3 THEN 'lost' ELSE 'in-flight' END
FROM sent FULL JOIN arrived USING (p) WHERE n > 0 OR sent.peer = 'west'
"""


@pytest.fixture(scope="module")
def case() -> traffic.Forwarding:
    """Messages that were forwarded, with every error."""
    return traffic.forwarding(seed=7)


@pytest.fixture(scope="module")
def files(case: traffic.Forwarding, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The events of both brokers; the receiver also has messages that nobody forwarded."""
    folder = tmp_path_factory.mktemp("events")
    home = traffic.write(folder / "home.parquet", case.home, traffic.traffic("home", seed=3, messages=50))
    return home, traffic.write(
        folder / "west.parquet", case.west, traffic.traffic("west", seed=4, messages=50)
    )


def reconciled(spark: SparkSession, files: tuple[Path, Path], until_us: int, **options: Any) -> DataFrame:
    home, west = (spark.read.parquet(str(path)) for path in files)
    until = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=until_us)
    bridge: dict[str, Any] = {"origin": "home", "bridges": ["west"], "received_until": until}
    return reconcile.transform(home, west, **bridge, **options)


def test_every_injected_error_is_found_with_its_ids_and_no_other(
    spark: SparkSession, case: traffic.Forwarding, files: tuple[Path, Path]
) -> None:
    messages = reconciled(spark, files, case.until_us).persist()
    rows = messages.collect()
    found = {row.origin_position: row.state for row in rows}
    assert len(found) == len(rows)
    assert found == case.states
    assert set(found.values()) == set(reconcile.STATES)
    parameters = [str(files[0]), str(files[1]), case.until_us - traffic.MINUTE_US]
    assert found == dict(duckdb.execute(ORACLE, parameters).fetchall())
    counts = {row.state: row.messages for row in reconcile.summary(messages).collect()}
    assert counts == {state: list(found.values()).count(state) for state in set(found.values())}
    report = reconcile.report(messages).collect()
    messages.unpersist()
    assert {row.origin_position for row in report} == {
        place for place, state in found.items() if state != "ok"
    }
    sent = {row["position"]: row["message_id"] for row in case.home.rows if row["event"] == "ENQUEUE"}
    received = {row["origin_position"]: row["message_id"] for row in case.west.rows}
    for row in report:
        known = received if row.state == "foreign" else sent
        assert row.message_id == known[row.origin_position]
        assert (row.destination is None) == (row.state == "foreign")
        assert row.arrivals == {"doubled": 2, "foreign": 1}.get(row.state, 0)
        assert (row.first_position != row.last_position) == (row.state == "doubled") or row.arrivals == 0


def test_a_confirmed_message_is_in_flight_until_the_receiver_was_read_past_the_grace(
    spark: SparkSession, case: traffic.Forwarding, files: tuple[Path, Path]
) -> None:
    early = reconciled(spark, files, traffic.START_US).filter("state = 'lost'")
    assert early.count() == 0
    late = reconciled(spark, files, case.until_us + traffic.MINUTE_US)
    confirmed = [row for row in case.home.rows if row["event_ts"] == case.until_us - traffic.MINUTE_US + 1]
    states = {row.origin_position: row.state for row in late.collect()}
    assert confirmed
    assert all(states[row["message_position"]] == "lost" for row in confirmed)


def test_only_positions_of_the_range_are_compared(
    spark: SparkSession, case: traffic.Forwarding, files: tuple[Path, Path]
) -> None:
    places = sorted(case.states)
    start, end = places[100], places[300]
    found = reconciled(spark, files, case.until_us, start=start, end=end).collect()
    assert {row.origin_position: row.state for row in found} == {
        place: state for place, state in case.states.items() if start <= place < end
    }


def test_a_message_of_another_bridge_to_the_same_receiver_is_not_foreign(
    spark: SparkSession, tmp_path: Path
) -> None:
    home, west = traffic.Journal("home"), traffic.Journal("west")
    message = traffic.Message(1, "/queue/storeAndForward:west2/queue/orders", traffic.START_US, b"")
    position = home.record("ENQUEUE", traffic.START_US, message)
    west.record(
        "RECEIVE",
        traffic.START_US,
        traffic.Message(1, "/queue/orders", traffic.START_US, b"", origin=("home", position)),
    )
    files = traffic.write(tmp_path / "home.parquet", home), traffic.write(tmp_path / "west.parquet", west)
    assert [row.state for row in reconciled(spark, files, traffic.START_US).collect()] == ["ok"]


def test_a_comparison_without_bridges_or_time_zone_is_refused(
    spark: SparkSession, files: tuple[Path, Path]
) -> None:
    home, west = (spark.read.parquet(str(path)) for path in files)
    now = datetime.now(UTC)
    with pytest.raises(ValueError, match="name the bridges"):
        reconcile.transform(home, west, origin="home", bridges=[], received_until=now)
    with pytest.raises(ValueError, match="no time zone"):
        reconcile.transform(
            home, west, origin="home", bridges=["west"], received_until=now.replace(tzinfo=None)
        )


def test_the_console_knows_all_states() -> None:
    assert reconciliations.STATES == reconcile.STATES
    assert reconciliations.DIFFERENCES == reconcile.DIFFERENCES
