"""Deduplication windows: ids that are restored together are found, dropped and limited as any."""

from __future__ import annotations

import random
from hashlib import blake2b

import pytest

from broker_app.core.message import DeliveryOptions
from broker_app.core.publishing.dedup import DedupWindow, DedupWindows, FirstMessage
from broker_app.core.storage.rows import Rows
from tests.core.stage import Stage

QUEUE = "/queue/a"


def digest(number: int) -> bytes:
    """The digest of an id; of each four, two have the same first half."""
    whole = blake2b(b"%d" % number, digest_size=16).digest()
    return blake2b(b"%d" % (number // 2), digest_size=8).digest() + whole[8:]


def halves(number: int) -> tuple[int, int]:
    whole = digest(number)
    return int.from_bytes(whole[:8], "little"), int.from_bytes(whole[8:], "little")


def test_a_window_is_the_same_whether_ids_are_indexed_one_by_one_or_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DedupWindow, "CHUNK", 4)
    monkeypatch.setattr(Rows, "CHUNK", 3)
    window, expected = DedupWindow(), {}
    for number in range(400):
        match random.choice(("append", "append", "append", "add", "drop", "find", "index")):
            case "append":
                window.append_recorded(*halves(number), number, 1_000 + number)
                expected[number] = FirstMessage(number, 1_000 + number, True)
            case "add":
                expected[number] = seen = FirstMessage(number, 1_000 + number, False)
                window.add(digest(number), seen)
            case "drop" if expected:
                window.drop()
                del expected[next(iter(expected))]
            case "find":
                wanted = random.randrange(number + 1)
                assert window.find(digest(wanted), 0) == expected.get(wanted)
            case "index":
                window.index()
        assert len(window) == len(expected)
    assert {number: window.find(digest(number), 0) for number in range(400)} == {
        number: expected.get(number) for number in range(400)
    }


def test_restored_ids_keep_the_limits() -> None:
    windows = DedupWindows(3, 4)
    for number in range(5):
        windows.apply(QUEUE, *halves(number), number, 1_000 + number)
    for number in range(5, 8):
        windows.apply("/queue/b", *halves(number), number, 1_000 + number)
    windows.index()
    assert [windows.first(QUEUE, digest(number), 2_000, 2_000) for number in range(5)] == [
        *(None, None),
        *(FirstMessage(number, 1_000 + number, True) for number in (2, 3, 4)),
    ]
    assert windows.first("/queue/b", digest(7), 2_000, 2_000) == FirstMessage(7, 1_007, True)
    assert windows.facts("/queue/b", 2_000, 9_000) == (1, 993)


def test_a_restart_sorts_ids_at_once_and_searches_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    client = stage.client()
    for number in range(20):
        client.publish(QUEUE, b"%d" % number, options=DeliveryOptions(dedup_id=str(number)))
        if number == 9:
            snapshot, before = stage.take_snapshot(), len(stage.batches)

    def refuse(*_: object) -> None:
        raise AssertionError("an id was searched or indexed by itself")

    with monkeypatch.context() as during:
        during.setattr(Rows, "add", refuse)
        during.setattr(Rows, "find", refuse)
        restored = stage.recovered(snapshot, before)
    stage.restart(restored)
    for number in range(20):
        stage.client().publish(QUEUE, b"again", options=DeliveryOptions(dedup_id=str(number)))
    assert stage.broker.turn.counters["duplicates"] == 20


def test_of_the_copies_of_a_message_one_id_is_restored() -> None:
    stage = Stage()
    for name in "ab":
        stage.client().subscribe("/topic/t", durable=True, name=name)
    stage.client().publish("/topic/t", b"1", options=DeliveryOptions(dedup_id="x"))
    stage.restart()
    assert stage.broker.publisher.dedup_windows.facts("/topic/t", stage.now_ms, 1_000)[0] == 1
    stage.client().publish("/topic/t", b"1", options=DeliveryOptions(dedup_id="x"))
    assert stage.broker.turn.counters["duplicates"] == 1
