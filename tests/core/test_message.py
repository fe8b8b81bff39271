from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.core.message import Envelope, Message, MessageIds

MILLISECONDS = st.integers(0, 2**48 - 1)
POSITIONS = st.integers(1, 2**48 - 1)


def message_at(time_ms: int, position: int) -> Message:
    return Message(Envelope("/queue/a"), b"", position, time_ms, True)


def id_of(tag: int, time_ms: int, position: int) -> str:
    return MessageIds(tag).of(message_at(time_ms, position)).decode()


@given(st.integers(0, 2**26 - 1), MILLISECONDS, POSITIONS)
def test_an_id_is_a_uuid_version_7_of_its_millisecond(tag: int, time_ms: int, position: int) -> None:
    text = id_of(tag, time_ms, position)
    uuid = UUID(text)
    assert str(uuid) == text
    assert uuid.version == 7
    assert uuid.variant == "specified in RFC 4122"
    assert uuid.int >> 80 == time_ms


@given(st.integers(), MILLISECONDS, POSITIONS)
def test_an_id_leads_to_its_position(tag: int, time_ms: int, position: int) -> None:
    assert MessageIds.position(id_of(tag, time_ms, position)) == position


@given(st.tuples(MILLISECONDS, POSITIONS), st.tuples(MILLISECONDS, POSITIONS))
def test_ids_of_one_broker_sort_by_time_then_position(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (id_of(9, *one) < id_of(9, *other)) == (one < other)


@given(st.integers(0, 2**26 - 1), st.integers(0, 2**26 - 1))
def test_ids_of_brokers_with_different_tags_differ(one: int, other: int) -> None:
    assert (id_of(one, 5, 6) == id_of(other, 5, 6)) == (one == other)


def test_one_source_makes_ids_of_changing_milliseconds() -> None:
    ids = MessageIds(1)
    made = [ids.of(message_at(time_ms, 1)) for time_ms in (1, 2, 1, 2)]
    assert made[0] == made[2] != made[1] == made[3]


def test_an_explicit_id_is_kept() -> None:
    message = message_at(1, 1)
    message.explicit_id = b"0190163d-8694-739b-aea5-966c26f8ad91"
    assert MessageIds(1).of(message) == b"0190163d-8694-739b-aea5-966c26f8ad91"


@pytest.mark.parametrize(
    "text", ["", "1", "a-b-c-d-e", "0190163d-8694-739b-aea5-966c26f8ad9z", "0190163d8694739baea5966c26f8ad91"]
)
def test_text_of_another_form_carries_no_position(text: str) -> None:
    assert MessageIds.position(text) is None


@pytest.mark.parametrize(
    ("ttl_ms", "expires_ms", "expected"),
    [(0, 0, 0), (500, 0, 1_500), (0, 1_200, 1_200), (500, 1_200, 1_200), (100, 1_200, 1_100)],
)
def test_the_earlier_of_ttl_and_expires_counts(ttl_ms: int, expires_ms: int, expected: int) -> None:
    envelope = Envelope("/queue/a", ttl_ms=ttl_ms, expires_ms=expires_ms)
    assert Message(envelope, b"", 1, 1_000, True).expires_ms == expected
