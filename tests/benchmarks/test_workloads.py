"""The table of workloads, and what is read from a run."""

import pytest

from benchmarks.workloads import WORKLOADS, Floor, chosen, measured


def test_names_are_unique_and_every_workload_has_a_floor() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert all(workload.floors for workload in WORKLOADS)


def test_a_destination_of_its_own_for_each_round() -> None:
    for workload in WORKLOADS:
        assert workload.destination.format(round=1) != workload.destination.format(round=2)


def test_messages_that_are_not_persistent_are_named() -> None:
    assert {workload.group for workload in WORKLOADS if not workload.persistent} == {"W4", "W8"}


def test_filling_and_draining_use_the_same_queue() -> None:
    fill, drain = chosen(["w6"])
    assert fill.destination == drain.destination


def test_workloads_are_chosen_by_group_or_name_in_the_order_of_the_table() -> None:
    assert [workload.name for workload in chosen([" w8", "W1"])] == [
        "w1-256-100",
        "w1-256-1024",
        "w1-1-1024",
        "w8",
    ]
    assert [workload.name for workload in chosen(["w5-batch"])] == ["w5-batch"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no such workload: w9"):
        chosen(["W9"])


def test_floors_look_up_for_rates_and_down_for_everything_else() -> None:
    assert Floor("rate", 4).reached(4)
    assert not Floor("rate", 4).reached(3.9)
    assert Floor("cpu", 0.25).reached(0.2)
    assert not Floor("confirm_p50", 5, absolute=True).reached(5.1)
    assert Floor("rate", 40_000, absolute=True).words() == "≥ 40,000"
    assert Floor("cpu", 0.25).words() == "≤ 0.25x"


def test_the_rate_of_producing_alone_is_what_was_confirmed() -> None:
    raw = {"mode": "produce", "confirm_rate": 700.0, "recv_rate": 0.0, "confirm_ms": {"p50": 1.0, "p99": 2.0}}
    assert measured(raw) == {"rate": 700.0, "confirm_p50": 1.0, "confirm_p99": 2.0}


def test_the_latency_of_a_request_is_its_round_trip() -> None:
    raw = {
        "mode": "reqrep",
        "recv_rate": 5.0,
        "latency_ms": {"p50": 1.0, "p99": 2.0},
        "rtt_ms": {"p50": 3.0, "p99": 4.0},
        "server": {"cpu_s_per_100k": 6.0, "rss_peak_kib": 2048},
    }
    assert measured(raw) == {"rate": 5.0, "latency_p50": 3.0, "latency_p99": 4.0, "cpu": 6.0, "memory": 2.0}
