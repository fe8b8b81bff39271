"""Times in RFC 3339 as milliseconds."""

import pytest

from broker_app.base import times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-01-15T08:00:00.020Z", 1_800_000_000_020),
        ("2027-01-15T09:00:00.020+01:00", 1_800_000_000_020),
        ("2027-01-15T08:00:00", None),
        ("1969-12-31T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_with_its_zone_is_parsed(text: str, expected: int | None) -> None:
    assert times.milliseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time:2027-01-15T08:00:00.020Z", "time:1800000000020"),
        ("time:2027-01-15T08:00:00.020", "time:1800000000020"),
        ("time:17", "time:17"),
        ("time:1971010100000", "time:1971010100000"),
        ("time:x", "time:x"),
        ("seq:3", "seq:3"),
        ("first", "first"),
        ("", ""),
    ],
)
def test_a_start_in_history_is_given_in_milliseconds(text: str, expected: str) -> None:
    assert times.start(text) == expected
