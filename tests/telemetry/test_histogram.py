"""Percentiles of sampled durations."""

from hypothesis import given
from hypothesis import strategies as st

from broker_app.telemetry.histogram import Durations, bucket, upper_ms


@given(st.integers(0, 1 << 40))
def test_a_duration_is_at_most_an_eighth_below_the_end_of_its_bucket(ms: int) -> None:
    end = upper_ms(bucket(ms))
    assert ms <= end <= ms + ms // 8 + 1 or ms == 1 << 40


def test_buckets_follow_each_other_without_gap() -> None:
    ends = [upper_ms(index) for index in range(bucket(1 << 39))]
    assert all(bucket(end) == index and bucket(end + 1) == index + 1 for index, end in enumerate(ends))


def test_a_value_above_all_buckets_counts_in_the_last_one() -> None:
    assert bucket(1 << 60) == bucket(1 << 41)


def test_percentiles_are_those_of_the_samples() -> None:
    durations = Durations()
    durations.record(60, range(1, 1001))
    p50, p95, p99, samples = durations.percentiles(60)
    assert samples == 1000
    assert p50 is not None
    assert p95 is not None
    assert p99 is not None
    assert 0.5 <= p50 < 0.57
    assert 0.95 <= p95 < 1.07
    assert 0.99 <= p99 < 1.12


def test_without_samples_there_are_no_percentiles() -> None:
    assert Durations().percentiles(5) == (None, None, None, 0)


def test_samples_are_forgotten_within_a_minute() -> None:
    durations = Durations()
    durations.record(59, [8])
    assert durations.percentiles(89).samples == 1
    assert durations.percentiles(90).samples == 0
    durations.record(1_000, [8])
    assert durations.percentiles(1_060).samples == 0
