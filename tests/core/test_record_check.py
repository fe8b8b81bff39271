"""Records that are stored with a right checksum and make no sense are found."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker_app.core.durability import record_check, records
from broker_app.core.durability.records import Terms
from broker_app.journal.codec import iterate_records
from broker_app.journal.tools.inspect import dump, verify
from tests.core.stage import Stage
from tests.journal.stage import Life, batch_of, quick_journal


def test_all_records_that_a_broker_writes_make_sense() -> None:
    stage = Stage(max_attempts=1)
    client, taker = stage.client("c"), stage.client("t")
    for address in ("/queue/a", "/topic/t"):
        client.publish(address, b"x", persistent=True)
    taker.subscribe("/queue/a")
    taker.disconnect()
    again = stage.client("t")
    again.subscribe("/queue/a")
    for tag in again.tags:
        again.settle(tag)
    client.publish("/queue/a", b"y")
    client.purge("/queue/a")
    client.publish("/queue/a", b"z")
    kinds = set()
    for batch in stage.batches:
        for kind, record in iterate_records(batch.records):
            record_check.check(record, len(batch.destinations))
            kinds.add(kind)
    assert {records.PUBLISHED, records.ACKED} <= kinds
    record_check.check(records.subscribed(0, Terms("/topic/a", "", False, "anna")), 1)
    record_check.check(records.forgotten(0), 1)
    record_check.check(records.offset_set(0, ("anna", 1, 2, 3)), 1)
    record_check.check(records.delivered(0, 4, 7), 1)


ACKED = records.acked(0, 0, [7, 8])
PUBLISHED = struct.pack("<IBBBBIIQQ", 36, records.PUBLISHED, 1, 0, 4, 0, 0, 1, 0)
NONSENSE = {
    "type": (ACKED[:4] + b"\x63" + ACKED[5:], "unknown type 99"),
    "version": (ACKED[:5] + b"\x63" + ACKED[6:], "unknown version 99"),
    "cause": (ACKED[:6] + b"\x63" + ACKED[7:], "unknown cause 99"),
    "destination": (records.acked(5, 0, [7]), "entry 5 of a table of 1"),
    "rows": (ACKED[:-3], "no whole rows"),
    "short": (ACKED[:8], "too short"),
    "priority": (PUBLISHED[:7] + b"\x63" + PUBLISHED[8:], "priority 99"),
    "block": (PUBLISHED[:12] + b"\xff\x00\x00\x00" + PUBLISHED[16:], "shorter than its headers"),
    "address": (PUBLISHED[:6] + b"\x20" + PUBLISHED[7:], "shorter than its address"),
    "fields": (PUBLISHED[:6] + b"\x02" + PUBLISHED[7:], "shorter than its fields"),
    "topic": (records.subscribed(0, Terms("", "", False, "anna")), "has no topic"),
}


@pytest.mark.parametrize(("record", "said"), NONSENSE.values(), ids=NONSENSE.keys())
def test_a_record_that_makes_no_sense_is_refused_in_words(record: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        record_check.check(record, 1)


def test_verify_reports_nonsense_whose_checksum_is_right(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.publish(b"one", b"two")  # not what a broker writes
    life.close()
    assert not any(finding.damage for finding in verify(tmp_path))
    damaged = [finding for finding in verify(tmp_path, record_check.check) if finding.damage]
    assert "the batch's records make no sense" in damaged[0].sentence
    assert list(dump(tmp_path))


def test_dump_leaves_out_a_batch_whose_records_cannot_be_told_apart(tmp_path: Path) -> None:
    life = Life(quick_journal(tmp_path))
    life.publish(b"one")
    life.commit(batch_of(2, [b"\x02\x00\x00\x00\x01\x01"]))
    life.close()
    assert [batch["first_position"] for batch in dump(tmp_path)] == [1]
    assert "make no sense" in next(found for found in verify(tmp_path) if found.damage).sentence
