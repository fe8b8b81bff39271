"""Servers that tests start: on ports that nothing else takes, and never longer than the tests run."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT
from tests.support.children import Child
from tests.support.polling import poll
from tests.support.ports import reserve_port, reserve_ports

pytestmark = pytest.mark.process

#: starts a server in each way that tests have, and waits
STARTS = """
import subprocess, sys, time
from tests.support.children import Child
from tests.support.forked import Forked
child = Child([sys.executable, "-c", "import time; time.sleep(600)"])
forked = Forked([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"])
print(child.pid, forked.pid, flush=True)
time.sleep(600)
"""


def test_a_run_that_is_interrupted_leaves_no_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        servers = [int(pid) for pid in started.stdout.readline().split()]
        assert len(servers) == 2 and all(map(_runs, servers))
        started.kill()
    poll(lambda: not any(map(_runs, servers)))


def test_a_server_outlives_the_thread_that_started_it() -> None:
    with ThreadPoolExecutor(1) as thread:  # as that of a test's loop, for the tests that follow
        server = thread.submit(Child, ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE).result()
    assert server.communicate(b"it runs") == (b"it runs", None)


def test_a_reserved_port_is_neither_given_twice_nor_one_of_the_kernels() -> None:
    code = "from tests.support.ports import reserve_ports; print(*reserve_ports(50)); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = set(map(int, other.stdout.readline().split()))
        ours = set(reserve_ports(50))
        other.communicate("\n")
    assert len(theirs | ours) == 100
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not [port for port in theirs | ours if lowest <= port <= highest]


def test_a_reserved_port_is_free_for_its_server() -> None:
    port = reserve_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)):
            assert reserve_port() != port


def _runs(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
