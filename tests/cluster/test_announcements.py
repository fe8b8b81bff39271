"""Announcements of brokers: signed, valid for a short time, taken once."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_app.base.refused import Refused
from broker_app.features.cluster.discovery import announcements
from broker_app.features.cluster.discovery.announcements import (
    MOST_BYTES,
    VALID_S,
    Announcement,
    Freshness,
    Seal,
)

SEAL, OTHER = Seal("a secret of these brokers"), Seal("a secret of other brokers")


def announcement(time_s: float = 1000.0, incarnation: str = "1f") -> Announcement:
    return Announcement("default", "b1", "10.0.0.1:7676", incarnation, round(time_s * 1000))


def refusal(freshness: Freshness, heard: Announcement, now_s: float) -> str:
    """The code of the refusal; empty if it is taken."""
    try:
        freshness.check(heard, now_s)
    except Refused as refused:
        return refused.code
    return ""


def test_an_announcement_is_read_by_who_has_the_secret_alone() -> None:
    datagram = SEAL.signed(announcement())
    assert SEAL.checked(datagram) == announcement()
    with pytest.raises(Refused) as refused:
        OTHER.checked(datagram)
    assert refused.value.code == "unauthorized"


@given(st.data())
def test_a_datagram_in_which_a_byte_differs_is_refused(data: st.DataObject) -> None:
    datagram = bytearray(SEAL.signed(announcement()))
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Refused):
        SEAL.checked(bytes(datagram))


@given(st.binary(max_size=2 * MOST_BYTES))
def test_what_strangers_send_is_refused(datagram: bytes) -> None:
    for head in (b"", SEAL.signed(announcement())[:4]):
        with pytest.raises(Refused):
            SEAL.checked(head + datagram)


def test_the_longest_names_fit() -> None:
    longest = Announcement("€" * 64, "ä" * 64, f"{'h' * 253}:65535", "f" * 16, round(time.time() * 1000))
    datagram = SEAL.signed(longest)
    assert len(datagram) <= MOST_BYTES
    assert SEAL.checked(datagram) == longest


def test_an_announcement_is_taken_once_and_in_order() -> None:
    freshness = Freshness()
    times = [1000.0, 1000.0, 1001.0, 1000.0, 1002.0]
    assert [refusal(freshness, announcement(at), 1002.0) for at in times] == [
        "",
        "repeated",
        "",
        "repeated",
        "",
    ]
    assert not refusal(freshness, announcement(1000.0, "another start"), 1002.0)


@pytest.mark.parametrize(("late_s", "code"), [(VALID_S - 1, ""), (VALID_S + 1, "expired")])
def test_an_announcement_is_valid_for_a_short_time(late_s: float, code: str) -> None:
    assert refusal(Freshness(), announcement(), 1000.0 + late_s) == code
    assert refusal(Freshness(), announcement(), 1000.0 - late_s) == code


def test_the_brokers_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "_MOST_BROKERS", 3)
    freshness = Freshness()
    for at in range(3):
        assert not refusal(freshness, announcement(incarnation=str(at)), 1000.0)
    assert refusal(freshness, announcement(incarnation="one more"), 1000.0) == "too-many"
    later = 1001.0 + VALID_S  # those are refused as too old from now on, and need not be remembered
    assert not refusal(freshness, announcement(later, "one more"), later)
    assert refusal(freshness, announcement(incarnation="0"), later) == "expired"
