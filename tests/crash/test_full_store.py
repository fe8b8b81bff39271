"""A disk that fills up, a real one: producers hear it, consumers go on, nothing is lost, and it passes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp

from broker_app.cli.base.failures import FAILED
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess
from tests.support.polling import poll
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.process

MIB = 1024 * 1024
DISK = 32 * MIB
BODY = b"x" * 60_000
WAIT_S = 30.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose journal has a file system of its own, of `DISK` bytes."""
    with small_disk(tmp_path / "data" / "journal", DISK):
        process = BrokerProcess(tmp_path / "data", "--segment-bytes", "1MiB", "--full-wait", "1")
        try:
            process.start()
            yield process
        finally:
            process.kill()


def publish(broker: BrokerProcess) -> str:
    """The id of a message that was stored, or the problem's type."""
    reply = broker.request("POST", "/api/v1/queues/a/messages", BODY)
    answer = reply.json()
    if reply.status == 201:
        return str(answer["id"])
    assert reply.status == 503, answer
    problem = str(answer["type"]).rpartition("/")[2]
    assert reply.headers["retry-after"] == {"store-full": "30", "queue-full": "5"}[problem]
    return problem


def fill(broker: BrokerProcess) -> list[str]:
    """Publish until there is no space left; the ids of what was stored."""
    stored = []
    while (answer := publish(broker)) != "store-full":
        if answer != "queue-full":  # a commit may take longer than a message waits
            stored.append(answer)
        assert len(stored) * len(BODY) < DISK
    return stored


def take(broker: BrokerProcess, most: int) -> list[str]:
    """Receive and settle up to `most` messages; their ids."""
    taken: list[str] = []
    while len(taken) < most:
        wanted = {"max": min(20, most - len(taken)), "wait_s": 0}
        items: list[Any] = broker.request("POST", "/api/v1/queues/a/receive", json_body=wanted).json()[
            "items"
        ]
        if not items:
            break
        settle = {"ack": [item["receipt"] for item in items]}
        reply = broker.request("POST", "/api/v1/leases/settle", json_body=settle)
        assert reply.status == 200, reply.body
        taken += [item["id"] for item in items]
    return taken


def events_of_store(broker: BrokerProcess) -> list[str]:
    """The events of the store, the newest first."""
    reply = broker.request("GET", "/api/v1/events?kind=store")
    return [event["event"] for event in reply.json()["items"]]


def test_producers_are_refused_until_messages_are_consumed(broker: BrokerProcess, tmp_path: Path) -> None:
    command_line = CommandLine(tmp_path)
    command_line.about(broker)
    stored = fill(broker)
    # More than the broker reads of a producer whose messages are blocked: each part used to wait again.
    sent = command_line("pub", "a", "-", "-n", "500", stdin="x" * 20_000, timeout_s=20)
    assert (sent.code, sent.out) == (FAILED, "")
    assert "0 of 500 messages" in sent.err and "(store-full)" in sent.err and "fix:" in sent.err
    ready = broker.request("GET", "/health/ready")
    assert (ready.status, str(ready.json()["type"]).rpartition("/")[2]) == (503, "store-full")
    looked = command_line("doctor", "-o", "json", environment={"MOM_STOMP_PORT": str(broker.stomp_port)})
    (found,) = [row for row in looked.json() if row["check"] == "broker"]
    assert (found["state"], looked.code) == ("error", FAILED) and "no disk space left" in found["result"]
    assert len(stored) * len(BODY) > DISK // 4, "most of the disk is used"
    poll(lambda: events_of_store(broker) == ["nearly full"], 10)
    connection = stomp.Connection12([(broker.host, broker.stomp_port)])
    errors = stomp.listener.WaitingListener("none")
    said: list[Any] = []
    errors.on_error = said.append
    connection.set_listener("", errors)
    connection.connect(broker.user, broker.password, wait=True)
    connection.send("/queue/a", BODY)
    errors.wait_on_disconnected()
    assert [b"store-full" in frame.body.encode() for frame in said] == [True]
    taken = take(broker, len(stored) - 5)
    assert taken == stored[:-5]
    deadline = time.monotonic() + WAIT_S
    while (again := publish(broker)) == "store-full":
        assert time.monotonic() < deadline, "space has come back"
    assert take(broker, 100) == [*stored[-5:], again]
    poll(lambda: events_of_store(broker) == ["has space again", "nearly full"], WAIT_S)
    assert broker.request("GET", "/health/ready").json() == {"status": "ready"}


def test_nothing_that_was_stored_is_lost_when_others_take_the_last_space_and_the_broker_is_killed(
    broker: BrokerProcess,
) -> None:
    stored = [publish(broker) for _ in range(50)]
    junk = broker.data / "journal" / "junk"
    with junk.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))
    stored += fill(broker)
    taken = take(broker, 10)
    assert taken == stored[:10]
    broker.kill()
    broker.start()
    assert broker.running
    taken += take(broker, 10)
    junk.unlink()
    deadline = time.monotonic() + WAIT_S
    while (again := publish(broker)) == "store-full":
        assert time.monotonic() < deadline, "space has come back"
    taken += take(broker, 10_000)
    assert taken == [*stored, again]
