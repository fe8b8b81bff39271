"""Brokers of one query: those that are away, journals that are others, and where a query begins."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pyspark_mom.brokers import Brokers
from pyspark_mom.errors import BrokerUnreachable, DataLoss, InvalidOption, JournalReplaced
from pyspark_mom.options import parse
from pyspark_mom.ranges import Range
from pyspark_mom.reader import JournalReader
from pyspark_mom.schema import arrow_schema
from pyspark_mom.stream import JournalStreamReader
from tests.pipeline.conftest import MakeStage
from tests.pipeline.stage import JournalStage
from tests.pipeline.test_ranges import without_the_beginning
from tests.pipeline.test_segment_files import SMALL

Stored = dict[str, Any]
ALL = ReadAllAvailable()


def publish(stage: JournalStage, count: int, body: bytes = b"x") -> None:
    client = stage.client()
    for _ in range(count):
        client.publish("/queue/a", body)
        stage.now_us += 1000


def stream_of(brokers: dict[str, str], **given: str) -> JournalStreamReader:
    options = parse({"brokers": json.dumps(brokers), "startingOffsets": "earliest", **given}, streaming=True)
    return JournalStreamReader(options, arrow_schema(["broker", "position"]))


def positions(offset: Stored) -> dict[str, int]:
    return {name: place["pos"] for name, place in offset.items()}


def rows(stream: JournalStreamReader, start: Stored, end: Stored) -> list[tuple[str, int]]:
    found = []
    for part in stream.partitions(start, end):
        for batch in stream.read(part):
            found += [(row["broker"], row["position"]) for row in batch.to_pylist()]
    return found


def test_a_stream_reads_up_to_the_ends_of_all_brokers(make_stage: MakeStage) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(one, 3)
    publish(two, 2)
    stream = stream_of({"A": one.url, "B": two.url})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert (positions(start), positions(end)) == ({"A": 1, "B": 1}, {"A": 4, "B": 3})
    assert rows(stream, start, end) == [("A", 1), ("A", 2), ("A", 3), ("B", 1), ("B", 2)]
    assert stream.reportLatestOffset() == end
    publish(one, 1)
    following = stream.latestOffset(end, ALL)
    assert rows(stream, end, following) == [("A", 4)]
    assert json.dumps(stream.latestOffset(following, ALL)) == json.dumps(following)
    assert stream.partitions(following, following) == []


def test_a_reader_is_sent_to_workers_without_what_it_has_opened(make_stage: MakeStage) -> None:
    stage = make_stage()
    publish(stage, 2)
    stream = stream_of({"A": stage.url})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    sent = pickle.dumps(stream)
    assert len(sent) < 2000
    assert rows(pickle.loads(sent), start, end) == [("A", 1), ("A", 2)]


def test_a_limit_of_rows_is_shared_by_the_brokers(make_stage: MakeStage) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(one, 30)
    publish(two, 10)
    stream = stream_of({"A": one.url, "B": two.url}, maxRowsPerTrigger="8")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    start = stream.initialOffset()
    found, batches = [], 0
    while (end := stream.latestOffset(start, limit)) != start:
        batch = rows(stream, start, end)
        assert 0 < len(batch) <= 8
        found += batch
        start, batches = end, batches + 1
    assert sorted(found) == [("A", n) for n in range(1, 31)] + [("B", n) for n in range(1, 11)]
    assert batches == 5


def test_a_limit_of_bytes_is_about_what_is_stored(make_stage: MakeStage) -> None:
    stage = make_stage()
    publish(stage, 100, b"x" * 1000)
    stream = stream_of({"A": stage.url}, maxBytesPerTrigger="20000")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxBytes(20000)
    start = stream.initialOffset()
    assert 15 <= positions(stream.latestOffset(start, limit))["A"] - 1 <= 20
    # A limit that is smaller than a record reads one all the same.
    assert positions(stream.latestOffset(start, ReadMaxBytes(1))) == {"A": 2}


def test_available_now_ends_where_the_journals_ended_when_the_query_began(make_stage: MakeStage) -> None:
    stage = make_stage()
    publish(stage, 5)
    stream = stream_of({"A": stage.url}, maxRowsPerTrigger="2")
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    publish(stage, 5)
    ends = []
    while (end := stream.latestOffset(start, ReadMaxRows(2))) != start:
        ends.append(positions(end)["A"])
        start = end
    assert ends == [3, 5, 6]


def test_available_now_fails_when_no_broker_is_reached(make_stage: MakeStage, tmp_path: Path) -> None:
    """It would end as if it had read all that is there."""
    stage = make_stage()
    publish(stage, 5)
    stream = stream_of({"A": stage.url})
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    stage.directory.rename(tmp_path / "away")
    with pytest.raises(BrokerUnreachable, match="A: "):
        stream_of({"A": stage.url}).prepareForTriggerAvailableNow()
    with pytest.raises(BrokerUnreachable, match="A: "):
        stream.latestOffset(start, ALL)


def test_a_broker_that_is_away_keeps_its_place_and_does_not_hold_up_the_others(
    make_stage: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(one, 2)
    publish(two, 2)
    stream = stream_of({"A": one.url, "B": two.url})
    start = stream.initialOffset()
    two.directory.rename(tmp_path / "away")
    publish(one, 1)
    with caplog.at_level(logging.WARNING, "pyspark_mom"):
        end = stream.latestOffset(start, ALL)
        assert stream.latestOffset(end, ALL) == end
    assert positions(end) == {"A": 4, "B": 1}
    assert caplog.text.count("[BROKER_UNREACHABLE] B: ") == 1
    assert stream.reportLatestOffset() == {"A": end["A"]}

    (tmp_path / "away").rename(two.directory)
    stream = stream_of({"A": one.url, "B": two.url})
    assert rows(stream, end, stream.latestOffset(end, ALL)) == [("B", 1), ("B", 2)]


def test_a_broker_that_goes_away_is_marked_in_the_progress(make_stage: MakeStage, tmp_path: Path) -> None:
    stage = make_stage()
    publish(stage, 2)
    stream = stream_of({"A": stage.url})
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stage.directory.rename(tmp_path / "away")
    assert stream.latestOffset(end, ALL) == end
    assert stream.reportLatestOffset() == {"A": {**end["A"], "unreachable": True}}


def test_a_broker_that_is_away_is_tried_again_after_a_while(make_stage: MakeStage, tmp_path: Path) -> None:
    stage = make_stage()
    stage.directory.rename(tmp_path / "away")
    now = 0.0
    brokers = Brokers(parse({"url": stage.url}), fail_on_unreachable=False, clock=lambda: now)
    assert brokers.spans() == {} and set(brokers.unreachable) == {"mom"}
    (tmp_path / "away").rename(stage.directory)
    assert brokers.spans() == {}, "not yet"
    now += 1.0
    assert set(brokers.spans()) == {"mom"} and not brokers.unreachable


def test_a_broker_that_is_away_is_an_error_if_that_is_wanted(make_stage: MakeStage, tmp_path: Path) -> None:
    one = make_stage("one")
    brokers = {"A": one.url, "B": f"file://{tmp_path}/none"}
    with pytest.raises(BrokerUnreachable, match="B: "):
        stream_of(brokers, failOnUnreachable="true").initialOffset()
    with pytest.raises(BrokerUnreachable, match="B: "):
        JournalReader(parse({"brokers": json.dumps(brokers)}), arrow_schema(["position"])).partitions()
    # Without any broker there is nothing to begin with.
    with pytest.raises(BrokerUnreachable, match="B: "):
        stream_of({"B": brokers["B"]}).initialOffset()


def test_a_broker_that_joins_begins_in_a_checkpoint_before_it_is_read(make_stage: MakeStage) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(one, 2)
    publish(two, 2)
    start = stream_of({"A": one.url}).initialOffset()
    stream = stream_of({"A": one.url, "B": two.url})
    first = stream.latestOffset(start, ALL)
    second = stream.latestOffset(first, ALL)
    assert [positions(each) for each in (first, second)] == [{"A": 3, "B": 1}, {"A": 3, "B": 3}]
    assert rows(stream, start, first) == [("A", 1), ("A", 2)]
    assert rows(stream, first, second) == [("B", 1), ("B", 2)]


def test_a_broker_that_is_left_out_keeps_its_place_in_the_checkpoint(make_stage: MakeStage) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(two, 1)
    both = stream_of({"A": one.url, "B": two.url})
    end = both.latestOffset(both.initialOffset(), ALL)
    publish(one, 1)
    assert positions(stream_of({"A": one.url}).latestOffset(end, ALL)) == {"A": 2, "B": 2}


def test_a_restart_of_the_broker_is_no_new_journal(make_stage: MakeStage) -> None:
    stage = make_stage()
    publish(stage, 2)
    stream = stream_of({"A": stage.url})
    end = stream.latestOffset(stream.initialOffset(), ALL)
    stage.reopen()
    assert stream.latestOffset(end, ALL) == end
    publish(stage, 1)
    following = stream.latestOffset(end, ALL)
    assert following["A"]["epoch"] > end["A"]["epoch"]
    assert rows(stream, end, following) == [("A", 3)]


def test_another_journal_at_the_same_address_is_refused(make_stage: MakeStage) -> None:
    one, other = make_stage("one"), make_stage("other")
    publish(one, 2)
    publish(other, 5)
    end = stream_of({"A": one.url}).latestOffset(stream_of({"A": one.url}).initialOffset(), ALL)
    with pytest.raises(
        JournalReplaced, match=r"\[JOURNAL_REPLACED\] A: the journal is another one \(tag \d+\)"
    ):
        stream_of({"A": other.url}).latestOffset(end, ALL)


def test_a_broker_with_another_name_is_not_read_again_from_its_start(make_stage: MakeStage) -> None:
    one, two = make_stage("one"), make_stage("two")
    publish(one, 2)
    end = stream_of({"A": one.url}).latestOffset(stream_of({"A": one.url}).initialOffset(), ALL)
    with pytest.raises(InvalidOption, match=r"the journal of B was read as A .* name the broker A again"):
        stream_of({"B": one.url}).latestOffset(end, ALL)
    joined = stream_of({"B": two.url}).latestOffset(end, ALL)
    assert set(joined) == {"A", "B"}, "another broker may take the place of one that is gone"


@pytest.mark.parametrize("change", [{"pos": 9}, {"epoch": 9}])
def test_an_older_copy_of_the_journal_is_refused(make_stage: MakeStage, change: dict[str, int]) -> None:
    stage = make_stage()
    publish(stage, 2)
    stream = stream_of({"A": stage.url})
    end = stream.latestOffset(stream.initialOffset(), ALL)
    end["A"] |= change
    with pytest.raises(
        JournalReplaced, match=r"it was read up to \d in epoch \d, so it was restored from an older"
    ):
        stream.latestOffset(end, ALL)


def test_a_stream_whose_next_positions_are_gone_is_an_error_before_it_reads(make_stage: MakeStage) -> None:
    stage = make_stage(options=SMALL)
    publish(stage, 1)
    start = stream_of({"A": stage.url}).initialOffset()
    low = without_the_beginning(stage)
    with pytest.raises(DataLoss, match=f"A: the positions 1 to {low - 1} are gone"):
        stream_of({"A": stage.url}).latestOffset(start, ALL)
    stream = stream_of({"A": stage.url}, failOnDataLoss="false")
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end)[0] == ("A", low)


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ({}, 1, 11),
        ({"startingOffsets": "latest"}, 11, 11),
        ({"endingOffsets": "earliest"}, 1, 1),
        ({"startingOffsets": '{"mom": 3}', "endingOffsets": '{"mom": 7}'}, 3, 7),
        ({"startingOffsets": '{"mom": "latest"}'}, 11, 11),
        ({"startingTimestamp": "1800000000003", "endingTimestamp": "1800000000005"}, 4, 6),
        ({"startingTimestamp": "2000-01-01T00:00:00Z", "endingTimestamp": "2100-01-01T00:00:00Z"}, 1, 11),
    ],
)
def test_where_a_batch_begins_and_ends(
    stage: JournalStage, given: dict[str, str], start: int, end: int
) -> None:
    publish(stage, 10)
    parts = JournalReader(parse({"url": stage.url, **given}), arrow_schema(["position"])).partitions()
    found = [(part.start, part.end) for part in parts if isinstance(part, Range)]
    assert found == ([(start, end)] if start < end else [])


def test_a_position_behind_the_end_is_refused(stage: JournalStage) -> None:
    reader = JournalReader(
        parse({"url": stage.url, "startingOffsets": '{"mom": 5}'}), arrow_schema(["position"])
    )
    with pytest.raises(
        InvalidOption, match="startingOffsets: the journal of mom ends before position 1; 5 is behind"
    ):
        reader.partitions()


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (
            {"startingOffsets": '{"mom": 7}', "endingOffsets": '{"mom": 3}'},
            "startingOffsets: position 7 of mom is behind the end, which is position 3",
        ),
        (
            {"startingTimestamp": "1800000000005", "endingTimestamp": "1800000000003"},
            "startingTimestamp: position 6 of mom is behind the end, which is position 4",
        ),
    ],
)
def test_a_range_that_ends_before_it_begins_is_refused(
    stage: JournalStage, given: dict[str, str], refusal: str
) -> None:
    publish(stage, 10)
    with pytest.raises(InvalidOption, match=refusal):
        JournalReader(parse({"url": stage.url, **given}), arrow_schema(["position"])).partitions()
