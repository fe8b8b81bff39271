"""Workloads, and mombench's options for them."""

from pathlib import Path

import pytest

from benchmarks.measurement import Length, options
from benchmarks.run import can_do
from benchmarks.servers import Mom, RabbitMQ, Server
from benchmarks.workloads import WORKLOADS, chosen


class Pretended(Mom):
    """A broker that was not started."""

    def _pid_options(self) -> list[str]:
        return []


@pytest.fixture
def mom(tmp_path: Path) -> Server:
    return Pretended(tmp_path)


def test_a_workload_of_rest_with_a_consumer_runs_when_it_is_named() -> None:
    assert {workload.group for workload in chosen(["W9"])} == {"W9"}
    assert "W9" not in {workload.group for workload in WORKLOADS}


def test_a_consumer_over_tcp_subscribes_where_rest_publishes(mom: Server) -> None:
    (workload,) = chosen(["w9-tcp-8-100"])
    given = options(workload, mom, Length(), 3)
    assert given[given.index("--http-send") + 1] == "POST /api/v1/queues/w9-tcp-8-100-3/messages"
    assert given[given.index("--dest") + 1] == "/queue/w9-tcp-8-100-3"
    assert given[given.index("--url") + 1] == "tcp://127.0.0.1:61713"


def test_a_consumer_over_rest_receives_where_rest_publishes(mom: Server) -> None:
    (workload,) = chosen(["w9-rest-64-1024"])
    given = options(workload, mom, Length(), 3)
    assert given[given.index("--http-recv") + 1] == "POST /api/v1/queues/w9-rest-64-1024-3/receive"
    assert "--url" not in given


def test_a_server_that_cannot_receive_over_rest_is_left_out(tmp_path: Path, mom: Server) -> None:
    by_name = {workload.name: workload for workload in chosen(["W9"])}
    assert can_do(mom, by_name["w9-rest-8-100"])
    assert not can_do(RabbitMQ(tmp_path), by_name["w9-rest-8-100"])
    assert can_do(RabbitMQ(tmp_path), by_name["w9-tcp-8-100"])
