"""Nothing lost: a broker under load is killed again and again, and every promise is checked afterwards.

Eight producers send with receipts, eight consumers acknowledge, half of them with receipts. A promise is a
RECEIPT that reached the client: for a message that it will be there, for an acknowledgement that
it will not come again. What the consumers see must keep each producer's order, and anything seen a
second time must say `redelivered:true`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mom_client.stomp.encode import encode
from mom_client.stomp.frame import ACK, CONNECT, CONNECTED, MESSAGE, RECEIPT, SEND, SUBSCRIBE, Frame
from mom_client.stomp.parser import Parser
from tests.support.broker_process import BrokerProcess
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("KILLS", "6"))
QUEUES = 2
CLIENTS = 8
WINDOW = 64

Key = tuple[int, int]  # producer, sequence


@dataclass
class Ledger:
    """The receipts and messages of the clients."""

    sent: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(CLIENTS), 0))
    promised: set[Key] = field(default_factory=set)
    seen: set[Key] = field(default_factory=set)
    settled: set[Key] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    repeats: int = 0


class Connection:
    """One client's conversation in one life of the broker."""

    def __init__(self, broker: BrokerProcess | NodeProcess) -> None:
        self._broker = broker
        self._parser = Parser(role="client", strict=True)  # frames alone, no runs
        self._frames: list[Frame] = []

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._broker.host, self._broker.stomp_port)
        login = {"login": self._broker.user, "passcode": self._broker.password}
        self.send(CONNECT, {"accept-version": "1.2", "host": "/"} | login)
        assert (await self.frame()).command == CONNECTED

    def send(self, command: bytes, headers: dict[str, str], body: bytes = b"") -> None:
        self._writer.write(encode(command, headers, body))

    async def drain(self) -> None:
        await self._writer.drain()

    async def frame(self) -> Frame:
        """The next frame; ConnectionError when the broker is gone."""
        while not self._frames:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionResetError
            self._frames += [frame for frame in self._parser.receive(data) if isinstance(frame, Frame)]
        return self._frames.pop(0)

    def close(self) -> None:
        self._writer.close()


async def produce(number: int, connection: Connection, ledger: Ledger) -> None:
    """Send in order with up to WINDOW receipts outstanding, until the broker dies."""
    outstanding = 0
    while True:
        while outstanding < WINDOW:
            sequence = ledger.sent[number]
            ledger.sent[number] += 1
            headers = {"destination": f"/queue/storm-{number % QUEUES}", "receipt": f"{sequence}"}
            connection.send(
                SEND, headers, b"%d:%d:" % (number, sequence) + b"x" * random.choice((10, 500, 3000))
            )
            outstanding += 1
        await connection.drain()
        frame = await connection.frame()
        assert frame.command == RECEIPT, frame
        ledger.promised.add((number, int(frame.headers["receipt-id"])))
        outstanding -= 1


async def consume(number: int, connection: Connection, ledger: Ledger, idle_s: float | None = None) -> None:
    """Check what comes, until the broker dies or nothing comes for `idle_s`. In the storm one delivery in
    fifty is not acknowledged and comes back when the connection ends."""
    forgotten = 0.02 if idle_s is None else 0.0
    queue = f"/queue/storm-{number % QUEUES}"
    connection.send(
        SUBSCRIBE,
        {"id": "0", "destination": queue, "ack": "client-individual", "credit": "50", "receipt": "s"},
    )
    last: dict[int, int] = {}
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(idle_s):
                frame = await connection.frame()
            if frame.command == MESSAGE:
                key = check_delivery(frame, last, ledger)
                ack = {"id": frame.headers["ack"]}
                if number >= CLIENTS // 2:
                    ack["receipt"] = f"{key[0]}:{key[1]}"
                if random.random() >= forgotten:
                    connection.send(ACK, ack)
            elif frame.headers["receipt-id"] != "s":
                producer, sequence = frame.headers["receipt-id"].split(":")
                ledger.settled.add((int(producer), int(sequence)))


def check_delivery(frame: Frame, last: dict[int, int], ledger: Ledger) -> Key:
    producer, sequence, _ = frame.body.split(b":", 2)
    key = (int(producer), int(sequence))
    repeat = frame.headers["redelivered"] == "true"
    if key in ledger.seen:
        ledger.repeats += 1
        if not repeat:
            ledger.broken.append(f"{key} came again and does not say so")
    if key in ledger.settled:
        ledger.broken.append(f"{key} came again after its acknowledgement was confirmed")
    if not repeat:
        if key[1] <= last.get(key[0], -1):
            ledger.broken.append(f"{key} came after {last[key[0]]} of the same producer")
        last[key[0]] = key[1]
    ledger.seen.add(key)
    return key


async def live_until_killed(broker: NodeProcess, ledger: Ledger, life_s: float) -> None:
    """All clients at work on one life of the broker, which ends by SIGKILL."""
    connections = [Connection(broker) for _ in range(2 * CLIENTS)]
    for connection in connections:
        await connection.open()
    work = [produce(number, connections[number], ledger) for number in range(CLIENTS)]
    work += [consume(number, connections[CLIENTS + number], ledger) for number in range(CLIENTS)]
    tasks = [asyncio.ensure_future(action) for action in work]
    done, _ = await asyncio.wait(tasks, timeout=life_s, return_when=asyncio.FIRST_COMPLETED)
    assert not done, [task.exception() for task in done]
    broker.kill()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, ConnectionError) for result in results), results
    for connection in connections:
        connection.close()


async def take_the_rest(broker: NodeProcess, ledger: Ledger) -> None:
    """All that waits, until nothing comes any more."""
    rest = [Connection(broker) for _ in range(CLIENTS)]
    for connection in rest:
        await connection.open()
    await asyncio.gather(*(consume(number, rest[number], ledger, idle_s=2.0) for number in range(CLIENTS)))
    for connection in rest:
        connection.close()


@pytest.mark.slow
@pytest.mark.timeout(patient(12 * KILLS))
async def test_nothing_promised_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    ledger = Ledger()
    with nodes_in(tmp_path) as nodes:
        broker = nodes.node("storm", max_attempts=1_000_000)
        broker.start()
        for _ in range(KILLS):
            await live_until_killed(broker, ledger, random.uniform(0.02, 0.6))
            broker.start()
        await take_the_rest(broker, ledger)
    assert ledger.broken == []
    lost = ledger.promised - ledger.seen
    assert not lost, f"{len(lost)} promised messages never came, among them {sorted(lost)[:5]}"
    assert len(ledger.promised) > 100 * KILLS
    assert ledger.repeats > 0, "the storm was too mild to show anything"
