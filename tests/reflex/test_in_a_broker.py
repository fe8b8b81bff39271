"""Reflexes of a running broker, for clients of all transports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mom_client
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

LIBRARY = """
NOTES = {notes!r}

def _note(name, message):
    with open(NOTES, "a") as file:
        file.write(f"{{name}} {{message.service}} {{message.body.decode()}} {{message.user}}\\n")

def audit(message):
    _note("audit", message)

def drop_all(message):
    return 0

def never(message):
    _note("never", message)

def drop_odd(message):
    return int(message.body) % 2 == 0

def no_strangers(registration):
    from broker_app.reflex.api import refuse
    return None if registration.name != "stranger" else refuse("unknown service")

def left(registration):
    with open(NOTES, "a") as file:
        file.write(f"left {{registration.name}}\\n")

def double(message, answer):
    answer.body = str(2 * int(message.body)).encode()
"""

FILE = """
R callbacks   RE_LocalService.dll * REenableCallbacks
R names       lib * no_strangers
D names       lib stock left
F audited     lib * audit
F stock       lib * audit * drop_all * never
F even.>      lib * drop_odd
G delivered.> lib * drop_odd
G /topic/delivered.> lib * drop_odd
S calc        lib * double
"""


class Filtering:
    """A broker with these reflexes."""

    def __init__(self, process: BrokerProcess, notes: Path) -> None:
        self.process = process
        self._notes = notes

    @property
    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def post(self, queue: str, body: bytes | None, path: str = "messages", **headers: str) -> Any:
        return self.process.request("POST", f"/api/v1/queues/{queue}/{path}", body, **headers)

    def connect(self, **more: Any) -> mom_client.Client:
        url = f"stomp://127.0.0.1:{self.process.stomp_port}"
        return mom_client.connect(
            url, login=self.process.user, passcode=self.process.password, reconnect=False, **more
        )

    def depth(self, queue: str) -> int:
        reply = self.process.request("GET", f"/api/v1/queues/{queue}")
        return int(reply.json()["depth"]) if reply.status == 200 else 0


def write_files(folder: Path) -> None:
    (folder / "lib.py").write_text(LIBRARY.format(notes=str(folder / "notes")))
    (folder / "filters.cnf").write_text(FILE)


@pytest.fixture(scope="module")
def filtering(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filtering]:
    folder = tmp_path_factory.mktemp("reflexes")
    write_files(folder)
    process = BrokerProcess(
        folder / "data", "--reflex-file", str(folder / "filters.cnf"), "--reflex-path", str(folder)
    )
    process.start()
    yield Filtering(process, folder / "notes")
    process.kill()


async def test_a_filtered_message_is_audited_once_and_not_delivered_and_the_sender_is_told(
    filtering: Filtering,
) -> None:
    async with filtering.connect() as client:
        with pytest.raises(mom_client.Refused) as refused:
            await client.send("/queue/stock", b"1")
        await client.send("/queue/other", b"2")
    assert refused.value.code == "filtered"
    assert refused.value.problem["reflex"] == "filters.cnf:6.2"
    assert [line for line in filtering.notes if "stock" in line] == ["audit stock 1 admin"]
    assert filtering.depth("stock") == 0


def stomp_dialogue(filtering: Filtering, *frames: bytes) -> bytes:
    """Send frames behind a CONNECT, and return what the broker sends until it closes."""
    process = filtering.process
    with socket.create_connection(("127.0.0.1", process.stomp_port), timeout=20) as connection:
        hello = f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{process.user}\npasscode:{process.password}\n"
        connection.sendall(hello.encode() + b"".join(frames))
        received = b""
        while data := connection.recv(65536):
            received += data
    return received


def test_a_client_without_soft_errors_gets_an_error_frame(filtering: Filtering) -> None:
    received = stomp_dialogue(
        filtering,
        b"\n\0",
        b"SEND\ndestination:/queue/even.a\nreceipt:1\n\n2\0",
        b"SEND\ndestination:/queue/even.a\nreceipt:2\n\n3\0",
        b"SEND\ndestination:/queue/even.a\nreceipt:3\n\n4\0",
        b"DISCONNECT\nreceipt:bye\n\n\0",
    )
    connected, receipt, error = received.split(b"\0\n")[:3]
    assert connected.startswith(b"CONNECTED")
    assert b"receipt-id:1" in receipt
    assert error.startswith(b"ERROR\nreceipt-id:2\n")
    assert b"reason:it was refused\n" in error
    assert b"receipt-id:3" not in received
    assert filtering.depth("even.a") == 1


def test_a_service_is_refused_between_login_and_connected(filtering: Filtering) -> None:
    received = stomp_dialogue(filtering, b"mom-service:stranger\n\n\0")
    assert received.startswith(b"ERROR\n")
    assert b"reason:unknown service\n" in received
    assert b"registration-refused" in received


async def test_a_deregistration_is_heard_of(filtering: Filtering) -> None:
    async with filtering.connect(headers={"mom-service": "stock"}):
        pass
    await asyncio.to_thread(poll, lambda: "left stock" in filtering.notes)


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-1-2-01"}])
def test_rest_replies_with_a_problem(filtering: Filtering, headers: dict[str, str]) -> None:
    reply = filtering.post("even.b", b"1", **headers)
    problem = reply.json()
    assert (reply.status, problem["title"], problem["reflex"]) == (403, "Filtered", "filters.cnf:7")
    assert problem["reason"] == "it was refused"
    assert filtering.post("even.b", b"2", **headers).status == 201


def test_a_batch_has_a_result_for_each_message(filtering: Filtering) -> None:
    items = json.dumps([{"body": str(number), "content_type": "text/plain"} for number in range(4)]).encode()
    reply = filtering.post("even.c", items, "messages/batch", content_type="application/json")
    results = reply.json()["results"]
    assert ["id" in result for result in results] == [True, False, True, False]
    assert results[1]["error"]["reflex"] == "filters.cnf:7"
    lines = b'{"body": "1"}\n{"body": "2"}\n'
    reply = filtering.post("even.c", lines, "messages/batch", content_type="application/x-ndjson")
    assert ["error" in json.loads(line) for line in reply.body.splitlines()] == [True, False]


def test_an_atomic_batch_is_published_as_a_whole_or_not(filtering: Filtering) -> None:
    def publish(*numbers: int) -> Any:
        items = json.dumps([{"body": str(number), "content_type": "text/plain"} for number in numbers])
        path = "messages/batch?atomic=true"
        return filtering.post("even.d", items.encode(), path, content_type="application/json")

    refused = publish(2, 3, 4)
    assert (refused.status, refused.json()["reflex"]) == (403, "filters.cnf:7")
    assert publish(2, 4).status == 200
    assert filtering.depth("even.d") == 2


@pytest.mark.parametrize("raw", [False, True])
def test_rest_receives_what_a_delivery_reflex_lets_pass(filtering: Filtering, raw: bool) -> None:
    queue = f"delivered.{raw}"
    for number in range(6):
        assert filtering.post(queue, b"%d" % number).status == 201
    if raw:
        reply = filtering.post(queue, None, "receive?raw=true&max=1")
        assert reply.body == b"0"
    else:
        reply = filtering.post(queue, b'{"max": 10}', "receive", content_type="application/json")
        assert [item["body"] for item in reply.json()["items"]] == ["0", "2", "4"]
        poll(lambda: filtering.depth(f"{queue}.dead") == 3)
        reply = filtering.post(queue, b'{"max": 10}', "receive", content_type="application/json")
        assert reply.json()["items"] == []
        reply = filtering.post(f"{queue}.dead", b'{"max": 10}', "receive", content_type="application/json")
        assert {item["headers"]["dead-reason"] for item in reply.json()["items"]} == {"FILTERED"}


def test_rest_receives_chosen_messages_that_a_reflex_lets_pass(filtering: Filtering) -> None:
    seqs = [filtering.post("delivered.seqs", b"%d" % number).json()["seq"] for number in range(3)]
    body = json.dumps({"seqs": seqs}).encode()
    reply = filtering.post("delivered.seqs", body, "receive", content_type="application/json").json()
    assert [item["body"] for item in reply["items"]] == ["0", "2"]
    assert reply["missing"] == [{"seq": seqs[1], "status": "gone"}]


def test_event_streams_are_filtered(filtering: Filtering) -> None:
    for number in range(4):
        filtering.post("delivered.sse", b"%d" % number)
    request = urllib.request.Request(f"{filtering.process.url}/api/v1/queues/delivered.sse/events?credit=10")
    password = urllib.request.HTTPPasswordMgrWithPriorAuth()
    password.add_password(
        None, filtering.process.url, filtering.process.user, filtering.process.password, True
    )
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(password))
    bodies = []
    with opener.open(request, timeout=20) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                bodies.append(json.loads(line[6:])["body"])
            if len(bodies) == 2:
                break
    assert bodies == ["0", "2"]


@pytest.mark.parametrize("scheme", ["stomp", "ws"])
@pytest.mark.parametrize("destination", ["/queue/delivered.{0}", "/topic/delivered.{0}"])
async def test_subscriptions_of_stomp_are_filtered(
    filtering: Filtering, scheme: str, destination: str
) -> None:
    process = filtering.process
    address = (
        f"ws://127.0.0.1:{process.port}/ws" if scheme == "ws" else f"stomp://127.0.0.1:{process.stomp_port}"
    )
    where = destination.format(scheme)
    async with (
        mom_client.connect(address, login=process.user, passcode=process.password) as client,
        client.subscribe(where, ack="auto") as messages,
    ):
        for number in range(6):
            await client.send(where, str(number))
        received = [(await anext(messages)).body for _ in range(3)]
    assert received == [b"0", b"2", b"4"]


async def test_a_local_service_answers_a_request(filtering: Filtering) -> None:
    async with filtering.connect() as client:
        reply = await client.request("/queue/calc", b"21", timeout_s=20)
    assert reply.body == b"42"


def test_a_broker_that_is_killed_leaves_no_processes(start_broker: StartBroker, tmp_path: Path) -> None:
    write_files(tmp_path)
    process = start_broker("--reflex-file", str(tmp_path / "filters.cnf"), "--reflex-path", str(tmp_path))

    def children() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"broker_app.reflex.libraries.worker" in command and str(tmp_path).encode() in command:
                    found.append(int(entry.name))
        return found

    poll(lambda: len(children()) == 1)
    os.kill(process.pid, signal.SIGKILL)
    poll(lambda: not children())


def test_a_broker_does_not_start_with_a_file_that_has_errors(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    (tmp_path / "bad.cnf").write_text("F stock lib\nX\n")
    with pytest.raises(Exception, match=r"bad.cnf:1:12: a pair is missing at the end") as failed:
        start_broker("--reflex-file", str(tmp_path / "bad.cnf"))
    assert "bad.cnf:2:1: 'X' is no kind of line" in str(failed.value)


def test_a_broker_does_not_start_without_its_directory_of_libraries(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="absent, which is no directory"):
        start_broker("--reflex-path", str(tmp_path / "absent"))
