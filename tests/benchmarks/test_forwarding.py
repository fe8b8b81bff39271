"""The promises for forwarding, judged from figures."""

from dataclasses import replace

from benchmarks.forwarding import Case, Latency, Run, row

CLEAN = Run(rate=50_000, cpu_s=2.0, faults=[])
GOOD = Case(100, 8, [CLEAN], [replace(CLEAN, rate=30_000)])


def test_the_ratio_is_that_of_the_medians() -> None:
    slow, fast = replace(CLEAN, rate=10_000), replace(CLEAN, rate=90_000)
    assert replace(GOOD, local=[slow, CLEAN, fast]).ratio == 0.6


def test_it_is_kept_from_three_fifths_on_and_by_clean_runs_alone() -> None:
    assert GOOD.kept
    assert not replace(GOOD, forwarded=[replace(CLEAN, rate=29_000)]).kept
    assert not replace(GOOD, local=[replace(CLEAN, faults=["1 lost"])]).kept
    assert "| **miss** | 1 lost |" in row(replace(GOOD, local=[replace(CLEAN, faults=["1 lost"])]))


def test_the_latency_added_is_the_difference() -> None:
    assert Latency(local=1.0, forwarded=5.5).kept
    assert not Latency(local=1.0, forwarded=6.0).kept
