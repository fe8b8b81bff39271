"""A disk that fills up under producers at full rate: they are refused, consumers go on, nothing is lost.

The disk is a small tmpfs that holds all of the broker's data, its configuration too. Mounting needs root.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mom_client.stomp.frame import ACK, ERROR, MESSAGE, RECEIPT, SEND, SUBSCRIBE
from tests.crash.test_kill import Connection
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.forked import Forked
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.process

DISK = 20 * 1024 * 1024
PRODUCERS = 4
WINDOW = 32
BODY = b"x" * 12_000
QUEUE = "/queue/full"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK) as disk:
        yield disk


@pytest.fixture
def broker(disk: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(
        disk / "data", "--port", "0", "--stomp-port", "0", "--segment-bytes", "1MiB", "--full-wait", "3"
    )
    process.log_file = disk.parent / "broker.log"
    process.start()
    yield process
    process.kill()


async def produce_until_refused(broker: BrokerProcess, number: int, promised: set[int]) -> None:
    """Send with WINDOW receipts outstanding until the broker reports that its store is full."""
    connection = Connection(broker)
    await connection.open()
    serial = 1_000_000 * number + len(promised)
    outstanding = 0
    while True:
        while outstanding < WINDOW:
            serial += 1
            connection.send(SEND, {"destination": QUEUE, "receipt": str(serial)}, b"%d:" % serial + BODY)
            outstanding += 1
        await connection.drain()
        frame = await connection.frame()
        if frame.command == ERROR:
            assert b"store-full" in frame.body, frame
            break
        assert frame.command == RECEIPT
        promised.add(int(frame.headers["receipt-id"]))
        outstanding -= 1
    connection.close()


async def fill(broker: BrokerProcess, promised: set[int]) -> None:
    async with asyncio.timeout(patient(60)):
        await asyncio.gather(*(produce_until_refused(broker, 1 + n, promised) for n in range(PRODUCERS)))


async def consume(broker: BrokerProcess, count: int | None) -> set[int]:
    """Take and acknowledge `count` messages, or all there are; their serials."""
    connection = Connection(broker)
    await connection.open()
    connection.send(SUBSCRIBE, {"id": "0", "destination": QUEUE, "ack": "client-individual", "credit": "100"})
    taken: set[int] = set()
    outstanding = 0
    with suppress(TimeoutError):
        while count is None or len(taken) < count or outstanding:
            async with asyncio.timeout(patient(3)):
                frame = await connection.frame()
            if frame.command == RECEIPT:
                outstanding -= 1
                continue
            assert frame.command == MESSAGE, frame
            if count is None or len(taken) < count:
                taken.add(int(frame.body.partition(b":")[0]))
                outstanding += 1
                connection.send(ACK, {"id": frame.headers["ack"], "receipt": "a"})
    assert not outstanding, "every acknowledgement was confirmed"
    connection.close()
    return taken


def take_all(disk: Path) -> None:
    """Leave not a byte to others."""
    with suppress(OSError), (disk / "others").open("wb", buffering=0) as others:
        while others.write(bytes(4096)):
            pass
    assert shutil.disk_usage(disk).free == 0


def accepts(broker: BrokerProcess) -> bool:
    status = broker.request("POST", "/api/v1/queues/other/messages", b"hello").status
    assert status in (201, 503)
    return status == 201


@pytest.mark.slow
@pytest.mark.timeout(patient(180))
async def test_a_full_disk_refuses_producers_and_recovers_by_itself(
    broker: BrokerProcess, disk: Path
) -> None:
    promised: set[int] = set()
    await fill(broker, promised)
    refused = broker.request("POST", "/api/v1/queues/other/messages", b"hello")
    assert (refused.status, refused.json()["type"].rpartition("/")[2]) == (503, "store-full")
    assert len(promised) > 500, "most of the disk can be used"

    taken = await consume(broker, len(promised) // 2)
    assert len(taken) == len(promised) // 2
    await asyncio.to_thread(poll, lambda: accepts(broker), 20)

    # Again; others take what is left, and the broker is killed.
    await fill(broker, promised)
    take_all(disk)
    broker.kill()
    broker.start()
    assert not accepts(broker)

    taken |= await consume(broker, None)
    assert promised <= taken, f"{len(promised - taken)} promised messages are lost"
    await asyncio.to_thread(poll, lambda: accepts(broker), 20)
    (disk / "others").unlink()
    assert broker.terminate() == 0


def mom(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command line until it ends."""
    command = [sys.executable, "-m", "broker_app.cli", *words]
    pipe = subprocess.PIPE
    with Forked(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as program:
        out, err = program.communicate(timeout=120)
    return subprocess.CompletedProcess(command, program.returncode, out, err)


@pytest.mark.timeout(patient(180))
def test_a_first_start_and_a_new_token_on_a_full_disk_end_with_what_to_do(
    broker: BrokerProcess, disk: Path
) -> None:
    environment = broker.environment
    broker.terminate()
    take_all(disk)
    (disk / "new").mkdir()
    started = mom(
        "up", "--data", str(disk / "new"), "--port", "0", "--stomp-port", "0", environment=environment
    )
    token = mom("token", "create", "x" * 60, "--data", str(broker.data), environment=environment)
    for ended in (started, token):
        assert ended.returncode == 1
        assert "fault of mom" not in ended.stderr
        assert "full" in ended.stderr or "No space left" in ended.stderr
        assert "where:" in ended.stderr
