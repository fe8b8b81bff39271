"""Medians, the better peer, verdicts and tables."""

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.measurement import Measurement
from benchmarks.workloads import Floor, MeasureName, Workload

PEERS = ("RabbitMQ", "ActiveMQ")


def workload(*floors: Floor) -> Workload:
    return Workload("w1", "W1 example", "tcp", "pair", "/queue/w1-{round}", (), floors)


def runs(
    server: str, measure: MeasureName, *values: float, faults: tuple[str, ...] = ()
) -> list[Measurement]:
    return [
        Measurement("w1", server, number, {measure: value}, list(faults), {})
        for number, value in enumerate(values, 1)
    ]


def verdict(measured: list[Measurement], floor: Floor) -> report.Verdict:
    [only] = report.verdicts([workload(floor)], report.summarise(measured), "MOM", PEERS)
    return only


def test_the_median_is_kept_with_the_extremes() -> None:
    summary = report.summarise(runs("MOM", "rate", 30, 10, 20))[("w1", "MOM")]
    assert (summary.runs, summary.spreads["rate"]) == (3, report.Spread(20, 10, 30))


def test_the_ratio_is_to_the_better_peer() -> None:
    measured = runs("MOM", "rate", 50) + runs("RabbitMQ", "rate", 10) + runs("ActiveMQ", "rate", 5)
    found = verdict(measured, Floor("rate", 4))
    assert (found.peer, found.ratio, found.reached) == ("RabbitMQ", 5.0, True)


def test_for_a_latency_the_better_peer_is_the_quicker_one() -> None:
    measured = runs("MOM", "latency_p50", 2) + runs("RabbitMQ", "latency_p50", 6)
    measured += runs("ActiveMQ", "latency_p50", 3)
    found = verdict(measured, Floor("latency_p50", 0.5))
    assert (found.peer, found.reached) == ("ActiveMQ", False)


def test_a_floor_against_a_named_peer_ignores_a_better_one() -> None:
    measured = runs("MOM", "memory", 50) + runs("RabbitMQ", "memory", 1000) + runs("ActiveMQ", "memory", 100)
    found = verdict(measured, Floor("memory", 0.1, against="RabbitMQ"))
    assert (found.peer, found.ratio, found.reached) == ("RabbitMQ", 0.05, True)


def test_without_a_peer_a_ratio_is_not_judged_but_a_figure_is() -> None:
    assert verdict(runs("MOM", "rate", 50), Floor("rate", 4)).reached is None
    assert verdict(runs("MOM", "rate", 50_000), Floor("rate", 40_000, absolute=True)).reached is True


def test_a_fault_makes_the_floor_a_miss_and_is_shown() -> None:
    measured = runs("MOM", "rate", 50, faults=("1 lost",)) + runs("RabbitMQ", "rate", 10)
    assert verdict(measured, Floor("rate", 4)).reached is False
    summaries = report.summarise(measured)
    assert "run 1: 1 lost" in report.figures_table([workload(Floor("rate", 4))], summaries, ("MOM",))


def test_the_table_of_ratios_has_a_row_for_each_floor() -> None:
    measured = runs("MOM", "rate", 41_000, 40_000, 42_000) + runs("RabbitMQ", "rate", 10_000)
    table = report.floors_table([verdict(measured, Floor("rate", 4))])
    assert table.splitlines()[2] == (
        "| W1 example | messages/s | ≥ 4x | 41,000 (40,000-42,000) | RabbitMQ 10,000 (10,000-10,000) "
        "| 4.10x | pass |"
    )


def test_a_new_section_stands_above_the_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text(f"# Head\n\n{report.SECTIONS}\n\n## Old\n")
    report.add_section(path, "## New\n")
    assert path.read_text() == f"# Head\n\n{report.SECTIONS}\n\n## New\n\n## Old\n"


def test_a_file_without_the_marker_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("# Head\n")
    with pytest.raises(ValueError, match="has no line"):
        report.add_section(path, "## New")
    assert path.read_text() == "# Head\n"
