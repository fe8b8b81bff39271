"""Spans of time, in words and as they are written."""

from datetime import UTC, datetime

import pytest

from broker_app.base.durations import exactly, in_words, seconds, since


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


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2s", 2.0),
        ("5m", 300.0),
        ("5 min", 300.0),
        ("1.5h", 5400.0),
        ("2d", 172_800.0),
        ("300ms", 0.3),
        ("7", 7.0),
    ],
)
def test_a_span_is_written_with_a_unit_or_as_seconds(text: str, span: float) -> None:
    assert seconds(text) == pytest.approx(span)


@pytest.mark.parametrize("text", ["", "s", "-2s", "2 weeks", "1m30s", "nan", "inf"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as 2s, 5m or 90"):
        seconds(text)


@pytest.mark.parametrize(
    ("span", "words"),
    [(0, "0 s"), (0.25, "0.25 s"), (90, "90 s"), (3600.0, "1 h"), (3601, "3601 s"), (604800, "7 d")],
)
def test_a_setting_is_shown_exactly_in_its_largest_unit(span: float, words: str) -> None:
    assert exactly(span) == words
