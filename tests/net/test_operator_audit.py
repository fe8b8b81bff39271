"""Operators' actions wait in a bounded buffer; reads are recorded once a minute."""

import pytest

from broker_app.net.operator_audit import LOST, PURGED, READ, Acts, Doer
from tests.support.clock import Clock

ANN = Doer("ann", None, "api", "192.0.2.7")
QUEUE = "/queue/orders"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def acts(clock: Clock) -> Acts:
    return Acts(clock)


def test_actions_are_taken_once_in_their_order(acts: Acts) -> None:
    acts.note(ANN, PURGED, "queues", QUEUE, messages=3)
    acts.note(ANN, PURGED, "queues", "/queue/b")
    taken = acts.take()
    assert [(act.time, act.doer, act.act, act.key) for act in taken] == [
        (1000.0, ANN, PURGED, QUEUE), (1000.0, ANN, PURGED, "/queue/b"),
    ]  # fmt: skip
    assert taken[0].facts == {"messages": 3}
    assert acts.take() == []


def test_lost_actions_are_counted_and_reported(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acts, "MOST", 2)
    for number in range(5):
        acts.note(ANN, PURGED, "queues", f"/queue/{number}")
    assert [(act.act, act.key, act.facts) for act in acts.take()] == [
        (PURGED, "/queue/0", {}), (PURGED, "/queue/1", {}), (LOST, "", {"acts": 3}),
    ]  # fmt: skip
    assert acts.take() == []


def readings(acts: Acts, *, last: bool = False) -> list[tuple[str, str, int]]:
    return [
        (act.doer.user, act.key, act.facts["messages"]) for act in acts.take(last=last) if act.act == READ
    ]


def test_the_first_read_is_recorded_at_once_and_further_ones_after_a_minute(acts: Acts, clock: Clock) -> None:
    acts.note_reading(ANN, "queues", QUEUE, 50)
    assert readings(acts) == [("ann", QUEUE, 50)]
    for second in range(30):
        clock.now = 1000.0 + second
        acts.note_reading(ANN._replace(trace_id=str(second)), "queues", QUEUE, 10)
    assert readings(acts) == []
    clock.now = 1061.0
    assert readings(acts) == [("ann", QUEUE, 300)]
    clock.now = 1122.0
    assert readings(acts) == []
    acts.note_reading(ANN, "queues", QUEUE, 1)
    assert readings(acts) == [("ann", QUEUE, 1)], "who begins again is told of at once"


def test_reads_are_recorded_by_user_and_destination(acts: Acts) -> None:
    acts.note_reading(ANN, "queues", QUEUE, 1)
    acts.note_reading(ANN._replace(user="bob"), "queues", QUEUE, 2)
    acts.note_reading(ANN._replace(token="laptop"), "queues", QUEUE, 3)
    acts.note_reading(ANN, "queues", "/queue/b", 4)
    acts.note_reading(ANN, "queues", "/queue/empty", 0)
    assert [messages for _, _, messages in readings(acts)] == [1, 2, 3, 4]


def test_combined_reads_are_recorded_at_the_end(acts: Acts) -> None:
    acts.note_reading(ANN, "queues", QUEUE, 1)
    acts.note_reading(ANN, "queues", QUEUE, 2)
    assert readings(acts, last=True) == [("ann", QUEUE, 1), ("ann", QUEUE, 2)]


def test_readers_are_bounded(acts: Acts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acts, "MOST", 2)
    for number in range(3):
        acts.note_reading(ANN, "queues", f"/queue/{number}", 1)
    assert [act.act for act in acts.take()] == [READ, READ, LOST]
