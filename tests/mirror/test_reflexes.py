"""Reflexes of brokers that mirror each other, and what one of them holds up."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, login_answer, serves, wait_until_serving
from tests.support.polling import poll

pytestmark = pytest.mark.process

LIBRARY = """
import pathlib, time

def arrives(message):
    held = pathlib.Path("{held}")
    if message.text == "held":
        held.touch()
        while held.exists():
            time.sleep(0.01)
    return "bad" not in message.text
"""


def names(answer: bytes, taker: BrokerProcess) -> bool:
    """Return whether an ERROR frame or a problem names the broker that takes over."""
    active = f"stomp://127.0.0.1:{taker.stomp_port},ws://127.0.0.1:{taker.port}/ws".encode()
    return b"MAIN_ACTIVE" in answer and active in answer.replace(rb"\c", b":")


def upgraded(broker: BrokerProcess) -> bytes:
    """The answer to a WebSocket."""
    with socket.create_connection((broker.host, broker.port), 10) as connection:
        connection.sendall(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        found = b""
        while data := connection.recv(4096):
            found += data
    return found


async def test_a_broker_that_ends_sends_new_clients_to_its_mirror_which_has_the_reflexes_of_its_start(
    mirrors: Mirrors, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    (tmp_path / "verdicts.py").write_text(LIBRARY.format(held=held))
    file = tmp_path / "filters.cnf"
    file.write_text("F stock verdicts * arrives time-limit=60\n")
    options = "--reflex-path", str(tmp_path), "--reflex-file", str(file), "--drain", "60"
    main, mirror = mirrors.make(*options), mirrors.make(*options)
    main.start()
    mirror.start(standby=True)
    file.write_text("F\n")  # it has read the file when it was started
    poll(lambda: is_followed(main))
    address = f"stomp://127.0.0.1:{main.stomp_port}"
    async with mom_client.connect(
        address, login=main.user, passcode=main.password, reconnect=False
    ) as producer:
        # What has arrived is decided before the broker ends.
        producer.send_nowait("/queue/stock", "held")
        await asyncio.to_thread(poll, held.exists)
        os.kill(main.pid, signal.SIGTERM)
        poll(lambda: names(login_answer(main), mirror))
        poll(lambda: names(main.request("GET", "/api/v1/queues").body, mirror))
        refused = main.request("GET", "/api/v1/queues")
        assert (refused.status, refused.headers["location"]) == (503, mirror.url)
        assert names(upgraded(main), mirror)
        assert f'href="{mirror.url}"'.encode() in main.request("GET", "/console/", accept="text/html").body
        assert main.running and not serves(mirror), "it has not ended yet"
        held.unlink()
    main.terminate()
    wait_until_serving(mirror)
    messages = "/api/v1/queues/stock/messages"
    assert mirror.request("POST", messages, b"good").status == 201
    refused = mirror.request("POST", messages, b"bad")
    assert (refused.status, refused.json()["reflex"]) == (403, "filters.cnf:1"), refused.body
