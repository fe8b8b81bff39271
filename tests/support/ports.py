"""Ports for servers that tests start, which nothing else takes meanwhile.

A port that was free a moment ago may be the source of somebody's connection now, and the next process of
tests asks for free ports as well. Those here lie outside of the range from which the kernel gives, and a lock
on a file holds each until the process that reserved it ends, also while its server is restarted.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_COUNT = 10_000
_LOCKS = Path(tempfile.gettempdir()) / f"mom-test-ports-{os.getuid()}"
#: open files of the locks of this process
_held: list[int] = []


def reserve_ports(count: int) -> list[int]:
    """Ports on loopback that are this process's until it ends."""
    return [reserve_port() for _ in range(count)]


def reserve_port() -> int:
    """A port on loopback that is this process's until it ends. Raises RuntimeError when there is none."""
    _LOCKS.mkdir(exist_ok=True)
    first = _first()
    for port in random.Random().sample(range(first, first + _COUNT), _COUNT):
        if _lock(port):
            return port
    raise RuntimeError(f"no port from {first} to {first + _COUNT - 1} is free")


def _first() -> int:
    """The first port of a range that does not overlap the kernel's."""
    kernels = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    lowest = int(kernels[0])
    return lowest - _COUNT if lowest - _COUNT > 1024 else int(kernels[1]) + 1


def _lock(port: int) -> bool:
    """Hold the port if nobody does and no server listens on it; returns whether it is held."""
    file = os.open(_LOCKS / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.create_server(("127.0.0.1", port)):
            _held.append(file)
            return True
    except OSError:
        os.close(file)
        return False
