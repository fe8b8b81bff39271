"""Operators' actions wait in a bounded buffer; reads are recorded once a minute."""

import pytest

from broker_app.base.audit_actions import MESSAGES_PURGED, QUEUE_READ
from broker_app.net.operator_audit import Operator, OperatorActions
from tests.support.clock import Clock

ANN = Operator("ann", None, "api", "192.0.2.7")
QUEUE = "/queue/orders"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def actions(clock: Clock) -> OperatorActions:
    return OperatorActions(clock)


def test_actions_are_taken_once_in_their_order(actions: OperatorActions) -> None:
    actions.note(ANN, MESSAGES_PURGED, QUEUE, messages=3)
    actions.note(ANN, MESSAGES_PURGED, "/queue/b")
    taken = actions.take()
    assert [(action.time, action.operator, action.action, action.key) for action in taken] == [
        (1000.0, ANN, "purged", QUEUE), (1000.0, ANN, "purged", "/queue/b"),
    ]  # fmt: skip
    assert taken[0].facts == {"messages": 3}
    assert actions.take() == []


def test_lost_actions_are_counted_and_reported(
    actions: OperatorActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OperatorActions, "MOST", 2)
    for number in range(5):
        actions.note(ANN, MESSAGES_PURGED, f"/queue/{number}")
    assert [(action.action, action.key, action.facts) for action in actions.take()] == [
        ("purged", "/queue/0", {}), ("purged", "/queue/1", {}), ("not recorded", "", {"actions": 3}),
    ]  # fmt: skip
    assert actions.take() == []


def readings(actions: OperatorActions, *, last: bool = False) -> list[tuple[str, str, int]]:
    return [
        (action.operator.user, action.key, action.facts["messages"])
        for action in actions.take(last=last)
        if action.action == "read"
    ]


def test_the_first_read_is_recorded_at_once_and_further_ones_after_a_minute(
    actions: OperatorActions, clock: Clock
) -> None:
    actions.note_reading(ANN, QUEUE_READ, QUEUE, 50)
    assert readings(actions) == [("ann", QUEUE, 50)]
    for second in range(30):
        clock.now = 1000.0 + second
        actions.note_reading(ANN._replace(trace_id=str(second)), QUEUE_READ, QUEUE, 10)
    assert readings(actions) == []
    clock.now = 1061.0
    assert readings(actions) == [("ann", QUEUE, 300)]
    clock.now = 1122.0
    assert readings(actions) == []
    actions.note_reading(ANN, QUEUE_READ, QUEUE, 1)
    assert readings(actions) == [("ann", QUEUE, 1)], "a new beginning is recorded at once"


def test_reads_are_recorded_by_user_and_destination(actions: OperatorActions) -> None:
    actions.note_reading(ANN, QUEUE_READ, QUEUE, 1)
    actions.note_reading(ANN._replace(user="bob"), QUEUE_READ, QUEUE, 2)
    actions.note_reading(ANN._replace(token="laptop"), QUEUE_READ, QUEUE, 3)
    actions.note_reading(ANN, QUEUE_READ, "/queue/b", 4)
    actions.note_reading(ANN, QUEUE_READ, "/queue/empty", 0)
    assert [messages for _, _, messages in readings(actions)] == [1, 2, 3, 4]


def test_combined_reads_are_recorded_at_the_end(actions: OperatorActions) -> None:
    actions.note_reading(ANN, QUEUE_READ, QUEUE, 1)
    actions.note_reading(ANN, QUEUE_READ, QUEUE, 2)
    assert readings(actions, last=True) == [("ann", QUEUE, 1), ("ann", QUEUE, 2)]


def test_readers_are_bounded(actions: OperatorActions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OperatorActions, "MOST", 2)
    for number in range(3):
        actions.note_reading(ANN, QUEUE_READ, f"/queue/{number}", 1)
    assert [action.action for action in actions.take()] == ["read", "read", "not recorded"]
