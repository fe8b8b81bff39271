"""Filters and SIGKILL: a broker with reflexes is killed under load, and every answer is checked afterwards.

Each message carries its verdicts. A RECEIPT promises that it will be delivered, or become a dead letter if
its delivery is refused; a refusal, that nobody will see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mom_client.stomp.frame import ACK, CONNECT, MESSAGE, RECEIPT, SEND, SUBSCRIBE, Frame
from tests.crash.test_kill import Connection
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient
from tests.support.polling import poll

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", "2"))
CLIENTS = 4
WINDOW = 32
ACCEPTED, REFUSED, DEAD = "accepted", "refused", "dead"

LIBRARY = f"""
def arrives(message):
    return {REFUSED!r} not in message.text

def leaves(message):
    return {DEAD!r} not in message.text
"""
FILE = """
F storm.> verdicts * arrives
G storm.> verdicts * leaves
"""


@dataclass
class Answers:
    """The answers to all messages, and where these were seen."""

    sent: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    promised: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)


class SoftConnection(Connection):
    """A refusal does not end it."""

    def send(self, command: bytes, headers: dict[str, str], body: bytes = b"") -> None:
        more = {"mom-soft-errors": "true"} if command == CONNECT else {}
        super().send(command, headers | more, body)


async def produce(number: int, connection: Connection, answers: Answers) -> None:
    """Send in order with up to WINDOW messages that wait for their answer, until the broker dies."""
    waiting = 0
    while True:
        while waiting < WINDOW:
            answers.sent[number] += 1
            verdict = random.choice((ACCEPTED, ACCEPTED, ACCEPTED, REFUSED, DEAD))
            body = f"{number}:{answers.sent[number]}:{verdict}"
            connection.send(
                SEND, {"destination": f"/queue/storm.{number % 2}", "receipt": body}, body.encode()
            )
            waiting += 1
        await connection.drain()
        frame = await connection.frame()
        refused = frame.command == MESSAGE
        assert refused or frame.command == RECEIPT, frame
        (answers.refused if refused else answers.promised).add(frame.headers["receipt-id"])
        waiting -= 1


async def consume(queue: str, connection: Connection, answers: Answers, idle_s: float | None = None) -> None:
    """Acknowledge what comes, until the broker dies or nothing comes for `idle_s`."""
    ack = "auto" if queue.endswith("1") else "client-individual"
    connection.send(SUBSCRIBE, {"id": "0", "destination": f"/queue/{queue}", "ack": ack, "credit": "20"})
    newest: dict[str, int] = {}
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(idle_s):
                frame = await connection.frame()
            note(frame, newest, answers)
            if ack != "auto":
                connection.send(ACK, {"id": frame.headers["ack"]})


def note(frame: Frame, newest: dict[str, int], answers: Answers) -> None:
    body = frame.body.decode()
    producer, number, _ = body.split(":")
    answers.seen.add(body)
    if frame.headers["redelivered"] == "false":
        if int(number) <= newest.get(producer, 0):
            answers.broken.append(f"{body} came after {newest[producer]}")
        newest[producer] = int(number)


@contextlib.asynccontextmanager
async def connected(broker: NodeProcess, count: int) -> AsyncIterator[list[SoftConnection]]:
    connections = [SoftConnection(broker) for _ in range(count)]
    for connection in connections:
        await connection.open()
    yield connections
    for connection in connections:
        connection.close()


async def live_until_killed(broker: NodeProcess, answers: Answers, life_s: float) -> None:
    async with connected(broker, CLIENTS) as producers, connected(broker, 2) as consumers:
        work = [produce(number, one, answers) for number, one in enumerate(producers)]
        work += [consume(f"storm.{number}", one, answers) for number, one in enumerate(consumers)]
        tasks = [asyncio.ensure_future(action) for action in work]
        done, _ = await asyncio.wait(tasks, timeout=life_s, return_when=asyncio.FIRST_COMPLETED)
        assert not done, [task.exception() for task in done]
        broker.kill()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, ConnectionError) for result in results), results


async def take_the_rest(broker: NodeProcess, answers: Answers) -> set[str]:
    """Consume all that waits; returns the dead letters."""
    dead = Answers()
    for suffix, found in (("", answers), (".dead", dead)):
        async with connected(broker, 2) as consumers:
            work = (
                consume(f"storm.{number}{suffix}", one, found, 3.0) for number, one in enumerate(consumers)
            )
            await asyncio.gather(*work)
    return dead.seen


def processes_of(folder: Path) -> list[int]:
    """The processes that run libraries of a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.timeout(patient(20 * KILLS + 60))
async def test_every_answer_holds_when_a_broker_with_filters_is_killed(tmp_path: Path) -> None:
    (tmp_path / "verdicts.py").write_text(LIBRARY)
    (tmp_path / "filters.cnf").write_text(FILE)
    answers = Answers()
    with nodes_in(tmp_path) as nodes:
        files: dict[str, Any] = {"reflex_path": tmp_path, "reflex_file": tmp_path / "filters.cnf"}
        broker = nodes.node("storm", max_attempts=1_000_000, **files)
        broker.start()
        for _ in range(KILLS):
            await live_until_killed(broker, answers, random.uniform(0.3, 1.0))
            broker.start()
        dead = await take_the_rest(broker, answers)
    assert answers.broken == []
    verdicts = {body: body.rpartition(":")[2] for body in answers.promised | answers.refused}
    assert {verdicts[body] for body in answers.refused} == {REFUSED}
    assert {verdicts[body] for body in answers.promised} == {ACCEPTED, DEAD}
    assert not [body for body in answers.seen if not body.endswith(ACCEPTED)], (
        "what is refused is not delivered"
    )
    assert not [body for body in dead if not body.endswith(DEAD)]
    lost = {body for body in answers.promised if body not in (dead if body.endswith(DEAD) else answers.seen)}
    assert not lost, f"{len(lost)} promised messages never came, among them {sorted(lost)[:5]}"
    assert len(answers.promised) > 20 * KILLS
    poll(lambda: not processes_of(tmp_path))
