"""A workload becomes a command line of mombench, in each server's dialect."""

from pathlib import Path

import pytest

from benchmarks.measurement import Length, options
from benchmarks.servers import ActiveMQ, Mom, RabbitMQ, Server
from benchmarks.workloads import chosen


@pytest.fixture
def dialects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Server]:
    """Servers that do not run; only their command lines are asked for."""
    monkeypatch.setattr(Server, "_pid_options", lambda self: [])
    return {kind.name: kind(tmp_path) for kind in (Mom, RabbitMQ, ActiveMQ)}


def line(name: str, server: Server, length: Length | None = None) -> str:
    [workload] = chosen([name])
    return " ".join(options(workload, server, length or Length(), 3))


def test_each_server_has_its_own_name_for_prefetch(dialects: dict[str, Server]) -> None:
    assert "prefetch-count:256" in line("w1-256-100", dialects["MOM"])
    assert "activemq.prefetchSize:256" in line("w1-256-100", dialects["ActiveMQ"])


def test_queues_are_persistent_and_of_this_round(dialects: dict[str, Server]) -> None:
    command = line("w2-eight-100", dialects["RabbitMQ"])
    assert "--dest /queue/w2-eight-100-3-%d" in command
    assert "--persistent 1" in command


def test_request_and_reply_are_not_persistent_anywhere(dialects: dict[str, Server]) -> None:
    for name in ("MOM", "ActiveMQ"):
        assert "--persistent 0 --reply-subscribe" in line("w8", dialects[name])
    rabbit = line("w8", dialects["RabbitMQ"])
    assert "--persistent" not in rabbit
    assert "--reply-subscribe" not in rabbit


def test_websocket_and_rest_use_the_web_port(dialects: dict[str, Server]) -> None:
    web = Mom.ports[0]
    assert f"--url ws://127.0.0.1:{web}/ws" in line("w3-256-100", dialects["MOM"])
    rest = line("w5-8", dialects["MOM"])
    assert f"--http-url http://127.0.0.1:{web}" in rest
    assert "--http-send POST /api/v1/queues/w5-8-3/messages " in rest


def test_a_batch_is_a_json_array(dialects: dict[str, Server]) -> None:
    command = line("w5-batch", dialects["MOM"])
    assert "--http-send POST /api/v1/queues/w5-batch-3/messages/batch" in command
    assert '--http-send-body [%{{"body":"%p"}%}] --http-batch 50' in command


def test_a_backlog_is_counted_and_everything_else_timed(dialects: dict[str, Server]) -> None:
    length = Length(seconds=4, warmup=1, backlog=1000)
    assert "--count 1000" in line("w6-fill", dialects["MOM"], length)
    assert "--count 100" in line("w6-drain", dialects["ActiveMQ"], length).split(" --dest")[0]
    assert "--warmup 1 --duration 4" in line("w1-256-100", dialects["MOM"], length)
