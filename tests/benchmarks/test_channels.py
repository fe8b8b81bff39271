"""The verdict of the benchmark of message channels about its promises."""

import pytest

from benchmarks.channels import CHANNEL, QUEUE, Run, kept, table


def runs(rate: float, alone_us: float) -> list[Run]:
    """Two rounds; requests over a queue take 100 µs."""
    cpu_us = {"asking": 40.0, "broker": 60.0}
    return 2 * [
        Run(CHANNEL, 1, 5_000, alone_us, cpu_us),
        Run(QUEUE, 1, 10_000, 100, cpu_us),
        Run(CHANNEL, 32, rate, 1_000, cpu_us),
    ]


@pytest.mark.parametrize(
    ("rate", "alone_us", "is_kept"), [(10_000, 150, True), (9_999, 150, False), (10_000, 151, False)]
)
def test_both_promises_are_to_be_kept(rate: float, alone_us: float, is_kept: bool) -> None:
    assert kept(runs(rate, alone_us))[0] is is_kept


def test_the_table_has_the_processor_time_of_each_process() -> None:
    assert "| channel, two sites | 32 | 12,000 | 1,000 µs | 40 | 60 | 100 |" in table(runs(12_000, 150))
