"""Positions as clients name them, with the tag of the journal that gave them."""

from __future__ import annotations

import pytest

from broker_app.core.position import FROM_NOW, UNKNOWN, Position, known_start
from tests.core.stage import Client, Stage


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    client: Client = stage.client()
    for _ in range(3):
        client.publish("/queue/a", b"x")
    return stage


@pytest.mark.parametrize("text", ["3f0a1c2-90412", "0-1"])
def test_a_position_is_read_as_it_was_written(text: str) -> None:
    position = Position.read(text)
    assert position is not None and position.journal and str(position) == text


@pytest.mark.parametrize("text", ["", "-", "-7", "a-", "a-b", "7a", "a-٣", "1" * 19])
def test_what_is_no_position_is_none(text: str) -> None:
    assert Position.read(text) is None


def test_a_position_was_given_by_its_own_journal_alone(stage: Stage) -> None:
    turn = stage.broker.turn
    own, last = turn.ids.journal, turn.next_position - 1
    given = (Position(0), Position(last), Position(last, own), Position(FROM_NOW))
    never = (Position(last + 1), Position(1, f"{own}0"), Position(last + 1, own), UNKNOWN)
    assert all(one.was_given(turn) for one in given)
    assert not any(one.was_given(turn) for one in never)


def test_a_replay_begins_at_a_position_of_its_own_journal_and_else_at_the_oldest_message(
    stage: Stage,
) -> None:
    turn = stage.broker.turn
    own, following = turn.ids.journal, turn.next_position
    assert known_start(f"seq:{own}-2", turn) == ("seq:2", False)
    assert known_start(f"seq:{own}-{following}", turn) == (f"seq:{following}", False)
    assert known_start(f"seq:{own}-{following + 1}", turn) == ("first", True)
    assert known_start(f"seq:{own}0-2", turn) == ("first", True)
    for other in ("", "first", "seq:2", "seq:90412", "time:1-2", "seq:", "seq:a-"):
        assert known_start(other, turn) == (other, False)
