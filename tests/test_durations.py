"""Spans of time in words."""

from datetime import UTC, datetime

import pytest

from broker_app.durations import in_words, since


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.25, "0.2 s"),
        (10, "10 s"),
        (182, "3 min 2 s"),
        (660, "11 min"),
        (7200.4, "2 h"),
        (3605, "1 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_span_has_two_units_at_most(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_how_long_ago_a_time_was() -> None:
    now = datetime(2027, 1, 31, 12, 0, 0, tzinfo=UTC)
    assert since("2027-01-31T11:58:00.000Z", now) == "2 min"
    assert since(None) == ""
