"""A broker whose journal hangs when it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.awaiting import until
from tests.support.forked import ROOT, Forked
from tests.support.patience import patient
from tests.support.ports import reserve_port

LOGIN = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:ann\n\n\0"
#: more than is synced in the thread of the loop
SEND = b"SEND\ndestination:/queue/a\nreceipt:1\n\n" + bytes(b"x" * 10_000) + b"\0"


class HungNode:
    """A node whose journal hangs while it writes a message."""

    def __init__(self, running: subprocess.Popen[bytes], log: Path) -> None:
        self.running = running
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    async def ended(self) -> int:
        """Its exit status."""
        return await asyncio.to_thread(self.running.wait, patient(10))

    async def logs(self, text: str) -> None:
        await until(lambda: text in self.log, patient(10))


@contextlib.asynccontextmanager
async def hung_node(data: Path, limit_s: float) -> AsyncIterator[HungNode]:
    port = reserve_port()
    program = [sys.executable, "-m", "tests.support.hung_node", str(data), str(port), str(limit_s)]
    running = Forked(program, cwd=ROOT, stdout=subprocess.PIPE)
    node = HungNode(running, data / "log")
    try:
        assert running.stdout is not None
        assert await asyncio.to_thread(running.stdout.readline), node.log
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(LOGIN)
        try:
            assert (await reader.readuntil(b"\0")).startswith(b"CONNECTED")
            (data / "hangs").touch()
            writer.write(SEND)
            await writer.drain()
            yield node
        finally:
            writer.transport.abort()
    finally:
        running.kill()
        running.communicate()


@pytest.mark.process
async def test_it_ends_all_the_same_and_the_log_shows_where_it_hung(tmp_path: Path) -> None:
    async with hung_node(tmp_path, limit_s=1.0) as node:
        node.running.send_signal(signal.SIGTERM)
        assert await node.ended() == 1
        assert "it waits for Node.stop" in node.log
        last = node.log[node.log.index("the process ends now") :]
        assert "thread journal-sync:" in last
        assert "may_hang" in last


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async with hung_node(tmp_path, limit_s=3600) as node:
        node.running.send_signal(signal.SIGTERM)
        await node.logs("stops: it has received SIGTERM; another one ends it at once")
        await node.logs("it waits for")
        node.running.send_signal(number)
        assert await node.ended() == 128 + number
        assert f"ends at once: it has received {number.name} while it stopped" in node.log
